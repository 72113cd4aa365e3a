"""Throttled replication in the simulator: replicas are held up, and every rule is kept."""

from __future__ import annotations

import pytest

from tidelog.node.quotas.replication_throttle import ReplicationThrottle
from tidelog.simulator.faults.swarm import draw_plan
from tidelog.simulator.run.runner import run_plan
from tidelog.simulator.run.setup import standard_setup, with_throttles

pytestmark = pytest.mark.long

SEEDS_AT_A_TIME = 5


@pytest.mark.parametrize("first", range(1, 21, SEEDS_AT_A_TIME))
def test_rules_are_kept_while_replicas_are_held_up(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_up = 0
    is_exceeded = ReplicationThrottle.is_exceeded

    def counted(self: ReplicationThrottle) -> bool:
        nonlocal held_up
        exceeded = is_exceeded(self)
        held_up += exceeded
        return exceeded

    monkeypatch.setattr(ReplicationThrottle, "is_exceeded", counted)
    for seed in range(first, first + SEEDS_AT_A_TIME):
        plan = with_throttles(draw_plan(seed))
        assert run_plan(plan, setup=standard_setup).violation is None, f"seed {seed}"
    assert held_up > 10, "runs in which hardly anything is held up prove nothing"
