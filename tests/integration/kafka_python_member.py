"""A member of a group with kafka-python, in a process of its own.

Prints every value it has read, once a commit went well; ends when it is terminated.

Two habits of kafka-python 3.0.12 that it lives with, whatever the broker: poll() raises what other
clients keep to themselves, for instance that a broker refused the connection; the next call goes
on. And a group's leader whose poll() runs out of time between its assignment and the answer to
SyncGroup drops the answer and never reads, so it polls for much longer than that takes.
"""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import suppress

from kafka import KafkaConsumer
from kafka.errors import KafkaError


def main(bootstrap: str, group: str, topic: str) -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metadata_max_age_ms=1000,
        session_timeout_ms=6000,
        heartbeat_interval_ms=200,
        retry_backoff_ms=50,
    )
    read: list[bytes] = []
    while not stopping.is_set():
        with suppress(KafkaError):  # whoever takes the partition over reads these again
            found = consumer.poll(timeout_ms=2000)
            read += [record.value for records in found.values() for record in records]
            consumer.commit()
            tell(read)
    consumer.close()


def tell(read: list[bytes]) -> None:
    for value in read:
        print(value.decode(), flush=True)
    read.clear()


if __name__ == "__main__":
    main(*sys.argv[1:])
