"""What a node can be in an epoch of the quorum, and which votes it gives as that.

    Unattached    knows the epoch, follows nobody; as voter it stands when its time is up
    Prospective   asks whether it would be elected, before it disturbs anybody (pre-vote)
    Candidate     voted for itself in a new epoch and asks the others to
    Leader        was elected (see `leader`)
    Follower      fetches from the leader; as voter it stands when it cannot for too long
    Resigned      led this epoch and does so no more

Invariant  A role is built anew for each epoch and never changes into another one; `elections`
           makes the moves.
Invariant  Within an epoch a replica gives its vote to one candidate, and to none once it knows
           the leader (C2); a vote needs a log that is not behind ours (C3).
"""

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import UUID

from tidelog.model.ids import NO_LEADER
from tidelog.quorum.election_state import ElectionState
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import Address, ReplicaKey
from tidelog.quorum.tally import Reminders, Tally

NO_VOTE: Final = ReplicaKey(ElectionState().voted_id, ElectionState().voted_directory_id)


class Unattached:
    """Follows nobody. It may know who leads without knowing where that one is to be found."""

    __slots__ = ("due_ms", "epoch", "leader_id", "voted")
    name = "unattached"
    reminders = None

    def __init__(
        self, epoch: int, due_ms: int, *, leader_id: int = NO_LEADER, voted: ReplicaKey = NO_VOTE
    ) -> None:
        self.epoch = epoch
        self.due_ms = due_ms
        self.leader_id = leader_id
        self.voted = voted

    @property
    def promised(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, *self.voted)

    def grants_pre_vote(self) -> bool:
        return True

    def grants_vote(self, candidate: ReplicaKey) -> bool:
        return _may_still_vote(self.leader_id, self.voted, candidate)


class Prospective:
    """Asks for pre-votes in the epoch it is in, and has not given up its leader for good."""

    __slots__ = ("address", "due_ms", "epoch", "leader_id", "tally", "voted")
    name = "prospective"

    def __init__(
        self,
        epoch: int,
        due_ms: int,
        tally: Tally,
        *,
        leader_id: int,
        address: Address | None,
        voted: ReplicaKey,
    ) -> None:
        self.epoch = epoch
        self.due_ms = due_ms
        self.tally = tally
        self.leader_id = leader_id
        self.address = address
        self.voted = voted

    @property
    def reminders(self) -> Reminders:
        return self.tally.reminders

    @property
    def promised(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, *self.voted)

    def grants_pre_vote(self) -> bool:
        return True

    def grants_vote(self, candidate: ReplicaKey) -> bool:
        return _may_still_vote(self.leader_id, self.voted, candidate)


class Candidate:
    """Asks for votes in an epoch of its own making."""

    __slots__ = ("due_ms", "epoch", "tally", "voted")
    name = "candidate"
    leader_id = NO_LEADER

    def __init__(self, epoch: int, due_ms: int, tally: Tally, *, voted: ReplicaKey) -> None:
        self.epoch = epoch
        self.due_ms = due_ms
        self.tally = tally
        self.voted = voted

    @property
    def reminders(self) -> Reminders:
        return self.tally.reminders

    @property
    def promised(self) -> ElectionState:
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
        "leader_hung_up",
        "leader_id",
        "leader_resigned",
        "voted",
    )
    name = "follower"
    reminders = None

    def __init__(
        self, epoch: int, due_ms: int, *, leader_id: int, address: Address, voted: ReplicaKey
    ) -> None:
        self.epoch = epoch
        self.due_ms = due_ms
        self.leader_id = leader_id
        self.address = address
        self.voted = voted
        self.has_fetched = False
        self.leader_hung_up = False
        """Without a word, and it was not heard of since."""
        self.leader_resigned = False

    @property
    def promised(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, *self.voted)

    def fetched(self, due_ms: int) -> None:
        """The leader answered; it has until then to do so again, unless it is about to leave."""
        self.has_fetched = True
        self.leader_hung_up = False
        if not self.leader_resigned:
            self.due_ms = due_ms

    def hung_up(self, due_ms: int) -> None:
        """The leader seems to be gone, and has until then to show that it is not."""
        self.due_ms = min(self.due_ms, due_ms)
        self.leader_hung_up = True

    def resigned(self, due_ms: int) -> None:
        """The leader said that it will not lead any longer."""
        self.due_ms = min(self.due_ms, due_ms)
        self.leader_resigned = True

    def grants_pre_vote(self) -> bool:
        """Not while the leader is there: that one should not be disturbed."""
        return not self.has_fetched or self.leader_hung_up or self.leader_resigned

    def grants_vote(self, candidate: ReplicaKey) -> bool:
        return False


class Resigned:
    """Led this epoch. It tells the voters so, and begins a new epoch if nobody else does."""

    __slots__ = ("due_ms", "epoch", "leader_id", "reminders", "successors")
    name = "resigned"
    voted = NO_VOTE

    def __init__(
        self,
        epoch: int,
        due_ms: int,
        reminders: Reminders,
        *,
        leader_id: int,
        successors: tuple[ReplicaKey, ...],
    ) -> None:
        self.epoch = epoch
        self.due_ms = due_ms
        self.leader_id = leader_id
        self.reminders = reminders
        self.successors = successors

    @property
    def promised(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id)

    def grants_pre_vote(self) -> bool:
        return True

    def grants_vote(self, candidate: ReplicaKey) -> bool:
        return False


Role: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned


def voted_in(state: ElectionState) -> ReplicaKey:
    """Whom the stored state names as voted for."""
    directory_id: UUID = state.voted_directory_id
    return ReplicaKey(state.voted_id, directory_id)


def _may_still_vote(leader_id: int, voted: ReplicaKey, candidate: ReplicaKey) -> bool:
    if leader_id != NO_LEADER:
        return False
    return voted == NO_VOTE or voted.is_same(candidate)
