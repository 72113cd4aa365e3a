"""A stock consumer that reads along, and what it saw: the high watermark, and how far behind it is.

The watcher also counts every order it reads, so the topic itself is read back while it is written.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from types import TracebackType
from typing import Final, NamedTuple, Self

from confluent_kafka import Consumer, TopicPartition

from tidelog.testing.pauses import Pauses

EVERY_S: Final = 0.05


class Sample(NamedTuple):
    """What was true at one moment."""

    at: float
    """On the wall clock."""
    marks: tuple[int, ...]
    """The high watermark of each partition, as the consumer last heard of it."""
    lag: int
    """How many committed records the consumer has yet to read."""


class Watcher:
    """Reads the topic from its beginning until it is told to stop, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.samples: list[Sample] = []
        self.found: Counter[int] = Counter()
        """How often each order is in the topic."""
        self.pauses = Pauses(partitions)
        """Between the orders received of each partition."""
        self._places = [TopicPartition(topic, index, 0) for index in range(partitions)]
        self._positions = [0] * partitions
        self._wanted: list[int] | None = None
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "demo-watcher",
                "enable.auto.commit": False,
                "check.crcs": True,
                "log_level": 0,
            }
        )
        self._consumer.assign(self._places)
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wanted = [0] * len(self._places)
        self._thread.join()
        self._consumer.close()

    def read_up_to(self, ends: list[int], within_s: float = 30) -> bool:
        """Read everything below these offsets, then stop; whether that was possible."""
        self._wanted = ends
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def _read(self) -> None:
        due = time.time()
        while not self._is_done:
            for message in self._consumer.consume(500, EVERY_S):
                if message.error() is None:
                    self.found[json.loads(message.value() or b"{}")["order_id"]] += 1
                    partition = message.partition() or 0
                    self._positions[partition] = (message.offset() or 0) + 1
                    self.pauses.note(partition, time.time())
            if time.time() >= due:
                self._sample()
                due = time.time() + EVERY_S

    @property
    def _is_done(self) -> bool:
        wanted = self._wanted
        return wanted is not None and all(
            position >= end for position, end in zip(self._positions, wanted, strict=True)
        )

    def _sample(self) -> None:
        marks = []
        for place, position in zip(self._places, self._positions, strict=True):
            known = self._consumer.get_watermark_offsets(place, cached=True)
            marks.append(position if known is None else max(position, known[1]))
        behind = sum(marks) - sum(self._positions)
        self.samples.append(Sample(time.time(), tuple(marks), behind))
