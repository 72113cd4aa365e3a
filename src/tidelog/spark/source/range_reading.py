"""Reading one range on an executor: librdkafka moves the bytes, Arrow carries them to Spark.

Invariant  A range always gives the same rows: every record in [start, end) that a reader may see,
           in offset order; compacted gaps, transaction markers and aborted records are passed over.
Invariant  Reading ends only when the log is known up to `end`: by a record at or behind it, or by
           the partition's own end. Silence is an error, never the end.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from tidelog.spark.client_settings import consumer_settings
from tidelog.spark.errors import DataLoss, SourceError
from tidelog.spark.options import ReadOptions
from tidelog.spark.source.message_columns import record_batch
from tidelog.spark.source.offsets import NO_EPOCH
from tidelog.spark.source.ranges import OffsetRange

_MESSAGES: Final = 4_000
"""Few enough that messages are still in the processor's cache when their columns are built."""
_POLL_S: Final = 0.02
_WATERMARKS_S: Final = 10.0
_OUT_OF_RANGE: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_PASSES: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
    }
)

logger = logging.getLogger(__name__)


class RangeReading:
    """One pass over one range."""

    def __init__(
        self,
        options: ReadOptions,
        wanted: OffsetRange,
        open_consumer: Callable[[dict[str, Any]], Consumer] = Consumer,
    ) -> None:
        self._options, self._wanted, self._open_consumer = options, wanted, open_consumer
        self._next_offset = wanted.start
        self._done = len(wanted) == 0

    def messages(self) -> Iterator[list[Message]]:
        """The records of the range, in lists."""
        consumer = self._open_consumer(consumer_settings(self._options))
        try:
            self._assign(consumer, self._wanted.start, self._wanted.epoch)
            silent_since = time.monotonic()
            while not self._done:
                count = min(_MESSAGES, self._wanted.end - self._next_offset)
                found = self._records_in(consumer, consumer.consume(count, _POLL_S))
                if found:
                    silent_since = time.monotonic()
                    yield found
                elif (time.monotonic() - silent_since) * 1000 > self._options.poll_timeout_ms:
                    raise self._silence()
        finally:
            consumer.close()

    def _assign(self, consumer: Consumer, offset: int, epoch: int) -> None:
        topic, index = self._wanted.partition
        where = ClientPartition(topic, index, offset)
        if epoch != NO_EPOCH:
            where = ClientPartition(topic, index, offset, leader_epoch=epoch)
        consumer.assign([where])

    def _records_in(self, consumer: Consumer, messages: list[Message]) -> list[Message]:
        """The records among what came, up to the end of the range."""
        if not messages:
            return messages
        end = self._wanted.end
        # Nearly always everything is a record of the range: one look at the last one tells.
        if messages[-1].error() is None and messages[-1].offset() < end:
            troubles = messages if any(map(Message.error, messages)) else []
            found = [each for each in messages if each.error() is None] if troubles else messages
        else:
            found = [each for each in messages if each.error() is None and each.offset() < end]
            troubles = messages
            self._done = any(each.error() is None and each.offset() >= end for each in messages)
        # Before any trouble is met: whoever goes on after a loss goes on behind these records.
        if found:
            self._next_offset = found[-1].offset() + 1
            self._done = self._done or self._next_offset >= end
        for each in troubles:
            if not self._done and (error := each.error()) is not None:
                self._meet(consumer, error, each)
        return found

    def _meet(self, consumer: Consumer, error: KafkaError, message: Message) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            self._done = self._done or message.offset() >= self._wanted.end
        elif code in _OUT_OF_RANGE or code == KafkaError._LOG_TRUNCATION:
            self._go_on_after_loss(consumer, error)
        elif code == KafkaError.UNKNOWN_TOPIC_OR_PART or code == KafkaError._UNKNOWN_PARTITION:
            self._lose(f"{self._wanted.partition} is no longer there")
            self._done = True
        elif code not in _PASSES and not error.retriable():
            raise SourceError(f"{self._where}: {error.str()}") from KafkaException(error)

    def _go_on_after_loss(self, consumer: Consumer, error: KafkaError) -> None:
        """The offset lies outside the log, or its epoch has ended before it (KIP-320)."""
        where = ClientPartition(*self._wanted.partition)
        low, high = consumer.get_watermark_offsets(where, timeout=_WATERMARKS_S)
        if low <= self._next_offset <= high:
            self._lose(
                f"{self._wanted.partition} was truncated below offset {self._next_offset}: its "
                f"leader does not have what was read under an earlier one ({error.str()})"
            )
        else:
            self._lose(
                f"{self._wanted.partition} has offsets [{low}, {high}), the query needs "
                f"{self._next_offset}"
            )
        if low >= self._wanted.end or high < self._next_offset:
            self._done = True
        else:
            self._next_offset = max(low, self._next_offset)
            self._assign(consumer, self._next_offset, NO_EPOCH)

    def _lose(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(what)
        logger.warning("%s; going on, as failOnDataLoss is false", what)

    @property
    def _where(self) -> str:
        wanted = self._wanted
        return f"{wanted.partition} offsets [{wanted.start}, {wanted.end})"

    def _silence(self) -> SourceError:
        waited_s = self._options.poll_timeout_ms / 1000
        return SourceError(
            f"{self._where}: nothing came from offset {self._next_offset} on for {waited_s:g} s. "
            f"Are the brokers at {self._options.bootstrap} up, and reachable from the executors? "
            "kafkaConsumer.pollTimeoutMs says how long to wait"
        )


def record_batches(
    options: ReadOptions, wanted: OffsetRange, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of a range, in the columns of `schema`."""
    with _collector_paused():
        for messages in RangeReading(options, wanted).messages():
            yield record_batch(messages, wanted.partition, schema)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No search for cycles: messages are in none, and looking at all of them doubles the cost."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
