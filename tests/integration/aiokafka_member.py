"""A member of a group with aiokafka, in a process of its own.

Prints every value it has read, once what it read is committed; ends when it is terminated.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError


async def main(bootstrap: str, group: str, topic: str) -> None:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metadata_max_age_ms=1000,
        session_timeout_ms=6000,
        heartbeat_interval_ms=200,
        retry_backoff_ms=50,
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


def tell(read: list[bytes]) -> None:
    for value in read:
        print(value.decode(), flush=True)
    read.clear()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
