"""Groups, transactions and compaction together: each record is copied once, whatever strikes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from tidelog.coordinator.groups.offsets import Offsets
from tidelog.simulator.clients.copier import Copier
from tidelog.simulator.clients.table import TableReader
from tidelog.simulator.faults.swarm import draw_plan
from tidelog.simulator.run.runner import SeedResult, run_plan
from tidelog.simulator.run.setup import (
    standard_setup,
    with_compaction,
    with_groups,
    with_transactions,
)
from tidelog.simulator.world.world import World
from tidelog.storage.batch_cleaning import BatchCleaning

pytestmark = pytest.mark.long

EVERYTHING: Final = partial(
    standard_setup, with_transactions=True, with_groups=True, with_compaction=True
)


def run(seed: int, setup: Callable[[World], None] = EVERYTHING) -> SeedResult:
    plan = with_compaction(with_groups(with_transactions(draw_plan(seed))))
    return run_plan(plan, setup=setup)


@pytest.mark.parametrize("seed", [1, 2, 4, 10])
def test_each_input_is_copied_once_while_internal_topics_are_compacted(seed: int) -> None:
    worlds: list[World] = []

    def setup(world: World) -> None:
        worlds.append(world)
        EVERYTHING(world)

    assert run(seed, setup).violation is None
    clients = worlds[0].clients.values()
    copied = [
        transaction.is_promised
        for client in clients
        if isinstance(client, Copier)
        for transaction in client.transactions
        if transaction.commits
    ]
    assert copied.count(True) > 2, "a run in which hardly anything is copied proves nothing"
    assert any(isinstance(client, TableReader) and client.end_read_ms for client in clients)


_replay: Final = Offsets.replay


def _counts_at_once(self: Offsets, key: Any, value: Any, producer: Any) -> None:
    """An offset in a transaction counts before its end."""
    _replay(self, key, value, None)


_stays: Final = BatchCleaning._stays


def _drops_what_is_alone(self: BatchCleaning, batch: Any, record: Any) -> bool:
    """A record that is the newest of its key goes if it has its batch for itself."""
    is_alone = batch.header.record_count == 1 and record.value_length >= 0
    return _stays(self, batch, record) and not is_alone


MUTANTS: Final = [
    ("pending offsets count", Offsets, "replay", _counts_at_once, 2, {"X2", "X3"}),
    ("live keys are dropped", BatchCleaning, "_stays", _drops_what_is_alone, 1, {"K1"}),
]


@pytest.mark.parametrize(("name", "owner", "attribute", "instead", "seed", "rules"), MUTANTS)
def test_the_rules_notice_a_guard_that_is_gone(
    name: str,
    owner: Any,
    attribute: str,
    instead: Any,
    seed: int,
    rules: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, attribute, instead)
    violation = run(seed).violation
    assert violation is not None, name
    assert violation.rule in rules
