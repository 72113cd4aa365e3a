"""aiokafka: a client that speaks old versions of the protocol, with its own record code."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

CODECS = (None, "gzip", "snappy", "lz4", "zstd")


async def round_trip(bootstrap: str, topic: str, codec: str | None, count: int) -> list[bytes]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=True, linger_ms=5
    )
    await producer.start()
    sent = [
        await producer.send(topic, b"%d" % number, partition=0, headers=[("n", b"%d" % number)])
        for number in range(count)
    ]
    for number, report in enumerate(sent):
        assert (await report).offset == number
    await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), 0)
    found: list[bytes] = []
    while len(found) < count:
        record = await asyncio.wait_for(consumer.getone(), 20)
        assert record.headers == (("n", record.value),)
        found.append(record.value)
    assert await consumer.end_offsets([TopicPartition(topic, 0)]) == {
        TopicPartition(topic, 0): count
    }
    await consumer.stop()
    return found


@pytest.mark.smoke
@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_come_back_as_sent(
    bootstrap: str, topic: str, codec: str | None
) -> None:
    found = asyncio.run(round_trip(bootstrap, topic, codec, 200))
    assert found == [b"%d" % number for number in range(200)]
