"""`python -m benchmarks.reading CLIENT BOOTSTRAP TOPIC`: a stock consumer in a group of its own.

It reads from the end of the topic with the client's default settings, until it is ended, and says
of which partition it received something, and when on the wall clock; one line each. The Java and
the Go program beside it (`benchmarks/ReadAlong.java`, `tests/go/read.go`) say the same.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer


def say(partitions: Iterable[int | None]) -> None:
    now = time.time()
    for partition in sorted({each or 0 for each in partitions}):
        print(partition, f"{now:.3f}", flush=True)


def with_librdkafka(bootstrap: str, topic: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reads-with-librdkafka", "log_level": 0}
    )
    consumer.subscribe([topic])
    while True:
        messages = consumer.consume(500, 0.01)
        say(message.partition() for message in messages if message.error() is None)


async def with_aiokafka(bootstrap: str, topic: str) -> None:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id="reads-with-aiokafka")
    await consumer.start()
    while True:
        found = await consumer.getmany(timeout_ms=100)
        say(place.partition for place in found)


if __name__ == "__main__":
    client, *places = sys.argv[1:]
    if client == "aiokafka":
        asyncio.run(with_aiokafka(*places))
    else:
        with_librdkafka(*places)
