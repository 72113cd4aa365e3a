"""kafka-python: a third implementation of the protocol and of record batches."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

CODECS = (None, "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_come_back_as_sent(
    bootstrap: str, topic: str, codec: str | None
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, 1, 1)])
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=codec, acks="all", linger_ms=5
    )
    sent = [
        producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1_600_000_000_000 + number)
        for number in range(200)
    ]
    assert [report.get(20).offset for report in sent] == list(range(200))
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
        if len(found) == 200:
            break
    assert found == [(b"%d" % number, 1_600_000_000_000 + number) for number in range(200)]
    at = consumer.offsets_for_times({partition: 1_600_000_000_100})[partition]
    assert at is not None and at.offset == 100
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 200}
    consumer.close()
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    admin.close()
