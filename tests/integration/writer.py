"""A stock idempotent producer that writes numbers without pause and remembers every promise."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.integration.raw import until


class Writer:
    """Writes 0, 1, 2 ... to each partition of a topic, through any number of broker failures."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int = 1, codec: str = "none"
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 50,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "log_level": 0,
                "compression.type": codec,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.promised: dict[int, dict[int, int]] = {each: {} for each in range(partitions)}
        """Of each partition: the offset of every acknowledged number."""
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def acknowledged(self) -> int:
        return sum(len(numbers) for numbers in self.promised.values())

    def wait_for_more(self, count: int) -> None:
        """Return when that many further records are acknowledged."""
        target = self.acknowledged + count
        until(lambda: self.acknowledged >= target or bool(self.failures), within_s=20)
        assert self.failures == []

    def stop(self) -> None:
        """Write no more; what is under way is waited for."""
        self._stopping.set()
        self._thread.join(60)

    def assert_promises_kept(self) -> None:
        """Every acknowledged record is there, at its offset, once and in order; and no other."""
        assert self.failures == []
        for partition, promised in self.promised.items():
            found = numbers_in(self._bootstrap, self._topic, partition)
            assert list(found) == sorted(found), "records changed places"
            assert found == {number: [offset] for number, offset in promised.items()}

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for partition in range(self._partitions):
                self._produce(partition, number)
            number += 1
            self._producer.poll(0)
        left = self._producer.flush(50)
        if left:
            self.failures.append(f"{left} records were never answered")

    def _produce(self, partition: int, number: int) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, b"%d" % number, partition=partition, on_delivery=self._delivered
                )
                return
            except BufferError:
                self._producer.poll(0.05)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        number = int(message.value() or b"-1")
        self.promised[message.partition() or 0][number] = message.offset() or 0


def numbers_in(bootstrap: str, topic: str, partition: int, start: int = 0) -> dict[int, list[int]]:
    """Every number a stock consumer reads up to the end, with the offsets it stands at."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "none",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "check.crcs": True,
        "auto.offset.reset": "error",
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, start)])
    found: dict[int, list[int]] = {}
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None, "the consumer got nothing"
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return found
            found.setdefault(int(message.value() or b"-1"), []).append(message.offset() or 0)
    finally:
        consumer.close()
