"""Writing rows on an executor through librdkafka: idempotent, acks=all, errors with the record.

Invariant  When `finish` returns, every row is acknowledged by all in-sync replicas; otherwise it
           raises, and says which record was refused and why.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from tidelog.spark.errors import NoBrokerToWrite, OptionError, SinkError
from tidelog.spark.options import DEFAULT_MAX_BLOCK_MS
from tidelog.spark.sink.rows import Message, Rows, shown

_REQUEST_S: Final = 5.0
_FLUSH_S: Final = 300.0
_WAITING_BYTES: Final = 64 << 20
_PAUSE_S: Final = 0.01
_NOT_THERE: Final = (
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)


class RowWriting:
    """A producer, and the first record that did not make it."""

    def __init__(
        self, settings: Mapping[str, Any], max_block_ms: int = DEFAULT_MAX_BLOCK_MS
    ) -> None:
        try:
            self.producer = Producer({**settings, "delivery.report.only.error": True})
        except KafkaException as error:
            raise OptionError(f"the client refuses its settings: {error.args[0].str()}") from error
        self.count = 0
        self._bootstrap = settings["bootstrap.servers"]
        self._first_answer_s = max_block_ms / 1000
        self._answered = False
        self._failure: tuple[KafkaError, Delivered] | None = None

    def write(self, rows: Iterable[Rows]) -> None:
        """Hand over every row; stops at the first one that is refused."""
        for some in rows:
            self._find_cluster(some.topic)
            self._make_room(some)
            # A batch of librdkafka's knows no headers, and does not heed partitions.
            if any("headers" in each or "partition" in each for each in some.messages):
                self._produce_each(some)
            else:
                self._produce_all(some)
            self.count += len(some.messages)
            self.producer.poll(0)
            self._check()

    def finish(self) -> None:
        """Wait until everything is acknowledged."""
        left = self.producer.flush(_FLUSH_S)
        self._check()
        if left > 0:
            raise SinkError(f"{left} records were not acknowledged within {_FLUSH_S:g} s")

    def _find_cluster(self, topic: str) -> None:
        """Whoever has no broker is told at once, not when the first record has waited in vain."""
        deadline = time.monotonic() + self._first_answer_s
        request_s = min(_REQUEST_S, self._first_answer_s)
        while not self._answered:
            try:
                self.producer.list_topics(topic, timeout=request_s)
                self._answered = True
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise NoBrokerToWrite(
                        f"no broker answers at {self._bootstrap}: check kafka.bootstrap.servers, "
                        "that the cluster is up (`tidelog status`), and that executors reach it. "
                        f"The client says: {error.args[0].str()}"
                    ) from error

    def _make_room(self, some: Rows) -> None:
        """Wait before the queue is full: a record refused for that would lose its place."""
        each = max(1, some.size_bytes // len(some.messages))
        while len(self.producer) > max(1, _WAITING_BYTES // each):
            self.producer.poll(_PAUSE_S)
            self._check()

    def _produce_all(self, some: Rows) -> None:
        waiting = some.messages
        while waiting:
            taken = self.producer.produce_batch(some.topic, waiting, on_delivery=self._failed)
            if taken == len(waiting):
                return
            waiting = [message for message in waiting if "_error" in message]
            for message in waiting:
                error = message.pop("_error")
                if error.code() != KafkaError._QUEUE_FULL:
                    raise self._refused(some.topic, message, error)
            self.producer.poll(_PAUSE_S)

    def _produce_each(self, some: Rows) -> None:
        for message in some.messages:
            while True:
                try:
                    self.producer.produce(some.topic, on_delivery=self._failed, **message)
                    break
                except BufferError:
                    self.producer.poll(_PAUSE_S)
                except KafkaException as error:
                    raise self._refused(some.topic, message, error.args[0]) from error

    def _failed(self, error: KafkaError | None, delivered: Delivered) -> None:
        if error is not None and self._failure is None:
            self._failure = error, delivered

    def _check(self) -> None:
        if self._failure is not None:
            error, delivered = self._failure
            message = {
                "key": delivered.key(),
                "value": delivered.value(),
                "partition": delivered.partition(),
            }
            raise self._refused(delivered.topic(), message, error)

    def _refused(self, topic: str, message: Message, error: KafkaError) -> SinkError:
        size = len(message.get("key") or b"") + len(message["value"] or b"")
        return SinkError(
            f"a record with {shown(message)}, {size} bytes, was not written to {topic}: "
            f"{error.str()} ({error.name()}){self._remedy(topic, message, error)}"
        )

    def _remedy(self, topic: str, message: Message, error: KafkaError) -> str:
        if error.code() not in _NOT_THERE:
            return ""
        try:
            found = self.producer.list_topics(topic, timeout=_REQUEST_S).topics[topic]
        except KafkaException:
            return ""
        if found.error is not None:
            return f". There is no topic {topic}: create it with `tidelog topics create {topic}`"
        count = len(found.partitions)
        return (
            f". {topic} has {count} partitions, from 0 to {count - 1}; there is no partition "
            f"{message.get('partition')}"
        )
