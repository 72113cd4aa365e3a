"""kafka-python at everyday work, in a process of its own: it leaves sockets open at its end."""

from __future__ import annotations

import sys

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

COUNT = 200
FIRST_MS = 1_600_000_000_000


def main(bootstrap: str, topic: str, codec: str | None) -> None:
    """Create, produce, consume, look up, delete; any surprise ends the process with an error."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, 1, 1)])
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=codec, acks="all", linger_ms=5
    )
    sent = [
        producer.send(topic, b"%d" % number, partition=0, timestamp_ms=FIRST_MS + number)
        for number in range(COUNT)
    ]
    assert [report.get(20).offset for report in sent] == list(range(COUNT))
    producer.close()
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, consumer_timeout_ms=20_000, enable_auto_commit=False
    )
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found = []
    for record in consumer:
        found.append((record.value, record.timestamp))
        if len(found) == COUNT:
            break
    assert found == [(b"%d" % number, FIRST_MS + number) for number in range(COUNT)]
    at = consumer.offsets_for_times({partition: FIRST_MS + 100})[partition]
    assert at is not None and at.offset == 100
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: COUNT}
    consumer.close()
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    admin.close()


main(sys.argv[1], sys.argv[2], None if sys.argv[3] == "none" else sys.argv[3])
