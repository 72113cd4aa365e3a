"""Whether the voters are who they are taken for: a directory may name voters that its cluster has
not.

A node that was formatted for this cluster, but with voters of its own, would lead a quorum of its
own, or stand for ever in one that is not there. The others must not follow it, whatever epoch it
names, and it has to find out that it is the odd one.

Invariant  A voter that hears of a leader by a fetch follows it only once that one has answered as
           the replica that the log names: anybody can say that it leads. Who has not heard for long
           from any voter that it knows was away while they changed, and believes; but not in one
           that says it is another replica. A leader that counts on this voter will tell it so.
Invariant  A replica is known by its node id and its directory: what was learnt of one says nothing
           of another that has the same node id.
Invariant  What a replica says of itself counts only in answer to a question that named it. What a
           request says, anybody can say: it neither ends a node nor keeps one waiting.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.config import NodeConfig
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.model.time import Now
from tidelog.quorum.messages import (
    EndQuorumEpoch,
    OutboundRequest,
    QuorumResponse,
    ReplicaKey,
)
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
        self._recognised: set[ReplicaKey] = set()
        self._refusing: set[ReplicaKey] = set()
        """Voters that say that they are not the replicas that the log here names."""
        self._answered_ms = 0
        self._spoken_of = (NO_LEADER, -1)
        self.misplaced: str | None = None
        """Why this node cannot be part of its cluster's quorum as it was formatted."""

    def start(self, now: Now) -> None:
        self._answered_ms = now.monotonic_ms

    def answered(self, sent: OutboundRequest, response: QuorumResponse, now: Now) -> QuorumResponse:
        """What counts of an answer: nothing, unless it is that of the voter who was asked."""
        if isinstance(sent.request, EndQuorumEpoch):
            return response  # it named nobody
        if response.error == ErrorCode.none:
            self._recognised.add(sent.request.voter)
            self._refusing.clear()
            self._answered_ms = now.monotonic_ms
        elif response.error == ErrorCode.invalid_voter_key:
            self._recognised.discard(sent.request.voter)
            self._refusing.add(sent.request.voter)
            return response._replace(epoch=-1, leader_id=NO_LEADER, address=None, granted=False)
        return response

    def leader_answered(self, now: Now) -> None:
        """The leader gives this node the log, so it is not without a quorum."""
        self._answered_ms = now.monotonic_ms

    def believes(self, leader_id: int, voters: VoterSet, now: Now) -> bool:
        """Whether to follow somebody of whom it is said that it leads."""
        if leader_id < 0 or leader_id == self._own.id or voters.find(*self._own) is None:
            return True
        keys = {voter.voter_id: ReplicaKey(*voter.key) for voter in voters.voters}
        leader = keys.get(leader_id)
        if leader in self._recognised:
            return True
        if now.monotonic_ms - self._answered_ms <= self._patience_ms:
            return len(keys) == 1
        others = {key for voter_id, key in keys.items() if voter_id != self._own.id}
        strange = self._refusing & others
        if 2 * len(strange) <= len(others):
            return leader not in strange
        named = ", ".join(str(key.id) for key in sorted(strange))
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
