"""The voters as one of the replicas sees them: who they are to it, and where they are found."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.quorum.control_records import Voter
from tidelog.quorum.messages import Address, ReplicaKey
from tidelog.quorum.tally import Tally
from tidelog.quorum.voter_set import VoterSet


class Membership:
    """Always by the newest voters in the log, which may change at any time."""

    def __init__(self, own: ReplicaKey, listener: str, voters: Callable[[], VoterSet]) -> None:
        """`listener` is the one the members of the quorum use among themselves."""
        self.own = own
        self.listener = listener
        self._voters = voters

    @property
    def is_voter(self) -> bool:
        """Whether this replica has a vote."""
        return self._voters().find(*self.own) is not None

    @property
    def has_rivals(self) -> bool:
        """Whether this replica has a vote, and is not the only one."""
        return self.is_voter and len(self._voters().voters) > 1

    def find(self, voter_id: int) -> Voter | None:
        return self._voters().by_id(voter_id)

    def key_of(self, voter_id: int) -> ReplicaKey:
        """The voter with that id, with its directory if that is known."""
        voter = self.find(voter_id)
        return ReplicaKey(voter_id) if voter is None else ReplicaKey(*voter.key)

    def address_of(self, voter_id: int) -> Address | None:
        """Where a voter listens for the quorum."""
        voter = self.find(voter_id)
        return None if voter is None else voter.address(self.listener)

    def rank_without(self, leader_id: int) -> tuple[int, int]:
        """The place of this voter among those besides the leader, and how many they are."""
        others = [each for each in self._voters().voter_ids if each != leader_id]
        own_id = self.own.id
        return others.index(own_id) if own_id in others else len(others), len(others)

    def new_tally(self, now_ms: int) -> Tally:
        """An election among the voters, with this one's own vote in it."""
        return Tally(self.own.id, self._voters().voter_ids, now_ms)
