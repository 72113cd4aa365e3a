"""What a replica is told and what it answers, as values.

Offsets are exclusive ends: a follower that asks for offset 3 holds everything below 3.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.storage.log_place import Lowering

RECOVERED: Final = 0
ANY_BROKER_EPOCH: Final = -1
"""Of a peer that does not say in which incarnation it speaks."""
UNKNOWN_OFFSET: Final = -1


class LeaderAndIsr(NamedTuple):
    """What the metadata says about a partition, as far as a replica acts on it."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovery_state: int = RECOVERED


# What a leader hears


class Listening(Protocol):
    """A follower's lasting interest in a partition, as a fetch session keeps it.

    While it lasts, every fetch of the session looks at the partition if there is anything new in
    it. So a follower that had everything when it was last looked at had everything, still, when
    it was last heard.
    """

    def last_heard_ms(self, now_ms: int) -> int:
        """When a request of the session was last here; now, while one waits here.

        Once the interest is over, when that was before its end.
        """
        ...


class FollowerFetch(NamedTuple):
    """A follower asks for `fetch_offset` and so holds everything below it."""

    replica_id: int
    broker_epoch: int
    fetch_offset: int
    log_start_offset: int
    leader_end_before_read: int
    """The end of the leader's log when the fetch was looked at."""
    listening: Listening | None = None


class InSyncReplicasAltered(NamedTuple):
    """The controller took a proposal; this is the partition now."""

    leader_epoch: int
    partition_epoch: int
    in_sync: tuple[int, ...]


AlterPartitionOutcome: TypeAlias = InSyncReplicasAltered | Refusal


class ProposalFate(Enum):
    """What became of a proposal after an answer to it."""

    COMMITTED = auto()
    REVERTED = auto()
    AWAITS_METADATA = auto()
    """It may have been applied or overtaken: the metadata will tell, asking again would not."""
    RETRY = auto()
    """Nobody decided: send the same proposal again after a pause."""
    OVERTAKEN = auto()
    """The answer belongs to a proposal that no longer stands."""


# What a leader asks for


class ProposedMember(NamedTuple):
    """A member of a proposed in-sync set, in the incarnation that fetched from the leader."""

    broker_id: int
    broker_epoch: int = ANY_BROKER_EPOCH


class ProposeInSyncReplicas(NamedTuple):
    """Ask the controller; until it answers, old and new members both count."""

    leader_epoch: int
    partition_epoch: int
    members: tuple[ProposedMember, ...]
    recovery_state: int
    cause: str

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(member.broker_id for member in self.members)


class ReadCandidate(NamedTuple):
    """A replica from which a consumer could read."""

    broker_id: int
    end_offset: int
    last_caught_up_ms: int


# What a follower asks and hears


class FetchState(NamedTuple):
    """What a follower puts into its next fetch of the partition.

    Two logs of a partition whose last records share offset and epoch are the same below, so the
    first three say all about the follower's log that an answer depends on.
    """

    fetch_offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class LeaderAnswer(NamedTuple):
    """What the leader answered to a fetch that was sent in that state."""

    sent: FetchState
    error: int = ErrorCode.none
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    records: memoryview | None = None
    diverging_epoch: tuple[int, int] | None = None
    """The epoch and its end in the leader's log, when the two logs part below the offset."""


class LeaderOffsets(NamedTuple):
    """Where the leader's log starts and ends, asked for as a replica in that state."""

    sent: FetchState
    start_offset: int
    end_offset: int


class Progress(NamedTuple):
    """The answer was used; ask again at once."""

    appended_bytes: int = 0
    truncated: bool = False


class Dropped(NamedTuple):
    """The replica moved on since it asked: the answer was not used. Ask again at once."""


class BackOff(NamedTuple):
    """Ask again after a pause."""

    pause_ms: int
    why: str


class NeedsOffsets(NamedTuple):
    """Ask the leader for its latest and earliest offsets, then call `offsets_told`."""


class MustLower(NamedTuple):
    """The log cannot be cut before this was run, away from the loop; then ask again."""

    lowering: Lowering


class Failed(NamedTuple):
    """Ask no more until the metadata gives a new leader epoch."""

    why: str


FollowerStep: TypeAlias = Progress | Dropped | BackOff | NeedsOffsets | MustLower | Failed
