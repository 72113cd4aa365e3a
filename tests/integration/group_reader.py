"""Members of consumer groups in tests: they remember what they read and what they committed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

WITHIN_S = 40.0


class Reader:
    """A librdkafka consumer in a group that commits what it has read."""

    def __init__(self, bootstrap: str, group: str, *topics: str, **settings: Any) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 100,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "log_level": 0,
                **named,
            }
        )
        self.read: Counter[bytes] = Counter()
        self.consumer.subscribe(list(topics))

    @property
    def partitions(self) -> int:
        return len(self.consumer.assignment())

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            self.read[value] += 1

    def commit(self) -> None:
        """Commit until the coordinator, wherever it is by then, has stored it."""
        until = time.monotonic() + WITHIN_S
        while True:
            try:
                self.consumer.commit(asynchronous=False)
            except KafkaException:
                assert time.monotonic() < until, "the commit was not stored in time"
                self.consumer.poll(0.05)
            else:
                return

    def close(self) -> None:
        self.consumer.close()


def classic(bootstrap: str, group: str, *topics: str, **settings: Any) -> Reader:
    """A member of the classic protocol that notices changes quickly."""
    quick = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
    return Reader(bootstrap, group, *topics, **{**quick, **settings})


def consumer_protocol(bootstrap: str, group: str, *topics: str) -> Reader:
    """A member of the consumer protocol (KIP-848)."""
    return Reader(bootstrap, group, *topics, group_protocol="consumer")


def poll_until(readers: Sequence[Reader], condition: Callable[[], bool]) -> None:
    """Let them read until something has happened."""
    until = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < until, "what the test waits for did not happen"
        for reader in readers:
            reader.poll()


def share(readers: Sequence[Reader], *partitions: int) -> None:
    """Let them read until they have so many partitions each."""
    poll_until(readers, lambda: tuple(reader.partitions for reader in readers) == partitions)


def create_topic(bootstrap: str, topic: str, partitions: int, replicas: int = -1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(20)


def produce(bootstrap: str, topic: str, first: int, count: int, partitions: int) -> set[bytes]:
    """Numbered records, spread over the partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    values = [b"%d" % number for number in range(first, first + count)]
    for place, value in enumerate(values):
        producer.produce(topic, value, partition=place % partitions)
    assert producer.flush(40) == 0
    return set(values)


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """The group's offsets by partition, as an administrator sees them."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {each.partition: each.offset for each in asked[group].result(20).topic_partitions}
