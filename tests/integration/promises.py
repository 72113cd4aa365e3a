"""A stock producer that remembers what it was promised, and a consumer that reads it all back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.integration.raw import until


class Writer:
    """Idempotent, with acks=all; numbers go round the partitions."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 1, **config: Any) -> None:
        self.promised: set[int] = set()
        self.refused: list[str] = []
        self._topic, self._partitions = topic, partitions
        self._next = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 60_000,
                "log_level": 0,
                **{key.replace("_", "."): value for key, value in config.items()},
            }
        )

    def send(self, count: int) -> None:
        for _ in range(count):
            number = self._next
            self._next += 1
            self._producer.produce(
                self._topic,
                b"%d" % number,
                partition=number % self._partitions,
                on_delivery=self._heard,
            )
            self._producer.poll(0)

    def send_until(self, condition: Callable[[], bool], within_s: float = 30) -> None:
        """Go on sending, without hurry, until something has happened."""

        def sent_and_so() -> bool:
            self.send(10)
            self._producer.poll(0.01)
            return condition()

        until(sent_and_so, within_s)

    def finish(self) -> None:
        assert self._producer.flush(60) == 0
        assert self.refused == []

    def _heard(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(str(error))
        else:
            self.promised.add(int(message.value() or b"-1"))


def read_back(bootstrap: str, topic: str, starts: Iterable[int], promised: set[int]) -> list[int]:
    """Every number in the topic, from a start in each partition on.

    A new leader's mark may lag for a moment, so the end may move.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    assigned = [TopicPartition(topic, index, start) for index, start in enumerate(starts)]
    consumer.assign(assigned)
    found: list[int] = []
    ends: set[int] = set()
    while len(ends) < len(assigned) or not promised <= set(found):
        message = consumer.poll(20)
        assert message is not None, f"missing: {sorted(promised - set(found))[:10]}"
        if message.error() is None:
            found.append(int(message.value() or b"-1"))
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ends.add(message.partition() or 0)
    consumer.close()
    return found
