"""What a live broker no longer has to keep leaves its disk, and readers are told."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.integration.raw import (
    HungUp,
    Peer,
    Topic,
    batch_of,
    correlation_id,
    create_topic,
    delete_topic,
    end_offset,
    fetch,
    fetch_from,
    produce,
    start_offset,
    until,
)

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import decode_fetch_response
from tidelog.records.batch import crc_matches, whole_batches
from tidelog.records.builder import NewRecord, build_batch
from tidelog.testing.cluster import Cluster

MIB = 1 << 20
BATCH = 250_000
SEGMENT = 4 * BATCH
HOUR_MS = 3_600_000
DELAY_S = 1.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "log.retention.check.interval.ms": "200",
        "log.initial.task.delay.ms": "200",
        "log.retention.ms": "-1",
        "log.segment.bytes": str(MIB),
        "log.segment.delete.delay.ms": str(int(1000 * DELAY_S)),
    }
    with Cluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running


def make_topic(peer: Peer, name: str, **configs: str) -> Topic:
    """One whose appends are durable when they are answered, so that also its first segment, which
    ends only after that, has as many batches as any other."""
    return create_topic(peer, name, 1, flush_messages="1", **configs)


def directory_of(cluster: Cluster, topic: Topic) -> Path:
    return cluster.data() / f"{topic.name}-0"


def first_offsets(directory: Path) -> list[int]:
    """The base offsets of the segments on disk."""
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def fill(peer: Peer, topic: Topic, batches: int, age_ms: int = 0) -> None:
    """Batches of one record, four to a segment."""
    moment = time.time_ns() // 1_000_000 - age_ms
    for _ in range(batches):
        record = NewRecord(b"key", random.randbytes(BATCH), moment)
        assert produce(peer, topic, build_batch([record])).error == ErrorCode.none


def delete_records(peer: Peer, topic: Topic, offset: int) -> int:
    asked = {"partition_index": 0, "offset": offset}
    fields = {"topics": [{"name": topic.name, "partitions": [asked]}], "timeout": 1000}
    (answer,) = peer.call(ApiKey.DELETE_RECORDS, 2, fields).topics[0].partitions
    assert answer.error_code == ErrorCode.none
    return int(answer.low_watermark)


def test_segments_beyond_retention_bytes_leave_the_disk(
    cluster: Cluster, peer: Peer, topic: str
) -> None:
    made = make_topic(peer, topic, retention_bytes=str(3 * SEGMENT))
    directory = directory_of(cluster, made)
    fill(peer, made, 40)
    until(lambda: start_offset(peer, made) == 28)
    assert end_offset(peer, made) == 40
    assert first_offsets(directory) == [28, 32, 36]
    until(lambda: list(directory.glob("*.deleted")) == [])
    kept = {f"{offset:020}" for offset in (28, 32, 36, 40)}
    assert {path.stem for path in directory.iterdir() if path.stem.isdigit()} <= kept
    assert fetch(peer, made, 27).error == ErrorCode.offset_out_of_range
    at_start = fetch(peer, made, 28)
    assert (at_start.error, at_start.log_start_offset) == (ErrorCode.none, 28)


def test_a_stock_consumer_below_the_log_start_is_told_or_goes_on_at_the_start(
    bootstrap: str, peer: Peer, topic: str
) -> None:
    made = make_topic(peer, topic, retention_bytes=str(SEGMENT))
    fill(peer, made, 12)
    until(lambda: start_offset(peer, made) == 8)

    def first_message(reset: str) -> int | KafkaError:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "auto.offset.reset": reset,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, 0, 3)])
            message = consumer.poll(10)
            assert message is not None
            return message.error() or message.offset() or 0
        finally:
            consumer.close()

    assert first_message("earliest") == 8
    error = first_message("error")
    assert isinstance(error, KafkaError) and error.code() == KafkaError._AUTO_OFFSET_RESET


def test_records_older_than_retention_ms_go_the_active_segment_included(
    cluster: Cluster, peer: Peer, topic: str
) -> None:
    made = make_topic(peer, topic, retention_ms="60000")
    fill(peer, made, 6, age_ms=HOUR_MS)
    until(lambda: start_offset(peer, made) == 6)
    assert first_offsets(directory_of(cluster, made)) == [6]
    fill(peer, made, 1, age_ms=HOUR_MS)
    fill(peer, made, 1)
    assert end_offset(peer, made) == 8
    assert fetch(peer, made, 5).error == ErrorCode.offset_out_of_range
    until(lambda: list(directory_of(cluster, made).glob("*.deleted")) == [])
    assert start_offset(peer, made) == 6  # one young record keeps its segment


def test_a_changed_retention_acts_at_once(
    cluster: Cluster, bootstrap: str, peer: Peer, topic: str
) -> None:
    made = make_topic(peer, topic)
    fill(peer, made, 12, age_ms=HOUR_MS)
    gone = make_topic(peer, topic + ".other", retention_bytes="0")
    fill(peer, gone, 5)
    until(lambda: start_offset(peer, gone) == end_offset(peer, gone))
    assert start_offset(peer, made) == 0  # retention has run, and had nothing to do here
    change = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(20)
    until(lambda: start_offset(peer, made) == 12)
    assert first_offsets(directory_of(cluster, made)) == [12]


def test_a_compacted_topic_is_not_shortened(cluster: Cluster, peer: Peer, topic: str) -> None:
    kept = make_topic(
        peer, topic, cleanup_policy="compact", retention_bytes="0", retention_ms="1000"
    )
    fill(peer, kept, 8, age_ms=HOUR_MS)
    gone = make_topic(peer, topic + ".other", retention_bytes="0")
    fill(peer, gone, 1)
    until(lambda: start_offset(peer, gone) == 1)
    assert start_offset(peer, kept) == 0
    assert first_offsets(directory_of(cluster, kept)) == [0, 4]


def test_deleted_records_take_their_segments_with_them(
    cluster: Cluster, peer: Peer, topic: str
) -> None:
    made = make_topic(peer, topic)
    directory = directory_of(cluster, made)
    fill(peer, made, 14)
    assert delete_records(peer, made, 9) == 9
    assert fetch(peer, made, 8).error == ErrorCode.offset_out_of_range
    assert fetch(peer, made, 9).records
    until(lambda: first_offsets(directory) == [8, 12])
    assert start_offset(peer, made) == 9
    assert delete_records(peer, made, 3) == 9  # never back
    assert delete_records(peer, made, -1) == 14
    assert start_offset(peer, made) == end_offset(peer, made) == 14
    until(lambda: first_offsets(directory) == [12])
    fill(peer, made, 1)
    assert fetch(peer, made, 14).records
    until(lambda: list(directory.glob("*.deleted")) == [])


def test_files_stay_for_the_delete_delay_under_another_name(
    cluster: Cluster, peer: Peer, topic: str
) -> None:
    made = make_topic(peer, topic, retention_bytes=str(SEGMENT))
    directory = directory_of(cluster, made)
    fill(peer, made, 12)
    until(lambda: start_offset(peer, made) == 8)
    waiting = [directory / f"{offset:020}.log.deleted" for offset in (0, 4)]
    set_aside = max(path.stat().st_ctime for path in waiting)  # when they got that name
    until(lambda: list(directory.glob("*.deleted")) == [])
    assert time.time() - set_aside > DELAY_S


def test_a_deleted_topic_leaves_the_disk_after_the_delete_delay(
    cluster: Cluster, peer: Peer, topic: str
) -> None:
    made = make_topic(peer, topic)
    fill(peer, made, 5)
    before = time.monotonic()
    delete_topic(peer, made)
    assert not directory_of(cluster, made).exists()
    (waiting,) = cluster.data().glob(f"{topic}-0.*-delete")
    assert fetch(peer, made, 0).error == ErrorCode.unknown_topic_or_partition
    again = make_topic(peer, topic)
    assert end_offset(peer, again) == 0
    until(lambda: not waiting.exists())
    assert time.monotonic() - before > DELAY_S
    assert directory_of(cluster, again).exists()


@pytest.mark.parametrize("version", [12, 18])
def test_whoever_waits_for_a_record_of_a_deleted_topic_is_told(
    bootstrap: str, peer: Peer, topic: str, version: int
) -> None:
    made = make_topic(peer, topic)
    with Peer(bootstrap, timeout_s=5) as parked:
        parked.send_frame(fetch_from(version, made, 0, max_wait_ms=60_000, session=(0, 0)))
        assert end_offset(peer, made) == 0
        delete_topic(peer, made)
        answer = decode_fetch_response(memoryview(parked.receive()), version)
        expected = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)
        assert answer.topics[0].partitions[0].error in expected


def test_a_slow_reader_of_removed_segments_gets_good_bytes_or_is_hung_up_on(
    cluster: Cluster, bootstrap: str, peer: Peer, topic: str
) -> None:
    made = make_topic(peer, topic, file_delete_delay_ms="0")
    fill(peer, made, 60)
    with Peer(bootstrap) as slow:
        for offset in range(56):
            slow.send_frame(fetch_from(12, made, offset, correlation_id=offset))
        delete_records(peer, made, 60)
        directory = directory_of(cluster, made)
        until(lambda: first_offsets(directory) == [56])
        until(lambda: list(directory.glob("*.deleted")) == [])
        received = 0
        try:
            for offset in range(56):
                answer = memoryview(slow.receive())
                assert correlation_id(answer[:4].tobytes()) == offset
                records = decode_fetch_response(answer, 12).topics[0].partitions[0].records
                assert isinstance(records, memoryview)
                for header, batch in whole_batches(records):
                    assert crc_matches(batch) and header.base_offset >= offset
                received += 1
        except HungUp:
            pass
        assert received > 0
    assert produce(peer, made, batch_of(b"alive")).base_offset == 60


def test_the_log_start_outlives_a_restart(cluster: Cluster, topic: str) -> None:
    with Peer(cluster.bootstrap) as peer:
        shortened = make_topic(peer, topic, retention_bytes=str(SEGMENT))
        cut = make_topic(peer, topic + ".cut")
        fill(peer, shortened, 12)
        fill(peer, cut, 6)
        delete_records(peer, cut, 5)
        until(lambda: start_offset(peer, shortened) == 8)
    cluster.stop()
    cluster.start()
    with Peer(cluster.bootstrap) as peer:
        assert (start_offset(peer, shortened), end_offset(peer, shortened)) == (8, 12)
        assert (start_offset(peer, cut), end_offset(peer, cut)) == (5, 6)
