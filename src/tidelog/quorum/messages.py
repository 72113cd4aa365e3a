"""What voters ask each other about who leads (Vote, BeginQuorumEpoch, EndQuorumEpoch), decoded.

Invariant  Every request and every response carries the epoch its sender is in: whoever hears of a
           later epoch than his own adopts it before anything else, if it can be true.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, ZERO_UUID
from tidelog.quorum.control_records import Voter

Address: TypeAlias = tuple[str, int]
NOT_TOLD: Final = -1
EPOCH_MAX: Final = (1 << 31) - 1
"""An epoch is an int32; in the last one there can be no other election."""
_ORDINARY_EPOCHS: Final = 1 << 30
"""An election a second for 34 years."""
_EPOCHS_AT_ONCE: Final = 1 << 10


def can_follow(epoch: int, known: int) -> bool:
    """Whether `epoch` may have come to pass, for one who knows of `known`: a single word must not
    use up the epochs that there are."""
    return epoch <= max(_ORDINARY_EPOCHS, known + _EPOCHS_AT_ONCE)


class ReplicaKey(NamedTuple):
    """A replica of the metadata log: a node with another directory is another replica."""

    id: int
    """-1 when it is not told."""
    directory_id: UUID = ZERO_UUID
    """Zero when it is not told."""

    def is_same(self, other: ReplicaKey) -> bool:
        """Whether both may be the same replica; what was not told fits anything."""
        ids = {self.id, other.id} - {NOT_TOLD}
        directories = {self.directory_id, other.directory_id} - {ZERO_UUID}
        return len(ids) < 2 and len(directories) < 2


class LogEnd(NamedTuple):
    """Where a log ends: of two, the one with the later epoch has more, then the longer one."""

    epoch: int
    offset: int


class Vote(NamedTuple):
    """A voter wants to lead: the next epoch (pre-vote, which binds nobody), or this one."""

    epoch: int
    """A candidate's own epoch; before that, in a pre-vote, the epoch it would leave."""
    candidate: ReplicaKey
    voter: ReplicaKey
    last_epoch: int
    end_offset: int
    pre_vote: bool


class BeginQuorumEpoch(NamedTuple):
    """The new leader tells a voter whom to follow."""

    epoch: int
    leader_id: int
    voter: ReplicaKey
    address: Address | None = None


class EndQuorumEpoch(NamedTuple):
    """The leader leaves; the first of the successors need not wait to be sure of it."""

    epoch: int
    leader_id: int
    successors: tuple[ReplicaKey, ...]
    address: Address | None = None


class QuorumResponse(NamedTuple):
    """What the asked one knows of the quorum; `granted` says whether its vote was given."""

    error: int
    epoch: int
    leader_id: int = NO_LEADER
    address: Address | None = None
    """Where the leader listens."""
    granted: bool = False

    @property
    def is_granted(self) -> bool:
        """The request was understood, nobody is ahead of who sent it, and it got the vote."""
        return self.granted and self.error == ErrorCode.none


QuorumRequest: TypeAlias = Vote | BeginQuorumEpoch | EndQuorumEpoch


class OutboundRequest(NamedTuple):
    """A request on its way to a voter."""

    to: Voter
    request: QuorumRequest
