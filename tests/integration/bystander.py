"""A stock client that writes and reads without pause, and knows how long each record took."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.integration.raw import until


class Bystander:
    """Sends a record, reads it back, and again, on connections of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        common = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = Producer({**common, "linger.ms": 0, "acks": "all"})
        self._consumer = Consumer({**common, "group.id": "none", "enable.auto.commit": False})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._began = time.monotonic()
        self.round_trips_s: list[float] = []
        self.failure: str | None = None

    def __enter__(self) -> Self:
        self._consumer.assign([TopicPartition(self._topic, 0, 0)])
        self._thread.start()
        until(lambda: len(self.round_trips_s) > 2 or self.failure is not None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join(30)
        self._consumer.close()
        assert self.failure is None, self.failure

    def is_served(self, since: int, *, within_s: float = 2.0) -> bool:
        """Whether its records from the `since`-th on came back that fast, as far as they did.

        A round trip is two requests, and none may wait for longer than a second.
        """
        assert self.failure is None, self.failure
        under_way_s = time.monotonic() - self._began
        return max([under_way_s, *self.round_trips_s[since:]]) < within_s

    def _run(self) -> None:
        turn = 0
        while not self._stopping.wait(0.01) and self.failure is None:
            self._began = time.monotonic()
            self._producer.produce(self._topic, b"%d" % turn)
            if self._producer.flush(20):
                self.failure = f"record {turn} was not acknowledged"
                return
            message = self._consumer.poll(20)
            if message is None or message.error() or message.value() != b"%d" % turn:
                said = None if message is None else message.error() or message.value()
                self.failure = f"record {turn} came back as {said}"
            turn += 1
            self.round_trips_s.append(time.monotonic() - self._began)
