"""Consume, transform, produce, exactly once, with kafka-python, in a process of its own.

    python kafka_python_transformer.py BOOTSTRAP INPUT OUTPUT TRANSACTIONAL_ID

Copies every record of INPUT to OUTPUT in transactions, and goes on until it is killed. It is one
member of a group of several: what it commits names its generation, so that a coordinator refuses
it once a partition has gone to somebody else (KIP-447).

Each transaction has a time limit. When a coordinator refuses connections, kafka-python 3.0.12
forgets the request that it was about to send there, and would wait for its answer without end.

Invariant: after an error the producer is replaced before the committed offsets are read. By then
its last transaction is over, whether it was committed or not.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

GROUP = "kafka-python-transformers"
AT_ONCE = 20
LIMIT_S = 5
QUICK = {
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 100,
    "retry_backoff_ms": 20,
    "request_timeout_ms": 5000,
}


def run(bootstrap: str, source: str, target: str, transactional_id: str) -> None:
    consumer = KafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
        max_poll_records=AT_ONCE,
        **QUICK,
    )
    producer = initialised(bootstrap, transactional_id)
    while True:
        try:
            read = consumer.poll(timeout_ms=2000)
            if read:
                with limited():
                    copy(read, consumer, producer, target)
        except KafkaError as problem:
            print(f"{transactional_id}: {problem!r}", file=sys.stderr, flush=True)
            given_up, producer = producer, initialised(bootstrap, transactional_id)
            with suppress(KafkaTimeoutError):  # about what it will never be able to send
                given_up.close(timeout=0)
            rewind(consumer)


@contextmanager
def limited() -> Iterator[None]:
    """Interrupt whatever takes too long, as if the client had done so itself."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KafkaTimeoutError(f"nothing came of it in {LIMIT_S} s")

    signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)


def copy(
    read: dict[TopicPartition, list[ConsumerRecord]],
    consumer: KafkaConsumer,
    producer: KafkaProducer,
    target: str,
) -> None:
    producer.begin_transaction()
    sent = [
        producer.send(target, each.value, each.key, partition=each.partition)
        for records in read.values()
        for each in records
    ]
    for each in sent:
        each.get()
    places = {
        place: OffsetAndMetadata(records[-1].offset + 1, "", -1) for place, records in read.items()
    }
    producer.send_offsets_to_transaction(places, consumer.group_metadata())
    producer.commit_transaction()


def initialised(bootstrap: str, transactional_id: str) -> KafkaProducer:
    while True:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=10_000,
            max_block_ms=LIMIT_S * 1000,
            **QUICK,
        )
        try:
            producer.init_transactions()
        except KafkaError as problem:
            print(f"{transactional_id}: {problem!r}", file=sys.stderr, flush=True)
            producer.close(timeout=0)
        else:
            return producer


def rewind(consumer: KafkaConsumer) -> None:
    while True:
        try:
            for place in consumer.assignment():
                consumer.seek(place, consumer.committed(place) or 0)
        except KafkaError:
            continue
        return


if __name__ == "__main__":
    run(*sys.argv[1:])
