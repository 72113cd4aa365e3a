"""Transactions in the simulator: no fault makes half of one visible, and the rules would notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidelog.coordinator.transactions.shard import TransactionShard
from tidelog.coordinator.transactions.transaction import Transaction, TransactionState
from tidelog.node.transaction_markers import TransactionMarkers
from tidelog.simulator.runner import SeedResult, run_plan
from tidelog.simulator.setup import transactional_setup, with_transactions
from tidelog.simulator.swarm import draw_plan
from tidelog.simulator.workload_transactions import TransactionalProducer


def run(seed: int) -> SeedResult:
    return run_plan(with_transactions(draw_plan(seed)), setup=transactional_setup)


@pytest.mark.parametrize("seed", [2, 3])
def test_transactions_are_atomic_whatever_strikes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    producers: list[TransactionalProducer] = []
    begin = TransactionalProducer.on_started

    def remember(self: TransactionalProducer) -> None:
        producers.append(self)
        begin(self)

    monkeypatch.setattr(TransactionalProducer, "on_started", remember)
    result = run(seed)

    assert result.violation is None
    promised = [
        transaction.commits
        for producer in producers
        for transaction in producer.transactions
        if transaction.is_promised
    ]
    assert promised.count(True) > 5
    assert promised.count(False) > 2


def _forgets_markers(self: TransactionMarkers, now: Any) -> None:
    """Ends are complete at once, and nothing is written."""
    for pending in list(self._pending.values()):
        pending.due.clear()
        self._complete(pending, now)


_decided = TransactionShard._decided


def _always_commits(self: TransactionShard, transactional_id: str, ended: Any) -> None:
    if isinstance(ended, Transaction):
        ended = replace(ended, state=TransactionState.PREPARE_COMMIT)
    _decided(self, transactional_id, ended)


MUTANTS = [
    ("no markers", TransactionMarkers, "send", _forgets_markers),
    ("every marker commits", TransactionShard, "_decided", _always_commits),
]


@pytest.mark.parametrize(("name", "owner", "attribute", "instead"), MUTANTS)
def test_the_rules_notice_a_guard_that_is_gone(
    name: str, owner: Any, attribute: str, instead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, attribute, instead)
    violation = run(2).violation
    assert violation is not None, name
    assert violation.rule in {"T1", "T2", "T3", "T4", "T5", "T"}
