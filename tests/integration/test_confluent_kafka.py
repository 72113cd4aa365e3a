"""librdkafka through confluent-kafka: the client most Python programs use."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def produce(
    bootstrap: str, topic: str, values: Iterable[bytes], **settings: object
) -> list[Message]:
    """Produce all values to partition 0; the delivery reports, errors raised."""
    reports: list[Message] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        reports.append(message)

    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 20_000, **settings})
    for value in values:
        producer.produce(topic, value, key=b"key", partition=0, on_delivery=delivered)
    assert producer.flush(30) == 0
    return reports


def consume(
    bootstrap: str, topic: str, count: int, offset: int = 0, **settings: object
) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: list[Message] = []
    try:
        while len(found) < count:
            message = consumer.poll(20)
            assert message is not None, f"only {len(found)} of {count} records came"
            if message.error() is not None:
                raise KafkaException(message.error())
            found.append(message)
    finally:
        consumer.close()
    return found


def create(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = NewTopic(
        topic, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()}
    )
    admin.create_topics([wanted])[topic].result(20)
    return admin


@pytest.mark.smoke
@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_come_back_as_sent(bootstrap: str, topic: str, codec: str) -> None:
    create(bootstrap, topic)
    values = [b"%d " % number * 50 for number in range(300)]
    reports = produce(bootstrap, topic, values, **{"compression.type": codec, "linger.ms": 20})
    assert [report.offset() for report in reports] == list(range(300))
    found = consume(bootstrap, topic, 300, **{"check.crcs": True})
    assert [message.value() for message in found] == values
    assert {message.key() for message in found} == {b"key"}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_stores_the_record(bootstrap: str, topic: str, acks: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, [b"one", b"two"], acks=acks)
    assert [message.value() for message in consume(bootstrap, topic, 2)] == [b"one", b"two"]


def test_an_idempotent_producer_numbers_its_batches_without_gaps(
    bootstrap: str, topic: str
) -> None:
    create(bootstrap, topic)
    settings = {"enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 7}
    produce(bootstrap, topic, [b"%d" % number for number in range(1000)], **settings)
    found = consume(bootstrap, topic, 1000)
    assert [int(message.value() or b"-1") for message in found] == list(range(1000))


def test_a_topic_is_created_by_the_first_record_sent_to_it(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [b"hello"])
    assert consume(bootstrap, topic, 1)[0].value() == b"hello"


def test_timestamps_are_the_producers_or_the_logs(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"x", timestamp=1_600_000_000_123)
    assert producer.flush(20) == 0
    kind, created = consume(bootstrap, topic, 1)[0].timestamp()
    assert (kind, created) == (TIMESTAMP_CREATE_TIME, 1_600_000_000_123)

    create(bootstrap, topic + ".log", message_timestamp_type="LogAppendTime")
    producer.produce(topic + ".log", b"x", timestamp=1_600_000_000_123)
    assert producer.flush(20) == 0
    kind, appended = consume(bootstrap, topic + ".log", 1)[0].timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert appended > 1_700_000_000_000


def test_offsets_are_found_by_time_and_by_position(bootstrap: str, topic: str) -> None:
    admin = create(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "batch.num.messages": 1})
    for number in range(20):
        producer.produce(topic, b"x", timestamp=1_600_000_000_000 + 1000 * number)
    assert producer.flush(20) == 0
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> int:
        asked = admin.list_offsets({partition: spec}, isolation_level=IsolationLevel.READ_COMMITTED)
        return int(asked[partition].result(20).offset)

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 20
    assert offset(OffsetSpec.for_timestamp(1_600_000_004_500)) == 5
    assert offset(OffsetSpec.max_timestamp()) == 19
    assert offset(OffsetSpec.for_timestamp(1_700_000_000_000)) == -1


def test_a_batch_at_the_limit_is_taken_and_one_above_it_is_refused(
    bootstrap: str, topic: str
) -> None:
    create(bootstrap, topic)
    large = {"message.max.bytes": 5_000_000}
    overhead = 61 + 30
    produce(bootstrap, topic, [os.urandom(1_048_588 - overhead)], **large)
    with pytest.raises(KafkaException) as refused:
        produce(bootstrap, topic, [os.urandom(1_048_588)], **large)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert len(consume(bootstrap, topic, 1)[0].value() or b"") == 1_048_588 - overhead


def test_an_offset_beyond_the_end_is_out_of_range(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, [b"only"])
    with pytest.raises(KafkaException) as refused:
        consume(bootstrap, topic, 1, offset=100)
    assert refused.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET


def test_a_waiting_consumer_gets_a_record_as_soon_as_it_is_written(
    bootstrap: str, topic: str
) -> None:
    create(bootstrap, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(0.5) is None
    produce(bootstrap, topic, [b"now"])
    message = consumer.poll(5)
    consumer.close()
    assert message is not None and message.value() == b"now"


def test_topics_grow_and_go_and_come_back_empty(bootstrap: str, topic: str) -> None:
    admin = create(bootstrap, topic)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(20)
    assert len(admin.list_topics(topic, timeout=20).topics[topic].partitions) == 4
    produce(bootstrap, topic, [b"old"])
    admin.delete_topics([topic])[topic].result(20)
    assert topic not in admin.list_topics(timeout=20).topics
    create(bootstrap, topic)
    produce(bootstrap, topic, [b"new"])
    assert consume(bootstrap, topic, 1)[0].value() == b"new"


def test_configs_are_described_changed_and_refused_by_name(bootstrap: str, topic: str) -> None:
    admin = create(bootstrap, topic, retention_ms="1000000")
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described = admin.describe_configs([resource])[resource].result(20)
    assert described["retention.ms"].value == "1000000"
    change = ConfigEntry("retention.ms", "2000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(20)
    assert (
        admin.describe_configs([resource])[resource].result(20)["retention.ms"].value == "2000000"
    )
    wrong = ConfigEntry("retention.hours", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[wrong])
    with pytest.raises(KafkaException) as refused:
        admin.incremental_alter_configs([resource])[resource].result(20)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    assert "retention.hours" in refused.value.args[0].str()


def test_deleted_records_are_no_longer_read(bootstrap: str, topic: str) -> None:
    admin = create(bootstrap, topic)
    produce(bootstrap, topic, [b"%d" % number for number in range(10)])
    upto = TopicPartition(topic, 0, 6)
    assert admin.delete_records([upto])[upto].result(20).low_watermark == 6
    assert consume(bootstrap, topic, 1, offset=6)[0].value() == b"6"
    with pytest.raises(KafkaException):
        consume(bootstrap, topic, 1, offset=3)


def test_the_cluster_describes_itself(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    cluster = admin.describe_cluster(include_authorized_operations=True).result(20)
    assert [node.id for node in cluster.nodes] == [100]
    assert len(cluster.cluster_id) == 22
