"""kafka-python as a member of a group, in a process of its own: prints what it read."""

from __future__ import annotations

import sys

from kafka import KafkaConsumer


def main(bootstrap: str, topic: str, count: int) -> None:
    """Read so many records in the group named after the topic, and commit."""
    consumer = KafkaConsumer(
        topic,
        group_id=topic,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    for _ in range(count):
        print(next(consumer).value.decode())
    consumer.commit()
    consumer.close()


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
