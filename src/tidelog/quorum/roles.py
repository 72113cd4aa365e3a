"""What a node can be in an epoch of the quorum, and which votes it gives as that.

    Unattached    knows the epoch, follows nobody; as voter it stands when its time is up
    Prospective   asks whether it would be elected, before it disturbs anybody (pre-vote)
    Candidate     voted for itself in a new epoch and asks the others to
    Leader        was elected (see `leader`)
    Follower      fetches from the leader; as voter it stands when it cannot for too long
    Resigned      led this epoch and does so no more

Invariant  A role is built anew for each epoch and never changes into another one; `quorum_state`
           says which may follow on which.
Invariant  Within an epoch a replica gives its vote to one candidate, and to none once it knows
           the leader (C2); a vote needs a log that is not behind ours (C3).
Invariant  A voter counts once in an election, with its first answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from tidelog.model.ids import NO_LEADER, ZERO_UUID
from tidelog.quorum.election_state import ElectionState
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import Address, ReplicaKey

NO_VOTE: Final = ReplicaKey(ElectionState().voted_id, ElectionState().voted_directory_id)


class PendingVoters:
    """Voters that are asked until they answer; at most one question to each is under way."""

    def __init__(self, voter_ids: Iterable[int], now_ms: int) -> None:
        self._due = dict.fromkeys(voter_ids, now_ms)
        self._under_way: set[int] = set()

    @property
    def due_ms(self) -> int | None:
        """When somebody is to be asked."""
        waiting = self._due.keys() - self._under_way
        return min((self._due[voter_id] for voter_id in waiting), default=None)

    @property
    def are_done(self) -> bool:
        """Whether everybody has answered."""
        return not self._due

    def take_due(self, now_ms: int) -> list[int]:
        """Whom to ask now."""
        due = [
            voter_id
            for voter_id, due_ms in sorted(self._due.items())
            if due_ms <= now_ms and voter_id not in self._under_way
        ]
        self._under_way.update(due)
        return due

    def answered(self, voter_id: int) -> None:
        """No need to ask again."""
        self._due.pop(voter_id, None)
        self._under_way.discard(voter_id)

    def unanswered(self, voter_id: int, again_ms: int) -> None:
        """The question was lost."""
        if voter_id in self._due:
            self._due[voter_id] = again_ms
            self._under_way.discard(voter_id)


class EpochElection:
    """The votes of one election, in which this node votes for itself."""

    def __init__(self, own_id: int, voter_ids: Iterable[int], now_ms: int) -> None:
        self._voter_ids = frozenset(voter_ids)
        self._granted = {own_id} & self._voter_ids
        self._rejected: set[int] = set()
        self.pending = PendingVoters(sorted(self._voter_ids - {own_id}), now_ms)

    @property
    def granting(self) -> tuple[int, ...]:
        """Who voted for this node."""
        return tuple(sorted(self._granted))

    @property
    def is_won(self) -> bool:
        return len(self._granted) > len(self._voter_ids) // 2

    @property
    def is_lost(self) -> bool:
        """Whether the votes still to come cannot make a majority."""
        return len(self._voter_ids) - len(self._rejected) <= len(self._voter_ids) // 2

    def counted(self, voter_id: int, *, granted: bool) -> None:
        """A voter has answered."""
        self.pending.answered(voter_id)
        if voter_id in self._voter_ids and voter_id not in self._granted | self._rejected:
            (self._granted if granted else self._rejected).add(voter_id)


class Unattached:
    """Follows nobody. It may know who leads without knowing where that one is to be found."""

    __slots__ = ("due_ms", "epoch", "leader_id", "voted")
    name = "unattached"
    pending = None

    def __init__(
        self, epoch: int, due_ms: int, *, leader_id: int = NO_LEADER, voted: ReplicaKey = NO_VOTE
    ) -> None:
        self.epoch = epoch
        self.due_ms = due_ms
        self.leader_id = leader_id
        self.voted = voted

    @property
    def election_state(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, *self.voted)

    def grants_pre_vote(self) -> bool:
        return True

    def grants_vote(self, candidate: ReplicaKey) -> bool:
        return _may_still_vote(self.leader_id, self.voted, candidate)


class Prospective:
    """Asks for pre-votes in the epoch it is in, and has not given up its leader for good."""

    __slots__ = ("address", "due_ms", "election", "epoch", "leader_id", "voted")
    name = "prospective"

    def __init__(
        self,
        epoch: int,
        due_ms: int,
        election: EpochElection,
        *,
        leader_id: int,
        address: Address | None,
        voted: ReplicaKey,
    ) -> None:
        self.epoch = epoch
        self.due_ms = due_ms
        self.election = election
        self.leader_id = leader_id
        self.address = address
        self.voted = voted

    @property
    def pending(self) -> PendingVoters:
        return self.election.pending

    @property
    def election_state(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, *self.voted)

    def grants_pre_vote(self) -> bool:
        return True

    def grants_vote(self, candidate: ReplicaKey) -> bool:
        return _may_still_vote(self.leader_id, self.voted, candidate)


class Candidate:
    """Asks for votes in an epoch of its own making."""

    __slots__ = ("due_ms", "election", "epoch", "voted")
    name = "candidate"
    leader_id = NO_LEADER

    def __init__(
        self, epoch: int, due_ms: int, election: EpochElection, *, voted: ReplicaKey
    ) -> None:
        self.epoch = epoch
        self.due_ms = due_ms
        self.election = election
        self.voted = voted

    @property
    def pending(self) -> PendingVoters:
        return self.election.pending

    @property
    def election_state(self) -> ElectionState:
        return ElectionState(self.epoch, NO_LEADER, *self.voted)

    def grants_pre_vote(self) -> bool:
        return True

    def grants_vote(self, candidate: ReplicaKey) -> bool:
        return False


class Follower:
    """Fetches from the leader of its epoch."""

    __slots__ = (
        "address",
        "due_ms",
        "epoch",
        "has_fetched",
        "leader_disconnected",
        "leader_high_watermark",
        "leader_id",
        "leader_resigned",
        "voted",
    )
    name = "follower"
    pending = None

    def __init__(
        self, epoch: int, due_ms: int, *, leader_id: int, address: Address, voted: ReplicaKey
    ) -> None:
        self.epoch = epoch
        self.due_ms = due_ms
        self.leader_id = leader_id
        self.address = address
        self.voted = voted
        self.has_fetched = False
        self.leader_disconnected = False
        """Without a word, and it was not heard of since."""
        self.leader_resigned = False
        self.leader_high_watermark: int | None = None
        """As the leader told it; None before it has."""

    @property
    def election_state(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, *self.voted)

    def fetched(self, due_ms: int) -> None:
        """The leader answered; it has until then to do so again, unless it is about to leave."""
        self.has_fetched = True
        self.leader_disconnected = False
        if not self.leader_resigned:
            self.due_ms = due_ms

    def disconnected(self, due_ms: int) -> None:
        """The leader seems to be gone, and has until then to show that it is not."""
        self.due_ms = min(self.due_ms, due_ms)
        self.leader_disconnected = True

    def resigned(self, due_ms: int) -> None:
        """The leader said that it will not lead any longer."""
        self.due_ms = min(self.due_ms, due_ms)
        self.leader_resigned = True

    def grants_pre_vote(self) -> bool:
        """Not while the leader is there: that one should not be disturbed."""
        return not self.has_fetched or self.leader_disconnected or self.leader_resigned

    def grants_vote(self, candidate: ReplicaKey) -> bool:
        return False


class Resigned:
    """Led this epoch. It tells the voters so, and begins a new epoch if nobody else does."""

    __slots__ = ("due_ms", "epoch", "leader_id", "pending", "successors")
    name = "resigned"
    voted = NO_VOTE

    def __init__(
        self,
        epoch: int,
        due_ms: int,
        pending: PendingVoters,
        *,
        leader_id: int,
        successors: tuple[ReplicaKey, ...],
    ) -> None:
        self.epoch = epoch
        self.due_ms = due_ms
        self.leader_id = leader_id
        self.pending = pending
        self.successors = successors

    @property
    def election_state(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id)

    def grants_pre_vote(self) -> bool:
        return True

    def grants_vote(self, candidate: ReplicaKey) -> bool:
        return False


Role: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned


def voted_in(state: ElectionState) -> ReplicaKey:
    """Whom the stored state names as voted for."""
    return ReplicaKey(state.voted_id, state.voted_directory_id)


def _may_still_vote(leader_id: int, voted: ReplicaKey, candidate: ReplicaKey) -> bool:
    if leader_id != NO_LEADER:
        return False
    if voted == NO_VOTE:
        return True
    return voted.id == candidate.id and voted.directory_id in (ZERO_UUID, candidate.directory_id)
