"""A transaction coordinator over a log in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Any, TypeAlias

import pytest

from tidelog.coordinator.result import CoordinatorResult, ProducerIdAndEpoch
from tidelog.coordinator.transactions.add_partitions import AddPartitionsToTxn
from tidelog.coordinator.transactions.ending import EndedTransaction, EndTxn
from tidelog.coordinator.transactions.initialisation import InitProducerId, InitProducerIdReply
from tidelog.coordinator.transactions.records import TransactionRecord
from tidelog.coordinator.transactions.shard import TransactionRules, TransactionShard
from tidelog.coordinator.transactions.transaction import Transaction
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now

RULES = TransactionRules(
    max_timeout_ms=900_000,
    timeout_check_ms=10_000,
    expiration_ms=604_800_000,
    expiration_check_ms=3_600_000,
    join_wait_ms=100,
    two_phase_enabled=True,
)
ORDERS = frozenset({TopicPartition("orders", 0)})


class SetTimers:
    """Remembers what is to be done when."""

    def __init__(self) -> None:
        self.due: dict[Hashable, tuple[int, Callable[[Now], CoordinatorResult[Any, None]]]] = {}

    def set(
        self, key: Hashable, due_ms: int, command: Callable[[Now], CoordinatorResult[Any, None]]
    ) -> None:
        self.due[key] = (due_ms, command)

    def cancel(self, key: Hashable) -> None:
        self.due.pop(key, None)


class Markers:
    """Remembers which ends are to be marked."""

    def __init__(self) -> None:
        self.asked: list[EndedTransaction] = []

    def write(self, ended: EndedTransaction) -> None:
        self.asked.append(ended)

    def forget(self, transactional_ids: Collection[str]) -> None:
        self.asked = [
            ended for ended in self.asked if ended.transactional_id not in transactional_ids
        ]


class CoordinatorBench:
    """Carries out decisions as the node does, without replicas."""

    def __init__(self, rules: TransactionRules = RULES, version: int = 2) -> None:
        self.rules = rules
        self.version = version
        self.now = Now(0, 1_700_000_000_000)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.next_producer_id = 1000
        self.coordinator_epoch = 0
        self.batch_bytes = 1_000_000
        self._begin()
        self.carry_out(self.shard.loaded(self.now))

    def _begin(self) -> None:
        self.timers = SetTimers()
        self.answers: list[Any] = []
        """To those who were kept waiting."""
        self.markers = Markers()
        self.shard = TransactionShard(
            self.timers,
            self.rules,
            self.coordinator_epoch,
            self.markers,
            lambda: self.version,
            self._take_producer_id,
            lambda: self.batch_bytes,
        )

    def _take_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def again(self) -> None:
        """Another coordinator takes over and loads the log."""
        self.shard.unloaded(Refusal(ErrorCode.not_coordinator, "moved"))
        self.coordinator_epoch += 1
        self._begin()
        for key, value in self.log:
            record = self.shard.decode(key, value)
            assert record is not None
            self.shard.replay(record, None)
        self.carry_out(self.shard.loaded(self.now))

    def carry_out(self, decision: CoordinatorResult[Any, Any] | Refusal) -> Any:
        if isinstance(decision, Refusal):
            return decision
        for record in decision.records:
            self.log.append(self.shard.encode(record))
            self.shard.replay(record, None)
        for late in decision.late:
            late.give(None)
        return decision.reply

    def pass_ms(self, milliseconds: int) -> None:
        """Let time pass, running what is due on the way."""
        until_ms = self.now.monotonic_ms + milliseconds
        while True:
            due = [(due_ms, key) for key, (due_ms, _) in self.timers.due.items()]
            if not due or min(due)[0] > until_ms:
                break
            due_ms, key = min(due, key=lambda entry: entry[0])
            passed = due_ms - self.now.monotonic_ms
            self.now = Now(due_ms, self.now.wall_ms + passed)
            _, command = self.timers.due.pop(key)
            self.carry_out(command(self.now))
        passed = until_ms - self.now.monotonic_ms
        self.now = Now(until_ms, self.now.wall_ms + passed)

    # What producers do

    def init(self, transactional_id: str = "a", **more: Any) -> Any:
        more.setdefault("timeout_ms", 60_000)
        asked = InitProducerId(transactional_id, **more)
        return self.carry_out(self.shard.initialise(asked, self.now))

    def producer(self, transactional_id: str = "a", **more: Any) -> ProducerIdAndEpoch:
        """A producer that is ready to begin."""
        given = self.init(transactional_id, **more)
        assert isinstance(given, InitProducerIdReply), given
        return given.producer

    def join(
        self,
        producer: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition] = ORDERS,
        *,
        version: int = 2,
        transactional_id: str = "a",
    ) -> Any:
        asked = AddPartitionsToTxn(transactional_id, producer, partitions, version)
        return self.carry_out(self.shard.add_partitions(asked, self.answers.append, self.now))

    def end(
        self,
        producer: ProducerIdAndEpoch,
        *,
        commit: bool,
        version: int = 2,
        transactional_id: str = "a",
    ) -> Any:
        asked = EndTxn(transactional_id, producer, commit, version)
        return self.carry_out(self.shard.end(asked, self.now))

    def write_markers(self) -> None:
        """Let all markers be written that were asked for."""
        asked, self.markers.asked = self.markers.asked, []
        for ended in asked:
            self.carry_out(self.shard.complete(ended, self.now))

    def of(self, transactional_id: str = "a") -> Transaction:
        found = self.shard.describe(transactional_id)
        assert found is not None
        return found

    def force(self, transaction: Transaction) -> None:
        """Begin with a transactional id in some state."""
        self.carry_out(
            CoordinatorResult((TransactionRecord(transaction.transactional_id, transaction),), None)
        )


NewCoordinator: TypeAlias = Callable[..., CoordinatorBench]


@pytest.fixture
def bench() -> CoordinatorBench:
    return CoordinatorBench()


@pytest.fixture
def new_coordinator() -> NewCoordinator:
    return CoordinatorBench
