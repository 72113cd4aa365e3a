"""The records of the offsets topic, byte for byte as Apache Kafka 4.3.1 writes them."""

from __future__ import annotations

import pytest

from tidelog.coordinator.groups.records import GroupRecord, decode_record, encode_record
from tidelog.protocol.primitives import MalformedRequest
from tidelog.protocol.stored.groups import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

MEMBER_KEY = b"\x00\x05\x00\x02g3\x00\x16tCBBniaLQ4CjIWzTm/4z9A"
MEMBER_VALUE = (
    b"\x00\x00\x00\x00\x08rdkafka\x0b/127.0.0.1\x02\x02t\x01\x00\x04\x93\xe0\x00\x01\x00\x01\x00"
)


def test_a_member_written_by_apache_kafka_is_read_and_written_alike() -> None:
    record = decode_record(MEMBER_KEY, MEMBER_VALUE)
    assert record == GroupRecord(
        ConsumerGroupMemberMetadataKey(group_id="g3", member_id="tCBBniaLQ4CjIWzTm/4z9A"),
        ConsumerGroupMemberMetadataValue(
            client_id="rdkafka",
            client_host="/127.0.0.1",
            subscribed_topic_names=("t",),
            subscribed_topic_regex="",
            rebalance_timeout_ms=300_000,
            classic_member_metadata=None,
        ),
    )
    assert encode_record(record) == (MEMBER_KEY, MEMBER_VALUE)


def test_a_member_of_the_classic_protocol_brings_its_own_protocols() -> None:
    classic = ClassicMemberMetadata(
        session_timeout_ms=6000,
        supported_protocols=(ClassicProtocol(name="range", metadata=b"m"),),
    )
    value = ConsumerGroupMemberMetadataValue(
        client_id="c", client_host="/h", classic_member_metadata=classic
    )
    record = GroupRecord(ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), value)
    key, data = encode_record(record)
    assert data is not None
    assert data.endswith(b"\x01\x00\x10\x01\x00\x00\x17\x70\x02\x06range\x02m\x00\x00")
    assert decode_record(key, data) == record


def test_offsets_are_written_in_version_4_and_read_in_all() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
    stored, data = encode_record(GroupRecord(key, value))
    assert stored == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x01"
    assert data is not None
    assert data[:2] == b"\x00\x04"
    version_3 = (
        b"\x00\x03" + (5).to_bytes(8, "big") + b"\x00\x00\x00\x02\x00\x01m" + (9).to_bytes(8, "big")
    )
    assert decode_record(stored, version_3) == GroupRecord(key, value)
    assert decode_record(b"\x00\x00" + stored[2:], version_3) == GroupRecord(key, value)


def test_an_offset_with_an_end_is_written_in_the_version_that_can_say_it() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=9, expire_timestamp=11)
    stored, data = encode_record(GroupRecord(key, value))
    assert data is not None
    assert data[:2] == b"\x00\x01"
    assert decode_record(stored, data) == GroupRecord(key, value)


def test_groups_are_written_in_version_3() -> None:
    record = GroupRecord(
        GroupMetadataKey(group="g"),
        GroupMetadataValue(protocol_type="consumer", generation=3, current_state_timestamp=7),
    )
    key, data = encode_record(record)
    assert data is not None
    assert (key, data[:2]) == (b"\x00\x02\x00\x01g", b"\x00\x03")
    assert decode_record(key, data) == record
    assert decode_record(key, None) == GroupRecord(GroupMetadataKey(group="g"), None)


def test_records_of_other_kinds_of_groups_are_left_alone() -> None:
    assert decode_record(b"\x00\x0b\x00\x01s", b"\x00\x00\x00") is None


@pytest.mark.parametrize(
    ("key", "value"), [(b"", b""), (b"\x00\x02\x00", None), (MEMBER_KEY, b"\x00\x00\x07")]
)
def test_what_is_no_record_is_noticed(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedRequest):
        decode_record(key, value)
