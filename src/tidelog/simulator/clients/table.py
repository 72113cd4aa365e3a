"""A simulated table: a compacted topic, who writes it, and who reads it over and over.

Invariant  The writer has one batch under way, and sends it until it is acknowledged: a key has one
           newest value, or two while that is not known.
Invariant  The reader reads from the beginning until nothing is left and everything acknowledged by
           then is behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.protocol.fetch import FetchedPartition
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.records.batch import crc_matches, whole_batches
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import records_of
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.cluster_client import ClusterClient
from tidelog.simulator.clients.consumer import NOTHING, Consumer
from tidelog.simulator.clients.history import ACKS_ALL, History
from tidelog.simulator.clients.producer import (
    INIT_PRODUCER_ID_VERSION,
    LOST_AFTER_MS,
    PRODUCE_TIMEOUT_MS,
    PRODUCE_VERSION,
)
from tidelog.simulator.world.clock import EPOCH_MS

KEYS: Final = tuple(b"key %d" % number for number in range(8))
DELETES: Final = 0.2
RETRY_MS: Final = 60

_GO: Final = "go"

Rows: TypeAlias = Mapping[bytes, bytes | None]
"""What each key stands for; None for a key that was deleted."""


class TableWriter(ClusterClient):
    """Changes or deletes a few keys at a time until `stop_ms`."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[int],
        partition: TopicPartition,
        *,
        interval_ms: int,
        stop_ms: int,
    ) -> None:
        super().__init__(name, nodes, (partition.topic,))
        self.partition = partition
        self.acked: dict[bytes, bytes | None] = {}
        self.acked_end = 0
        self.under_way: dict[bytes, bytes | None] = {}
        """What is sent and not acknowledged yet."""
        self._interval_ms = interval_ms
        self._stop_ms = stop_ms
        self._producer: tuple[int, int] | None = None
        self._sequence = 0
        self._is_asking = False
        self._written = 0
        self._refused_since_ms: int | None = None

    @property
    def is_idle(self) -> bool:
        return self.now_ms >= self._stop_ms and not self.under_way

    @property
    def is_lost(self) -> bool:
        """Whether nobody remembers it: too many disks went."""
        since_ms = self._refused_since_ms
        return since_ms is not None and self.now_ms - since_ms > LOST_AFTER_MS

    def on_started(self) -> None:
        self.refresh()
        self.set_timer(self._interval_ms, _GO)

    def on_token(self, token: object) -> None:
        if self._is_asking or self.is_idle or self.is_lost:
            return
        if self._producer is None:
            self._ask_id()
        else:
            self._write(*self._producer)
        if not self._is_asking:
            self.set_timer(RETRY_MS, _GO)

    def _ask_id(self) -> None:
        connection = self.line(self.dice.choice(self.nodes))
        if connection is None:
            return
        self._is_asking = True
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        self.ask(connection, request, INIT_PRODUCER_ID_VERSION, self._named)
        self.expects_answer(connection)

    def _named(self, answer: Any) -> None:
        self._is_asking = False
        if not isinstance(answer, Lost) and not answer.error_code:
            self._producer = (int(answer.producer_id), int(answer.producer_epoch))
        self.set_timer(RETRY_MS, _GO)

    def _write(self, producer_id: int, producer_epoch: int) -> None:
        leader = self.leaders.get(self.partition)
        connection = None
        if leader is not None and leader.node != NO_LEADER:
            connection = self.line(leader.node)
        if connection is None:
            self.refresh()
            return
        if not self.under_way:
            self.under_way = self._draw()
        data = build_batch(
            [
                NewRecord(key, value, EPOCH_MS + self.now_ms)
                for key, value in self.under_way.items()
            ],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=self._sequence,
        )
        topic, index = self.partition
        self._is_asking = True
        self.ask_produce(
            connection,
            PRODUCE_VERSION,
            [(topic, None, [(index, bytes(data))])],
            self._sent,
            acks=ACKS_ALL,
            timeout_ms=PRODUCE_TIMEOUT_MS,
        )
        self.expects_answer(connection)

    def _draw(self) -> dict[bytes, bytes | None]:
        drawn: dict[bytes, bytes | None] = {}
        for key in self.dice.sample(KEYS, self.dice.choice((1, 1, 3))):
            self._written += 1
            drawn[key] = None if self.dice.random() < DELETES else b"%d" % self._written
        return drawn

    def _sent(self, answer: Any) -> None:
        self._is_asking = False
        if isinstance(answer, Lost):
            self.set_timer(RETRY_MS, _GO)
            return
        result = answer.topics[0].partitions[0]
        if result.error:
            self.refresh()
            self.set_timer(RETRY_MS, _GO)
            if ErrorCode(result.error) is not ErrorCode.out_of_order_sequence_number:
                self._refused_since_ms = None
            elif self._refused_since_ms is None:
                self._refused_since_ms = self.now_ms
            return
        self._refused_since_ms = None
        self._sequence += len(self.under_way)
        self.acked_end = max(self.acked_end, result.base_offset + len(self.under_way))
        self.acked.update(self.under_way)
        self.under_way = {}
        self.set_timer(1 + int(self.dice.expovariate(1 / self._interval_ms)), _GO)


class TableRead(NamedTuple):
    """The table as it was read, and what its writer knew of it then."""

    rows: Rows
    acked: Rows
    under_way: Rows


class TableReader(Consumer):
    """Reads the table of a writer."""

    def __init__(self, name: str, nodes: Sequence[int], writer: TableWriter) -> None:
        super().__init__(name, nodes, (writer.partition,), History())
        self.fresh: list[TableRead] = []
        """What nobody has judged yet."""
        self.end_read_ms = 0
        self._writer = writer
        self._rows: dict[bytes, bytes | None] = {}

    def _take(self, node: int, name: TopicPartition, fetched: FetchedPartition) -> bool:
        records = fetched.records if isinstance(fetched.records, memoryview) else NOTHING
        for header, batch in whole_batches(records):
            if not crc_matches(batch):
                return False
            for record in records_of(batch):
                if record.offset >= self.positions[name]:
                    self._rows[record.key or b""] = record.value
            self.positions[name] = max(self.positions[name], header.next_offset)
        position = self.positions[name]
        if position < max(fetched.high_watermark, self._writer.acked_end):
            return fetched.high_watermark >= position
        writer = self._writer
        self.fresh.append(TableRead(self._rows, dict(writer.acked), dict(writer.under_way)))
        self.end_read_ms = self.now_ms
        self.positions[name], self._rows = 0, {}
        return False
