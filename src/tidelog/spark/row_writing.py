"""Writing rows on an executor through librdkafka: idempotent, acks=all, errors with the record.

Invariant  When `finish` returns, every row is acknowledged by all in-sync replicas; otherwise it
           raises, and says which record was refused and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidelog.spark.errors import OptionError, SinkError
from tidelog.spark.rows import Row

_POLL_EVERY: Final = 1_000
_FLUSH_S: Final = 300.0
_KEY_SHOWN: Final = 60


class RowWriting:
    """A producer, and the first record that did not make it."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        try:
            self.producer = Producer({**settings, "delivery.report.only.error": True})
        except KafkaException as error:
            raise OptionError(f"the client refuses its settings: {error.args[0].str()}") from error
        self.count = 0
        self._failure: SinkError | None = None

    def write(self, rows: Iterable[Row]) -> None:
        """Hand over every row; stops at the first one that is refused."""
        for row in rows:
            self._produce(row)
            self.count += 1
            if self.count % _POLL_EVERY == 0:
                self.producer.poll(0)
                self._check()

    def finish(self) -> None:
        """Wait until everything is acknowledged."""
        left = self.producer.flush(_FLUSH_S)
        self._check()
        if left > 0:
            raise SinkError(f"{left} records were not acknowledged within {_FLUSH_S:g} s")

    def _produce(self, row: Row) -> None:
        choice = {} if row.partition is None else {"partition": row.partition}
        if row.headers is not None:
            choice["headers"] = row.headers  # type: ignore[assignment]  # librdkafka's own list
        while True:
            try:
                self.producer.produce(
                    row.topic,
                    row.value,
                    row.key,
                    on_delivery=partial(self._failed, self.count),
                    **choice,
                )
                return
            except BufferError:
                self.producer.poll(0.05)
                self._check()
            except KafkaException as error:
                raise _refused(self.count, row.topic, row.key, row.value, error.args[0]) from error

    def _failed(self, index: int, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failure is None:
            value, key = message.value(), message.key()
            self._failure = _refused(index, message.topic(), key, value, error)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


def _refused(
    index: int, topic: str, key: bytes | None, value: bytes | None, error: KafkaError
) -> SinkError:
    shown = "without a key" if key is None else f"with key {key[:_KEY_SHOWN]!r}"
    size = len(value or b"") + len(key or b"")
    return SinkError(
        f"row {index} of the task, {shown} and {size} bytes, was not written to {topic}: "
        f"{error.str()} ({error.name()})"
    )
