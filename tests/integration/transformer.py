"""Consume, transform, produce, exactly once: a stock client in a process of its own.

    python transformer.py BOOTSTRAP INPUT OUTPUT TRANSACTIONAL_ID

Copies every record of INPUT to OUTPUT in transactions, and goes on until it is killed.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

AT_ONCE = 20
QUICK = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "retry.backoff.ms": 20,
    "log_level": 0,
}


def new_producer(bootstrap: str, transactional_id: str) -> Producer:
    while True:
        producer = Producer(
            {
                **QUICK,
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 10_000,
            }
        )
        try:
            producer.init_transactions(30)
        except KafkaException:
            continue
        return producer


def rewind(consumer: Consumer) -> None:
    """Go back to what is committed: the transaction that read further was aborted."""
    for place in consumer.committed(consumer.assignment(), timeout=30):
        start = place.offset if place.offset >= 0 else 0
        consumer.seek(TopicPartition(place.topic, place.partition, start))


def run(bootstrap: str, source: str, target: str, transactional_id: str) -> None:
    producer = new_producer(bootstrap, transactional_id)
    consumer = Consumer(
        {
            **QUICK,
            "bootstrap.servers": bootstrap,
            "group.id": "transformers",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
        }
    )
    consumer.subscribe([source])
    while True:
        try:
            read = [message for message in consumer.consume(AT_ONCE, 1) if not message.error()]
            if not read:
                continue
            producer.begin_transaction()
            for message in read:
                producer.produce(
                    target, key=message.key(), value=message.value(), partition=message.partition()
                )
            places = consumer.position(consumer.assignment())
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(places, metadata, 30)
            commit(producer)
        except KafkaException as problem:
            producer = recover(producer, consumer, problem, bootstrap, transactional_id)


def commit(producer: Producer) -> None:
    while True:
        try:
            producer.commit_transaction(30)
        except KafkaException as problem:
            if problem.args[0].retriable():
                continue
            raise
        return


def recover(
    producer: Producer,
    consumer: Consumer,
    problem: KafkaException,
    bootstrap: str,
    transactional_id: str,
) -> Producer:
    print(f"{transactional_id}: {problem}", file=sys.stderr, flush=True)
    try:
        if problem.args[0].fatal():
            raise problem
        producer.abort_transaction(30)
    except KafkaException:
        producer = new_producer(bootstrap, transactional_id)
    while True:
        try:
            rewind(consumer)
        except KafkaException:
            continue
        return producer


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4])
