"""A member of a group with aiokafka or kafka-python, in a process of its own.

Prints every value it has read, once what it read is committed; ends when it is terminated.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress

QUICK = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200, "retry_backoff_ms": 50}


async def with_aiokafka(bootstrap: str, group: str, topic: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.errors import KafkaError

    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metadata_max_age_ms=1000,
        **QUICK,
    )
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await consumer.start()
    read: list[bytes] = []
    while not stopping.is_set():
        found = await consumer.getmany(timeout_ms=100)
        read += [record.value for records in found.values() for record in records]
        with suppress(KafkaError):  # whoever takes the partition over reads these again
            await consumer.commit()
            tell(read)
    await consumer.stop()


def with_kafka_python(bootstrap: str, group: str, topic: str) -> None:
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metadata_max_age_ms=1000,
        **QUICK,
    )
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    read: list[bytes] = []
    while not stopping:
        found = consumer.poll(timeout_ms=100)
        read += [record.value for records in found.values() for record in records]
        with suppress(KafkaError):
            consumer.commit()
            tell(read)
    consumer.close()


def tell(read: list[bytes]) -> None:
    for value in read:
        print(value.decode(), flush=True)
    read.clear()


if __name__ == "__main__":
    client, *where = sys.argv[1:]
    if client == "aiokafka":
        asyncio.run(with_aiokafka(*where))
    else:
        with_kafka_python(*where)
