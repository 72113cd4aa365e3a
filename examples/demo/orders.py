"""The orders: sent by a stock client with acks=all, and remembered once acknowledged."""

from __future__ import annotations

import json
import threading
import time
from itertools import count
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from tidelog.testing.pauses import Pauses

TOPIC: Final = "orders"
PARTITIONS: Final = 3
COUNTRIES: Final = ("de", "fr", "nl", "pl")
BROKEN_RULE_EVERY: Final = 500
"""One order in so many costs nothing, which the pipeline's rule does not allow."""


class HastyOrders:
    """Orders with acks=1: acknowledged by the leader of the first partition alone, so that they may
    be lost with it. They have numbers below 0."""

    def __init__(self, bootstrap: str) -> None:
        self._sent = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "log_level": 0})

    def send(self, count: int) -> None:
        """Send some, each once the one before is acknowledged."""
        for _ in range(count):
            self._sent += 1
            order = _order(-self._sent)
            self._producer.produce(TOPIC, json.dumps(order).encode(), partition=0)
            self._producer.flush(5)


class Orders:
    """Sends orders at a steady rate, in a thread of its own, and remembers which were
    acknowledged, and when. So many at least, and as long as nobody says `finish`."""

    def __init__(self, bootstrap: str, at_least: int, per_second: int) -> None:
        self.acknowledged: dict[int, tuple[int, int]] = {}
        """Partition and offset of each order the cluster has promised to keep."""
        self.failed: list[str] = []
        self.moments: list[float] = []
        """When each acknowledgement came, on the wall clock."""
        self.pauses = Pauses(PARTITIONS)
        """Between the acknowledgements of each partition."""
        self._count = at_least
        self._pace_s = 1 / per_second
        self._may_end = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "log_level": 0,
            }
        )

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Wait until everything is acknowledged or has failed."""
        self._may_end.set()
        self._thread.join()

    def _send(self) -> None:
        """Send every order in its time, counted from the first acknowledgement on."""
        self._produce(0)
        self._producer.flush(60)
        began = time.monotonic()
        for number in count(1):
            if number >= self._count and self._may_end.is_set():
                break
            self._produce(number)
            ahead_s = number * self._pace_s - (time.monotonic() - began)
            self._producer.poll(max(0.0, ahead_s))
        left = self._producer.flush(60)
        if left:
            self.failed.append(f"{left} orders were never answered")

    def _produce(self, number: int) -> None:
        order = _order(number)
        key = str(order["customer"]).encode()
        self._producer.produce(TOPIC, json.dumps(order).encode(), key, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        number = json.loads(message.value() or b"{}")["order_id"]
        partition, now = message.partition() or 0, time.time()
        self.acknowledged[number] = (partition, message.offset() or 0)
        self.moments.append(now)
        self.pauses.note(partition, now)


def _order(number: int) -> dict[str, int | float | str]:
    cents = 0 if number % BROKEN_RULE_EVERY == 0 else 1 + number * 7 % 9999
    return {
        "order_id": number,
        "customer": f"customer-{number % 97}",
        "amount": cents / 100,
        "country": COUNTRIES[number % len(COUNTRIES)],
    }
