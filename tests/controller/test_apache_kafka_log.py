"""The metadata log and the snapshot of a real node of Apache Kafka, read by our image."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord, decode_record, encode_record
from tidelog.records.batch import whole_batches
from tidelog.records.record import records_of

DATA = Path(__file__).parent / "data"
LOG = "00000000000000000000.log"
SNAPSHOT = "00000000000000000142-0000000002.checkpoint"


def values_in(name: str) -> Iterator[tuple[int, bytes]]:
    for header, batch in whole_batches((DATA / name).read_bytes()):
        if not header.is_control:
            for record in records_of(batch):
                assert record.value is not None
                yield record.offset, record.value


def records_in(name: str) -> Iterator[tuple[int, MetadataRecord]]:
    return ((offset, decode_record(value)) for offset, value in values_in(name))


def image_of(name: str) -> ClusterImage:
    image = ClusterImage()
    image.replay_all(records_in(name))
    return image


def test_every_record_of_the_log_and_the_snapshot_is_written_back_as_it_was() -> None:
    for name in (LOG, SNAPSHOT):
        for _, value in values_in(name):
            assert encode_record(decode_record(value)) == value


def test_the_log_and_the_snapshot_build_the_same_state() -> None:
    replayed, loaded = image_of(LOG), image_of(SNAPSHOT)
    assert replayed == loaded
    assert replayed.digest() == loaded.digest()
    assert replayed.end_offset == 142


def test_our_snapshot_of_the_log_holds_the_records_of_the_snapshot() -> None:
    def sorted_values(image: ClusterImage) -> list[bytes]:
        return sorted(encode_record(record) for record in image.snapshot_records())

    assert sorted_values(image_of(LOG)) == sorted_values(image_of(SNAPSHOT))
    others = {value for _, value in values_in(SNAPSHOT) if value[1] not in (0, 27)}
    assert others <= set(sorted_values(image_of(LOG)))


def test_the_state_is_what_the_tools_of_apache_kafka_showed() -> None:
    image = image_of(LOG)
    assert image.features == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert list(image.topics_by_name) == ["orders"]
    partitions = image.topics_by_name["orders"].partitions
    assert sorted(partitions) == [0, 1, 2, 3]
    assert all(
        (p.leader, p.leader_epoch, p.partition_epoch) == (1, 2, 2) for p in partitions.values()
    )
    assert all((p.isr, p.elr, p.last_known_elr) == ((1,), (), ()) for p in partitions.values())
    assert image.config(2, "orders") == {"retention.ms": "60000", "segment.bytes": "2000000"}
    assert image.config(4, "") == {"min.insync.replicas": "1"}
    assert image.brokers[1].broker_epoch == 65
    assert image.brokers[1].active
    assert list(image.controllers) == [1]
    assert image.next_producer_id == 1000
    assert list(image.access.credentials) == [("alice", 1)]
    assert sorted(v for values in image.access.quotas.values() for v in values.items()) == [
        ("consumer_byte_rate", 2048.0),
        ("producer_byte_rate", 1024.0),
    ]
