"""The driver's part of an exactly-once batch when transactions or decisions are lost."""

from __future__ import annotations

from typing import cast

import pytest

from tidelog.client.errors import RequestRefused
from tidelog.client.transactions import ListedTransaction, ProducerIdentity, Transactions
from tidelog.model.errors import ErrorCode
from tidelog.spark.errors import LostTransaction, SinkError
from tidelog.spark.options import write_options
from tidelog.spark.sink.batch_decision import BatchDecision
from tidelog.spark.sink.ledger import Ledger
from tidelog.spark.sink.ledger_records import Claim, Decision, LedgerState, Prepared
from tidelog.spark.sink.task_transaction import TaskIdentity, Written

TASKS = 4
OPTIONS = write_options({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}, streaming=True)


class MemoryLedger:
    """A ledger in memory."""

    def __init__(self) -> None:
        self.state = LedgerState()
        self.state.replay(Claim("run", 1, 0))

    def decide(self, run: str, batch: int, transactions: tuple[Prepared, ...]) -> Decision:
        decision = Decision(run, self.state.generation, batch, transactions)
        self.state.replay(decision)
        return decision


class Coordinator:
    """Knows some of the transactions no more."""

    def __init__(self, lost: set[str]) -> None:
        self.lost = lost
        self.committed: list[str] = []
        self.aborted: list[str] = []

    def end(self, transactional_id: str, producer: ProducerIdentity, *, commit: bool) -> None:
        if transactional_id in self.lost:
            raise RequestRefused(ErrorCode.producer_fenced, transactional_id)
        self.committed.append(transactional_id)

    def list(self, **_: object) -> list[ListedTransaction]:
        return [ListedTransaction("spark-query-1-7-0-99", 100, 5, "Ongoing")]

    def abort(self, transactional_id: str) -> None:
        self.aborted.append(transactional_id)


def name_of(task: int) -> str:
    return f"spark-query-1-7-{task}-{task}"


def written(task: int, *, found_decided: bool = False) -> Written:
    prepared = None if found_decided else Prepared(task, name_of(task), 10 + task, 0)
    return Written(TaskIdentity("query", "run", 7, task, task), prepared, 1)


def decision_of(
    reports: list[Written], lost: set[str] | None = None
) -> tuple[BatchDecision, Coordinator]:
    coordinator = Coordinator(lost or set())
    transactions, ledger = cast(Transactions, coordinator), cast(Ledger, MemoryLedger())
    return BatchDecision(OPTIONS, 7, reports, transactions, ledger), coordinator


def test_all_others_are_committed_before_the_lost_ones_are_named() -> None:
    reports = [written(task) for task in range(TASKS)]
    decision, coordinator = decision_of(reports, {name_of(0), name_of(2)})
    with pytest.raises(LostTransaction) as caught:
        decision.commit()
    assert coordinator.committed == [name_of(1), name_of(3)]
    assert coordinator.aborted == ["spark-query-1-7-0-99"], "leftovers hold back readers"
    message = str(caught.value)
    assert f"{name_of(0)} (task 0), {name_of(2)} (task 2)" in message
    assert "batch 7 was decided, but 2 of its transactions" in message
    assert "To go on, run the query once with delivery=at-least-once" in message
    assert "\n" not in message


def test_a_decision_that_has_vanished_is_said_with_the_way_out() -> None:
    decision, coordinator = decision_of([written(0), written(1, found_decided=True)])
    with pytest.raises(SinkError, match=r"not have the decision any more.*Start the query again"):
        decision.commit()
    assert coordinator.committed == []
