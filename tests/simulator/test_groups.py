"""Groups in the simulator: coordinators die, promises live; and the rules would notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.coordinator.groups.classic.group import ClassicGroup
from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.shard import GroupShard
from tidelog.node.coordination.coordinated_partition import CoordinatedPartition, State
from tidelog.node.coordination.shard_log import ReplayedLog
from tidelog.protocol.stored.groups import (
    GroupMetadataKey,
    OffsetCommitKey,
)
from tidelog.simulator.clients.offset_history import NOBODY, OffsetHistory, Outcome
from tidelog.simulator.faults.swarm import draw_plan
from tidelog.simulator.rules.offset_rules import OffsetRules
from tidelog.simulator.run.runner import SeedResult, run_plan
from tidelog.simulator.run.setup import grouped_setup, with_groups

pytestmark = pytest.mark.long


def run(seed: int) -> SeedResult:
    return run_plan(with_groups(draw_plan(seed)), setup=grouped_setup)


@pytest.fixture
def histories(monkeypatch: pytest.MonkeyPatch) -> list[OffsetHistory]:
    """What the groups of all runs were asked and told."""
    kept: list[OffsetHistory] = []
    watch = OffsetRules.watch

    def remember(self: OffsetRules) -> None:
        kept.append(self._history)
        watch(self)

    monkeypatch.setattr(OffsetRules, "watch", remember)
    return kept


def test_promises_to_groups_are_kept(histories: list[OffsetHistory]) -> None:
    assert [run(seed).violation for seed in (3, 5, 8)] == [None] * 3

    simple, classic = histories[::2], histories[1::2]
    noted = [each for group in simple for each in group.commits[group.partitions[0]]]
    assert sum(each.outcome is Outcome.DONE for each in noted) > 15
    by_members = [each for group in classic for kept in group.commits.values() for each in kept]
    assert all(each.by is not NOBODY for each in by_members)
    assert sum(each.outcome is Outcome.DONE for each in by_members) > 15
    assert any(each.outcome is Outcome.REFUSED for each in by_members)
    assert any(each.outcome is Outcome.DONE for group in classic for each in group.deletions)


def _answers_at_once(
    self: CoordinatedPartition[Any, Any], now: Any, appended: Any, then: Any
) -> None:
    """Before the in-sync replicas have it."""
    then(None)


_replay_current = ConsumerGroup._replay_current


def _notes_no_holder(self: ConsumerGroup, member_id: str, value: Any) -> None:
    _replay_current(self, member_id, value)
    self.holders.clear()


_ask = CoordinatedPartition.ask


def _serves_while_loading(
    self: CoordinatedPartition[Any, Any], now: Any, command: Any, then: Any
) -> None:
    state = self.state
    if state is State.LOADING:
        self.state = State.ACTIVE
    _ask(self, now, command, then)
    self.state = state


_commit_offsets = GroupShard.commit_offsets


def _commits_in_any_generation(self: GroupShard, commit: Any, now: Any) -> Any:
    group = self.groups.get(commit.group_id)
    if isinstance(group, ClassicGroup) and commit.generation >= 0:
        commit = commit._replace(generation=group.generation)
    return _commit_offsets(self, commit, now)


_restore = ClassicGroup.restore


def _loads_the_first_generation(self: ClassicGroup, stored: Any) -> None:
    """What is written now is of the generation that the group is in, or empties it."""
    is_loading = self.generation > 0 and stored.generation != self.generation
    if not (is_loading and stored.members):
        _restore(self, stored)


_decode = GroupShard.decode


def _without_tombstones_of(kind: type) -> Callable[..., Any]:
    """What is loaded when the ends of such things are overlooked."""

    def decode(self: GroupShard, key: bytes, value: bytes | None) -> Any:
        found = _decode(self, key, value)
        is_end = found is not None and value is None and isinstance(found.key, kind)
        return None if is_end else found

    return decode


_LOADS_NO_END_OF_OFFSETS = _without_tombstones_of(OffsetCommitKey)
_LOADS_NO_END_OF_GROUPS = _without_tombstones_of(GroupMetadataKey)


SEEDS_MOST = 13
SHOWN_BY = {
    "answers do not wait": 3,
    "partitions are given twice": 2,
    "commands are served too early": 3,
    "any generation commits": 9,
    "old members are loaded": 31,
    "offsets outlive their deletion": 5,
    "a group outlives its deletion": 28,
}
"""Runs that are known to show it come first."""
SHARD = GroupShard
PARTITION = CoordinatedPartition
MUTANTS = [
    ("answers do not wait", PARTITION, "_once_committed", _answers_at_once, {"G1"}),
    ("nothing is loaded", ReplayedLog, "replay_piece", lambda self: True, {"G1"}),
    ("partitions are given twice", ConsumerGroup, "_replay_current", _notes_no_holder, {"G3"}),
    ("commands are served too early", PARTITION, "ask", _serves_while_loading, {"G1", "G6"}),
    ("any generation commits", SHARD, "commit_offsets", _commits_in_any_generation, {"G5"}),
    ("old members are loaded", ClassicGroup, "restore", _loads_the_first_generation, {"G1", "G5"}),
    ("offsets outlive their deletion", SHARD, "decode", _LOADS_NO_END_OF_OFFSETS, {"G6"}),
    ("a group outlives its deletion", SHARD, "decode", _LOADS_NO_END_OF_GROUPS, {"G6"}),
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
    for seed in (SHOWN_BY.get(name, 1), *range(1, SEEDS_MOST)):
        violation = run(seed).violation
        if violation is not None:
            assert violation.rule in rules, violation
            return
    pytest.fail(f"{name}: nobody noticed")
