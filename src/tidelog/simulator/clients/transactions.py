"""Simulated transactional producers: each transaction puts a value into several partitions.

A producer commits or aborts as its dice say, asks again until it knows, and remembers what it was
told. Two of them share a transactional id, so that each fences the other now and then.

Invariant  A producer that wants to abort, or gave up, never asks to commit that transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.protocol.message import RequestMessage
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from tidelog.protocol.messages.end_txn import EndTxnRequest
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.records.builder import NewRecord, build_batch
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.cluster_client import ClusterClient
from tidelog.simulator.clients.history import ACKS_ALL
from tidelog.simulator.clients.transaction import SimulatedTransaction
from tidelog.simulator.world.clock import EPOCH_MS

FIND_VERSION: Final = 2
PAUSE_MS: Final = 60
FENCED_PAUSE_MS: Final = 3_000
TRANSACTION_TIMEOUT_MS: Final = 8_000
PRODUCE_TIMEOUT_MS: Final = 4_000
COMMITS: Final = 0.7
ENDS_FOR_A_MARKER: Final = 2

_GO: Final = "go"
HOPELESS: Final = frozenset(
    {
        ErrorCode.invalid_producer_epoch,
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_txn_state,
        ErrorCode.transaction_abortable,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
    }
)


class TransactionalProducer(ClusterClient):
    """One process with a transactional id; `adds` says whether leaders add partitions (KIP-890)."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[int],
        partitions: Sequence[TopicPartition],
        *,
        transactional_id: str,
        adds: bool,
        interval_ms: int,
        start_ms: int,
        stop_ms: int,
    ) -> None:
        super().__init__(name, nodes, sorted({partition.topic for partition in partitions}))
        self.transactional_id = transactional_id
        self.transactions: list[SimulatedTransaction] = []
        self._partitions = tuple(partitions)
        self._adds = adds
        self._interval_ms = interval_ms
        self._start_ms = start_ms
        self._stop_ms = stop_ms
        self._coordinator: int | None = None
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._current: SimulatedTransaction | None = None
        self._has_joined = False
        self._asking = 0
        self._ends = 0

    @property
    def known_identity(self) -> tuple[int, int] | None:
        """Its producer id and epoch, once that id has a marker in every partition.

        The answer to an end comes before its markers; the next end cannot.
        """
        return self._identity if self._ends >= ENDS_FOR_A_MARKER else None

    # To be overridden.

    def next_transaction(self) -> SimulatedTransaction | None:
        """What to write next; None when there is nothing, and somebody calls `_again`."""
        value = f"{self.name}/{len(self.transactions)}".encode()
        values = dict.fromkeys(self._partitions, (value,))
        return SimulatedTransaction(values, self.dice.random() < COMMITS)

    def finish(self, current: SimulatedTransaction) -> None:
        """Everything is written: whatever belongs to the transaction besides, then its end."""
        self._end(current)

    def on_ended(self, current: SimulatedTransaction) -> None:
        """It ended as wished, or somebody else has ended it."""

    @property
    def _is_over(self) -> bool:
        """Whether it begins no transaction any more."""
        return self.now_ms >= self._stop_ms

    @property
    def is_idle(self) -> bool:
        """Whether it has stopped and knows all that it will ever know."""
        return self._is_over and self._current is None and not self._asking

    # What it is told.

    def on_started(self) -> None:
        self.refresh()
        self.set_timer(self._start_ms, _GO)

    def on_token(self, token: object) -> None:
        self._go_on()

    # One step at a time: find, initialise, join, produce, end.

    def _go_on(self) -> None:
        if self._asking:
            return
        if self._current is None and self._is_over:
            return
        if self._coordinator is None:
            self._find()
        elif self._identity is None:
            self._initialise()
        elif self._current is None:
            self._begin()
        elif not self._has_joined and not self._adds:
            self._join()
        elif self._current.due:
            self._produce()
        else:
            self.finish(self._current)

    def _again(self, after_ms: int = PAUSE_MS) -> None:
        self.set_timer(after_ms, _GO)

    def _ask_somebody(
        self, node: int, request: RequestMessage[Any], version: int, then: Any
    ) -> None:
        connection = self.line(node)
        if connection is None:
            self._again()
            return
        self._asking += 1
        self.ask(connection, request, version, partial(self._answered, then))
        self.expects_answer(connection)

    def _answered(self, then: Any, answer: Any) -> None:
        self._asking -= 1
        then(answer)

    def _find(self) -> None:
        request = FindCoordinatorRequest(key=self.transactional_id, key_type=1)
        node = self.dice.choice(self.nodes)
        self._ask_somebody(node, request, FIND_VERSION, self._found)

    def _found(self, answer: Any) -> None:
        if not isinstance(answer, Lost) and not answer.error_code:
            self._coordinator = int(answer.node_id)
        self._again()

    def _ask_coordinator(self, request: RequestMessage[Any], version: int, then: Any) -> None:
        assert self._coordinator is not None
        self._ask_somebody(self._coordinator, request, version, then)

    def _initialise(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
        )
        self._ask_coordinator(request, 5, self._initialised)

    def _initialised(self, answer: Any) -> None:
        if isinstance(answer, Lost) or answer.error_code:
            self._coordinator = None
        else:
            self._identity = (int(answer.producer_id), int(answer.producer_epoch))
            self._sequences = {}
            self._ends = 0
        self._again()

    def _begin(self) -> None:
        self._current = self.next_transaction()
        self._has_joined = False
        if self._current is not None:
            self.transactions.append(self._current)
            self._go_on()

    def _join(self) -> None:
        producer_id, epoch = self._identity or (-1, -1)
        topics: dict[str, list[int]] = {}
        assert self._current is not None
        for name in sorted(self._current.values):
            topics.setdefault(name.topic, []).append(name.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                for topic, numbers in topics.items()
            ],
        )
        self._ask_coordinator(request, 3, self._joined)

    def _joined(self, answer: Any) -> None:
        if isinstance(answer, Lost):
            self._coordinator = None
            self._again()
            return
        codes = {
            ErrorCode(partition.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        }
        if codes & HOPELESS:
            self._give_up()
            return
        self._has_joined = codes == {ErrorCode.none}
        if not self._has_joined and ErrorCode.concurrent_transactions not in codes:
            self._coordinator = None
        self._again(0 if self._has_joined else PAUSE_MS)

    def _produce(self) -> None:
        current = self._current
        assert current is not None
        for name in sorted(current.due):
            leader = self.leaders.get(name)
            connection = None
            if leader is not None and leader.node != NO_LEADER:
                connection = self.line(leader.node)
            if connection is None:
                self.refresh()
                continue
            self._asking += 1
            then = partial(self._answered, partial(self._produced, current, name))
            self.ask_produce(
                connection,
                12 if self._adds else 11,
                [(name.topic, None, [(name.partition, self._batch(current, name))])],
                then,
                acks=ACKS_ALL,
                timeout_ms=PRODUCE_TIMEOUT_MS,
                transactional_id=self.transactional_id,
            )
            self.expects_answer(connection)
        if not self._asking:
            self._again()

    def _batch(self, current: SimulatedTransaction, name: TopicPartition) -> bytes:
        producer_id, epoch = self._identity or (-1, -1)
        return bytes(
            build_batch(
                [
                    NewRecord(b"key", value, EPOCH_MS + self.now_ms)
                    for value in current.values[name]
                ],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=self._sequences.get(name, 0),
                transactional=True,
            )
        )

    def _produced(self, current: SimulatedTransaction, name: TopicPartition, answer: Any) -> None:
        if current is not self._current:
            return
        code = None
        if not isinstance(answer, Lost):
            code = ErrorCode(answer.topics[0].partitions[0].error)
        if code is ErrorCode.none:
            current.due.discard(name)
            self._sequences[name] = self._sequences.get(name, 0) + len(current.values[name])
        elif code in HOPELESS:
            self._give_up()
            return
        else:
            self.refresh()
        if not self._asking:
            self._again(PAUSE_MS if current.due else 0)

    def _end(self, current: SimulatedTransaction) -> None:
        producer_id, epoch = self._identity or (-1, -1)
        current.has_asked_to_commit = current.has_asked_to_commit or current.commits
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=current.commits,
        )
        version = 5 if self._adds else 4
        self._ask_coordinator(request, version, partial(self._ended, current))

    def _ended(self, current: SimulatedTransaction, answer: Any) -> None:
        if current is not self._current:
            return
        if isinstance(answer, Lost):
            self._coordinator = None
            self._again()
            return
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.none:
            current.is_promised = True
            self._current = None
            self._ends += 1
            self.on_ended(current)
            if self._adds:
                self._identity = (int(answer.producer_id), int(answer.producer_epoch))
                self._sequences = {}
            self._again(1 + int(self.dice.expovariate(1 / self._interval_ms)))
        elif code in HOPELESS:
            self._give_up()
        else:
            if code is not ErrorCode.concurrent_transactions:
                self._coordinator = None
            self._again()

    def _give_up(self) -> None:
        """Somebody else has the transactional id, or the transaction was ended for us."""
        current, self._current = self._current, None
        self._identity = None
        if current is not None:
            self.on_ended(current)
        self._again(FENCED_PAUSE_MS)
