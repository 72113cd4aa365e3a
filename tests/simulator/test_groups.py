"""Groups in the simulator: coordinators die, promises live; and the rules would notice."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.node.coordinated_partition import CoordinatedPartition, State
from tidelog.node.shard_log import ReplayedLog
from tidelog.simulator.runner import SeedResult, run_plan
from tidelog.simulator.setup import grouped_setup, with_groups
from tidelog.simulator.swarm import draw_plan
from tidelog.simulator.workload_groups import Committer


def run(seed: int) -> SeedResult:
    return run_plan(with_groups(draw_plan(seed)), setup=grouped_setup)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_promised_offsets_last_and_no_partition_has_two_readers(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    committers: list[Committer] = []
    begin = Committer.on_started

    def remember(self: Committer) -> None:
        committers.append(self)
        begin(self)

    monkeypatch.setattr(Committer, "on_started", remember)
    result = run(seed)
    assert result.violation is None
    assert committers[0].promised > 5


def _answers_at_once(self: CoordinatedPartition[Any], now: Any, appended: Any, then: Any) -> None:
    """Before the in-sync replicas have it."""
    then(None)


_replay_current = ConsumerGroup._replay_current


def _notes_no_holder(self: ConsumerGroup, member_id: str, value: Any) -> None:
    _replay_current(self, member_id, value)
    self.holders.clear()


_ask = CoordinatedPartition.ask


def _serves_while_loading(
    self: CoordinatedPartition[Any], now: Any, command: Any, then: Any
) -> None:
    state = self.state
    if state is State.LOADING:
        self.state = State.ACTIVE
    _ask(self, now, command, then)
    self.state = state


MUTANTS = [
    ("answers do not wait", CoordinatedPartition, "_once_committed", _answers_at_once, {"G1"}),
    ("nothing is loaded", ReplayedLog, "replay_piece", lambda self: True, {"G1"}),
    ("partitions are given twice", ConsumerGroup, "_replay_current", _notes_no_holder, {"G3"}),
    ("commands are served too early", CoordinatedPartition, "ask", _serves_while_loading, {"G1"}),
]


@pytest.mark.parametrize(("name", "owner", "attribute", "instead", "rules"), MUTANTS)
def test_the_rules_notice_a_guard_that_is_gone(
    name: str,
    owner: Any,
    attribute: str,
    instead: Any,
    rules: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, attribute, instead)
    for seed in range(1, 9):
        violation = run(seed).violation
        if violation is not None:
            assert violation.rule in rules, violation
            return
    pytest.fail(f"{name}: nobody noticed")
