"""Whether the voters are who they are taken for: a directory may name voters that its cluster has
not.

A node that was formatted for this cluster, but with voters of its own, would lead a quorum of its
own, or stand for ever in one that is not there. The others must not follow it, whatever epoch it
names, and it has to find out that it is the odd one.

Invariant  A voter that asks around follows a leader only once that one has answered it as the
           replica that the log names: anybody can say that it leads. Who has not heard for long
           from any voter that it knows was away while they changed, and believes; but not in one
           that says it is another replica. A leader that counts on this voter will tell it so.
Invariant  What is meant for another replica, or answered by one, never reaches the quorum.
Invariant  A node is taken for misplaced only while no other voter has spoken to it as one, and only
           by answers of those whom it asked: what a request says, anybody can say.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.config import NodeConfig
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.model.time import Now
from tidelog.quorum.messages import QuorumResponse, ReplicaKey
from tidelog.quorum.voters import VoterSet

ELECTIONS: Final = 5
"""After so many election timeouts without a word from the voters it knows, a voter gives up."""
REMEDY: Final = (
    "format its metadata directory anew with --no-initial-controllers, then give it a vote with "
    "`tidelog cluster add-controller`"
)


class VoterRecognition:
    """What one replica knows of the others' identities since its start."""

    def __init__(self, config: NodeConfig, own: ReplicaKey) -> None:
        self._own = own
        self._patience_ms = ELECTIONS * config.controller_quorum_election_timeout_ms
        self._recognised: set[int] = set()
        self._refusing: set[int] = set()
        """Voters that say that they are not the replicas that the log here names."""
        self._spoken_to_ms = 0
        self._spoken_of = (NO_LEADER, -1)
        self.misplaced: str | None = None
        """Why this node cannot be part of its cluster's quorum as it was formatted."""

    def start(self, now: Now) -> None:
        self._spoken_to_ms = now.monotonic_ms

    def is_meant(self, addressed: ReplicaKey, now: Now) -> bool:
        """Whether a request is for this replica, and not for another one of the same node."""
        if not addressed.is_same(self._own):
            return False
        self._spoken_to(now)
        return True

    def answered(self, voter_id: int, response: QuorumResponse, now: Now) -> QuorumResponse:
        """What counts of an answer: nothing, unless it is that of the voter who was asked."""
        if response.error != ErrorCode.invalid_voter_key:
            if response.epoch >= 0:
                self._recognised.add(voter_id)
                self._spoken_to(now)
            return response
        self._recognised.discard(voter_id)
        self._refusing.add(voter_id)
        return response._replace(epoch=-1, leader_id=NO_LEADER, address=None, granted=False)

    def believes(self, leader_id: int, voters: VoterSet, now: Now) -> bool:
        """Whether to follow somebody of whom it is said that it leads."""
        known = (NO_LEADER, self._own.id, *self._recognised)
        if leader_id in known or voters.find(*self._own) is None:
            return True
        if now.monotonic_ms - self._spoken_to_ms <= self._patience_ms:
            return len(voters.voters) == 1
        others = {*voters.voter_ids} - {self._own.id}
        strange = self._refusing & others
        if 2 * len(strange) <= len(others):
            return leader_id not in strange
        named = ", ".join(map(str, sorted(strange)))
        self.misplaced = (
            f"the controllers {named} are not the voters that this node's directory names "
            f"(invalid_voter_key): {REMEDY}"
        )
        return False

    def wants_proof(self, leader_id: int, epoch: int) -> bool:
        """Whether to ask the voters at once of a leader that is not believed in: the first time
        that somebody speaks of it."""
        is_news = (leader_id, epoch) != self._spoken_of
        self._spoken_of = (leader_id, epoch)
        return is_news

    def _spoken_to(self, now: Now) -> None:
        self._refusing.clear()
        self._spoken_to_ms = now.monotonic_ms
