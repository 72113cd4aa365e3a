"""C8: a quorum leader from which no majority fetches resigns.

Invariant  Who fetches is read from the requests that the network carried to the leader, in its own
           epoch, not from what the leader remembers of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.node.core.inputs import FrameArrived, TimePassed
from tidelog.quorum.leader import Leader
from tidelog.simulator.rules.carried import metadata_follower
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import Stepped
from tidelog.simulator.world.machine import Machine


@dataclass(slots=True)
class _Reign:
    """What happened since a node leads."""

    leader: Leader
    heard_ms: dict[int, int] = field(default_factory=dict)
    """When each voter, while it is one, last fetched; when it became one, if not since."""


class MajorityFetches:
    """Follows everybody who leads the quorum, or thinks so; time is that of the leader's clock."""

    def __init__(self) -> None:
        self._reigns: dict[int, _Reign] = {}

    def look_at(self, machine: Machine, leader: Leader, step: Stepped) -> None:
        """After a step of a node that leads the quorum."""
        now_ms = step.happened.now.monotonic_ms
        reign = self._reigns.get(machine.node_id)
        if reign is None or reign.leader is not leader:
            reign = self._reigns[machine.node_id] = _Reign(leader)
        node = machine.node
        if node is None:
            return
        voters = node.quorum.voters.voter_ids
        heard_ms = {voter: reign.heard_ms.get(voter, now_ms) for voter in voters}
        is_request = isinstance(step.happened, FrameArrived)
        follower = metadata_follower(step.frame) if is_request else None
        if follower is not None and follower in ((voter, leader.epoch) for voter in voters):
            heard_ms[follower.replica_id] = now_ms
        reign.heard_ms = heard_ms
        if isinstance(step.happened, TimePassed):
            patience_ms = node.cluster.config.controller_quorum_fetch_timeout_ms * 3 // 2
            _judge(machine, leader, reign, now_ms, patience_ms)


def _judge(machine: Machine, leader: Leader, reign: _Reign, now_ms: int, patience_ms: int) -> None:
    voters = reign.heard_ms
    needed = len(voters) // 2 + 1 - (leader.leader_id in voters)
    others = sorted((ms for voter, ms in voters.items() if voter != leader.leader_id), reverse=True)
    if needed <= 0 or len(voters) <= 1:
        return
    alone_ms = now_ms - others[needed - 1]
    if alone_ms > patience_ms:
        why = f"{machine.name} leads quorum epoch {leader.epoch}"
        raise Violation("C8", f"{why} and heard of no majority for {alone_ms} ms")
