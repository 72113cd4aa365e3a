"""Simulated producers: batches with values of their own, and what became of each of them.

An idempotent producer sends a batch again until a broker says yes, several batches of a partition
at a time, in order. Another one sends each batch once, one at a time, and takes no for an answer.

Invariant  The batches of a lane are sent in the order of their sequence numbers; one that is sent
           again carries the numbers it had before.
Invariant  A yes to a batch is a yes to those before it: a broker takes sequences without a gap. A
           broker that was started anew remembers just the last batch of a producer, and calls
           those before it out of order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.records.builder import NewRecord, build_batch
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.cluster_client import ClusterClient
from tidelog.simulator.clients.history import ACKS_ALL, History, Send
from tidelog.simulator.clients.shifts import Bursts
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.clock import EPOCH_MS

PRODUCE_VERSION: Final = 11
INIT_PRODUCER_ID_VERSION: Final = 4
PRODUCE_TIMEOUT_MS: Final = 4_000
RETRY_PAUSE_MS: Final = 60
RECORDS_MOST: Final = 3
BURST_INTERVAL_MS: Final = 8
LOST_AFTER_MS: Final = 10_000
"""A sequence that has been out of order for so long will be so for ever: what came before it was
lost in an unclean election."""

_MAKE: Final = "make"
_PUMP: Final = "pump"
_NEVER_APPENDED: Final = frozenset(
    {
        ErrorCode.not_enough_replicas,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_record,
    }
)


@dataclass(slots=True, eq=False)
class _Batch:
    send: Send
    data: bytes
    under_way: bool = False
    out_of_order_ms: int | None = None
    """Since when its first sequence number does not fit."""


@dataclass(slots=True, eq=False)
class _Lane:
    """What waits for one partition."""

    partition: TopicPartition
    next_number: int = 0
    next_sequence: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    asks_id: bool = False
    is_known: bool = False
    """Whether the leader has taken a batch of this producer id."""
    waiting: deque[_Batch] = field(default_factory=deque)


class Producer(ClusterClient):
    """Sends until `stop_ms`, then only what is left."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[int],
        partitions: Sequence[TopicPartition],
        history: History,
        *,
        acks: int = ACKS_ALL,
        idempotent: bool = False,
        interval_ms: int = 200,
        start_ms: int = 0,
        stop_ms: int,
        bursts: Bursts | None = None,
    ) -> None:
        super().__init__(name, nodes, sorted({partition.topic for partition in partitions}))
        self._history = history
        self._acks = acks
        self._idempotent = idempotent
        self._interval_ms = interval_ms if bursts is None else BURST_INTERVAL_MS
        self._bursts = bursts
        self._start_ms = start_ms
        self._stop_ms = stop_ms
        self._lanes = [_Lane(partition) for partition in partitions]
        self._lane_of = {lane.partition: lane for lane in self._lanes}
        self._in_flight_most = 3 if idempotent else 1
        self._pumping = False

    @property
    def is_idle(self) -> bool:
        """Whether everything it began is decided."""
        return self.now_ms >= self._stop_ms and not any(lane.waiting for lane in self._lanes)

    @property
    def unanswered(self) -> str:
        """What it still waits for, in words."""
        left = [f"{lane.partition}: {len(lane.waiting)}" for lane in self._lanes if lane.waiting]
        return f"{self.name} waits for answers about {', '.join(left) or 'nothing'}"

    # What it is told.

    def on_started(self) -> None:
        self.refresh()
        self.set_timer(self._start_ms, _MAKE)

    def on_token(self, token: object) -> None:
        if token == _MAKE:
            self._make()
        else:
            self._pumping = False
            self._pump_all()

    def on_line(self, node: int) -> None:
        self._pump_all()

    def on_metadata(self) -> None:
        self._pump_all()

    # Making batches.

    def _make(self) -> None:
        if self.now_ms >= self._stop_ms:
            return
        silence_ms = 0 if self._bursts is None else self._bursts.silence_ms(self.now_ms)
        if silence_ms:
            self.set_timer(silence_ms, _MAKE)
            return
        burst = self.dice.choice((1, 1, 1, 4))
        for _ in range(burst):
            lane = self.dice.choice(self._lanes)
            if len(lane.waiting) < self._most_for(lane) and self._is_ready(lane):
                self._add(lane)
                self._pump(lane)
        self.set_timer(1 + int(self.dice.expovariate(1 / self._interval_ms)), _MAKE)

    def _most_for(self, lane: _Lane) -> int:
        """A leader takes any first sequence of a producer it does not know: send one alone."""
        return self._in_flight_most if lane.is_known else 1

    def _is_ready(self, lane: _Lane) -> bool:
        if not self._idempotent or lane.producer_id >= 0:
            return True
        self._ask_id(lane)
        return False

    def _add(self, lane: _Lane) -> None:
        count = self.dice.randint(1, RECORDS_MOST)
        values = tuple(
            f"{self.name}/{lane.partition.partition}/{lane.next_number}.{index}".encode()
            for index in range(count)
        )
        send = Send(
            producer=self.name,
            partition=lane.partition,
            number=lane.next_number,
            values=values,
            acks=self._acks,
            idempotent=self._idempotent,
            started_us=self.host.world.timeline.now_us,
            known_end=self._history.of(lane.partition).known_end,
        )
        data = self._build(lane, values)
        lane.next_number += 1
        lane.waiting.append(_Batch(send, data))
        self._history.sending(send)

    def _build(self, lane: _Lane, values: Sequence[bytes]) -> bytes:
        batch = build_batch(
            [NewRecord(None, value, EPOCH_MS + self.now_ms) for value in values],
            producer_id=lane.producer_id,
            producer_epoch=lane.producer_epoch,
            base_sequence=lane.next_sequence if self._idempotent else -1,
        )
        lane.next_sequence += len(values)
        return bytes(batch)

    # Sending.

    def _pump_all(self) -> None:
        for lane in self._lanes:
            self._pump(lane)

    def _pump_later(self) -> None:
        if not self._pumping:
            self._pumping = True
            self.set_timer(RETRY_PAUSE_MS, _PUMP)

    def _pump(self, lane: _Lane) -> None:
        if all(batch.under_way for batch in lane.waiting):
            return
        leader = self.leaders.get(lane.partition)
        if leader is None or leader.node == NO_LEADER:
            self.refresh()
            return
        connection = self.line(leader.node)
        if connection is None:
            return
        for batch in list(lane.waiting)[: self._most_for(lane)]:
            if batch.under_way:
                continue
            topic, index = lane.partition
            topics = [(topic, None, [(index, batch.data)])]
            if self._acks == 0:
                self.ask_produce(connection, PRODUCE_VERSION, topics, None, acks=0)
                self._drop(lane, batch)
                continue
            batch.under_way = True
            self.ask_produce(
                connection,
                PRODUCE_VERSION,
                topics,
                partial(self._answered, lane, batch),
                acks=self._acks,
                timeout_ms=PRODUCE_TIMEOUT_MS,
            )
            self.expects_answer(connection)

    def _answered(self, lane: _Lane, batch: _Batch, answer: Any) -> None:
        batch.under_way = False
        if batch.send.is_done:
            return
        if isinstance(answer, Lost):
            self._not_ok(lane, batch, None)
            return
        [topic] = answer.topics
        [result] = topic.partitions
        if result.error:
            self._not_ok(lane, batch, ErrorCode(result.error))
            return
        lane.is_known = True
        while lane.waiting[0] is not batch:
            self._history.implied(self._drop(lane, lane.waiting[0]))
        self._history.acked(self._drop(lane, batch), result.base_offset)

    def _not_ok(self, lane: _Lane, batch: _Batch, error: ErrorCode | None) -> None:
        if error is ErrorCode.duplicate_sequence_number:
            raise Violation("D19", f"{self.name} has {len(lane.waiting)} batches under way at most")
        if error is not None:
            self.refresh()
        if self._idempotent:
            if error is not ErrorCode.out_of_order_sequence_number:
                batch.out_of_order_ms = None
            elif batch is lane.waiting[0]:
                self._out_of_order(lane, batch)
            self._pump_later()
            return
        batch.send.has_failed = error in _NEVER_APPENDED
        self._drop(lane, batch)

    def _drop(self, lane: _Lane, batch: _Batch) -> Send:
        batch.send.is_done = True
        lane.waiting.remove(batch)
        return batch.send

    # Being somebody.

    def _out_of_order(self, lane: _Lane, batch: _Batch) -> None:
        if batch.out_of_order_ms is None:
            batch.out_of_order_ms = self.now_ms
        elif self.now_ms - batch.out_of_order_ms > LOST_AFTER_MS:
            self._ask_id(lane)

    def _ask_id(self, lane: _Lane) -> None:
        """Each lane is a producer of its own, so that one may begin anew without the others."""
        connection = self.line(self.dice.choice(self.nodes))
        if lane.asks_id or connection is None:
            return
        lane.asks_id = True
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        then = partial(self._named, lane)
        self.ask(connection, request, INIT_PRODUCER_ID_VERSION, then)
        self.expects_answer(connection)

    def _named(self, lane: _Lane, answer: Any) -> None:
        lane.asks_id = False
        if isinstance(answer, Lost) or answer.error_code:
            return
        lane.producer_id = int(answer.producer_id)
        lane.producer_epoch = int(answer.producer_epoch)
        lane.next_sequence = 0
        lane.is_known = False
        for batch in lane.waiting:
            batch.out_of_order_ms = None
            batch.data = self._build(lane, batch.send.values)
        self._pump_later()
