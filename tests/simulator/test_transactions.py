"""Transactions in the simulator: no fault makes half of one visible, and the rules would notice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from tidelog.coordinator.transactions.shard import TransactionShard
from tidelog.coordinator.transactions.transaction import Transaction, TransactionState
from tidelog.node.coordination.transaction_markers import TransactionMarkers
from tidelog.node.fetching import fetch_reading
from tidelog.replication.local_replica import LocalReplica
from tidelog.replication.written_ends import WrittenEnds
from tidelog.simulator.clients.committed import CommittedReader
from tidelog.simulator.clients.transactions import TransactionalProducer
from tidelog.simulator.faults.swarm import draw_plan
from tidelog.simulator.run.runner import SeedResult, run_plan
from tidelog.simulator.run.setup import transactional_setup, with_transactions
from tidelog.storage import producer, producer_state
from tidelog.storage.producer import check_marker
from tidelog.storage.producer_state import OpenTransactions

pytestmark = pytest.mark.long

RULES: Final = frozenset({"T", *(f"T{number}" for number in range(1, 11))})
VERIFICATION: Final = "transaction.partition.verification.enable"
SEEDS_MOST: Final = 10
LAST_EPOCH: Final = (1 << 31) - 1


def run(seed: int, settings: Mapping[str, str] | None = None) -> SeedResult:
    plan = with_transactions(draw_plan(seed))
    plan = replace(plan, settings=(*plan.settings, *(settings or {}).items()))
    return run_plan(plan, setup=transactional_setup)


@pytest.mark.parametrize("seed", [2, 3])
def test_transactions_are_atomic_whatever_strikes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    producers: list[TransactionalProducer] = []
    begin = TransactionalProducer.on_started

    def remember(self: TransactionalProducer) -> None:
        producers.append(self)
        begin(self)

    readers: list[CommittedReader] = []
    read = CommittedReader.on_started

    def remember_reader(self: CommittedReader) -> None:
        readers.append(self)
        read(self)

    monkeypatch.setattr(TransactionalProducer, "on_started", remember)
    monkeypatch.setattr(CommittedReader, "on_started", remember_reader)
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
    assert all(seen.total() > 5 for seen in readers[0].seen.values())


def _forgets_markers(self: TransactionMarkers, now: Any) -> None:
    """Ends are complete at once, and nothing is written."""
    for pending in list(self._pending.values()):
        pending.due.clear()
        self._complete(pending, now)


_MARK = property(lambda replica: replica.high_watermark.offset)
_decided = TransactionShard._decided


def _always_commits(self: TransactionShard, transactional_id: str, ended: Any) -> None:
    if isinstance(ended, Transaction):
        ended = replace(ended, state=TransactionState.PREPARE_COMMIT)
    _decided(self, transactional_id, ended)


def _any_coordinator(header: Any, marker: Any, producer: Any, version: int) -> Any:
    return check_marker(header, marker._replace(coordinator_epoch=LAST_EPOCH), producer, version)


MUTANTS = [
    ("no markers", TransactionMarkers, "send", _forgets_markers, {"T8"}),
    ("markers are never sent", TransactionMarkers, "send", lambda *_: None, {"T10"}),
    ("every marker commits", TransactionShard, "_decided", _always_commits, {"T9"}),
    ("all that is replicated is stable", LocalReplica, "last_stable_offset", _MARK, {"T9"}),
    ("aborted transactions are not named", fetch_reading, "_aborted", lambda *_: [], {"T9"}),
    ("old coordinators are not fenced", producer_state, "check_marker", _any_coordinator, {"T8"}),
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
    violation = run(2).violation
    assert violation is not None, name
    assert violation.rule in rules


_answered = TransactionMarkers._answered


def _asks_once(self: TransactionMarkers, pending: Any, name: Any, code: Any, now: Any) -> None:
    """Who did not write a marker is not asked again."""
    _answered(self, pending, name, code, now)
    pending.asked.update(pending.due & {name})


def _never_completes(self: TransactionMarkers, pending: Any, _now: Any) -> None:
    """All markers are written, and the coordinator does not hear of it."""
    self._drop(pending)


@pytest.mark.parametrize(
    ("attribute", "instead", "seed"),
    [("_answered", _asks_once, 21), ("_complete", _never_completes, 2)],
)
def test_the_rules_notice_ends_of_transactions_that_are_never_finished(
    attribute: str, instead: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TransactionMarkers, attribute, instead)
    violation = run(seed).violation
    assert violation is not None
    assert violation.rule == "T10"


def test_the_rules_notice_producers_that_are_not_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaders that ask the coordinator first hear there that a producer is fenced: they do not."""
    monkeypatch.setattr(producer, "stale_epoch", lambda *_: None)
    found = (run(seed, {VERIFICATION: "false"}).violation for seed in range(2, SEEDS_MOST))
    violation = next(filter(None, found), None)
    assert violation is not None
    assert violation.rule in RULES


def test_the_rules_notice_orders_that_count_as_often_as_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WrittenEnds, "repeated", lambda *_: None)
    violation = run(8).violation
    assert violation is not None
    assert violation.rule == "T9"


def test_the_rules_notice_ends_of_transactions_that_count_before_they_are_replicated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def undecided_alone(self: OpenTransactions, high_watermark: int) -> int | None:
        return next(iter(self._open.values()), None)

    monkeypatch.setattr(OpenTransactions, "first_unstable_offset", undecided_alone)
    found = (run(seed).violation for seed in range(2, SEEDS_MOST))
    violation = next(filter(None, found), None)
    assert violation is not None
    assert violation.rule in RULES


def test_producers_are_fenced_by_leaders_that_do_not_ask() -> None:
    assert run(2, {VERIFICATION: "false"}).violation is None
