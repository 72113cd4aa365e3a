from __future__ import annotations

import io
import struct
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_writer
from kio.static.primitive import Records
from tests.protocol.kio_messages.entity_schema import MessageKind
from tests.tiers import examples

from tidelog.protocol.fetch import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FileRegion,
    NodeEndpoint,
    decode_fetch,
    decode_fetch_response,
    encode_fetch,
    encode_fetch_response,
    joined,
)
from tidelog.protocol.frame import MalformedRequest
from tidelog.protocol.primitives import ELEMENTS_MAX

VERSIONS = range(4, 19)
FETCH = 1
TOPIC_ID = UUID(int=7)
NULL_ID = UUID(int=0)
NO_HIGH_WATERMARK = (1 << 63) - 1
Entities = Callable[[int, int, MessageKind], st.SearchStrategy[Any]]

CONSUMER = FetchRequest(-1, -1, 500, 1, 50 << 20, 1, 9, 3, [], [], "rack", None)


def kio_bytes(entity: Any) -> bytes:
    encoded = io.BytesIO()
    entity_writer(type(entity))(encoded, entity)
    return encoded.getvalue()


def milliseconds(value: timedelta) -> int:
    return value // timedelta(milliseconds=1)


def topic_key(topic: Any) -> tuple[str | None, UUID | None]:
    if hasattr(topic, "topic_id"):
        return None, topic.topic_id or NULL_ID
    return topic.topic, None


def our_request(entity: Any) -> FetchRequest:
    state = getattr(entity, "replica_state", None)
    return FetchRequest(
        entity.replica_id if state is None else state.replica_id,
        -1 if state is None else state.replica_epoch,
        milliseconds(entity.max_wait),
        entity.min_bytes,
        entity.max_bytes,
        entity.isolation_level,
        getattr(entity, "session_id", 0),
        getattr(entity, "session_epoch", -1),
        [
            FetchTopic(
                *topic_key(topic),
                [
                    FetchPartition(
                        asked.partition,
                        getattr(asked, "current_leader_epoch", -1),
                        asked.fetch_offset,
                        getattr(asked, "last_fetched_epoch", -1),
                        getattr(asked, "log_start_offset", -1),
                        asked.partition_max_bytes,
                        getattr(asked, "replica_directory_id", None),
                        getattr(asked, "high_watermark", NO_HIGH_WATERMARK),
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in entity.topics
        ],
        [
            (*topic_key(topic), topic.partitions)
            for topic in getattr(entity, "forgotten_topics_data", ())
        ],
        getattr(entity, "rack_id", ""),
        getattr(entity, "cluster_id", None),
    )


def pair(entity: Any, first: str, second: str) -> tuple[int, int] | None:
    if entity is None or (getattr(entity, first), getattr(entity, second)) == (-1, -1):
        return None
    return getattr(entity, first), getattr(entity, second)


def our_partition(data: Any) -> FetchedPartition:
    aborted = data.aborted_transactions
    return FetchedPartition(
        data.partition_index,
        int(data.error_code),
        data.high_watermark,
        data.last_stable_offset,
        getattr(data, "log_start_offset", -1),
        None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted],
        getattr(data, "preferred_read_replica", -1),
        None if data.records is None else memoryview(data.records),
        pair(getattr(data, "diverging_epoch", None), "epoch", "end_offset"),
        pair(getattr(data, "current_leader", None), "leader_id", "leader_epoch"),
        pair(getattr(data, "snapshot_id", None), "end_offset", "epoch"),
    )


def our_response(entity: Any) -> FetchResponse:
    return FetchResponse(
        7,
        milliseconds(entity.throttle_time),
        int(getattr(entity, "error_code", 0)),
        getattr(entity, "session_id", 0),
        [
            FetchedTopic(*topic_key(topic), [our_partition(data) for data in topic.partitions])
            for topic in entity.responses
        ],
        [
            NodeEndpoint(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
            for endpoint in getattr(entity, "node_endpoints", ())
        ],
    )


def encoded(version: int, response: FetchResponse) -> bytes:
    return joined(
        encode_fetch_response(
            version,
            response.correlation_id,
            response.error,
            response.session_id,
            response.topics,
            response.node_endpoints,
            response.throttle_ms,
        )
    )


def header(version: int) -> bytes:
    return struct.pack(">i", 7) + (b"\x00" if version >= 12 else b"")


def without_null_records(response: FetchResponse) -> FetchResponse:
    def filled(partition: FetchedPartition) -> FetchedPartition:
        return partition._replace(records=partition.records or memoryview(b""))

    return response._replace(
        topics=[
            topic._replace(partitions=[filled(partition) for partition in topic.partitions])
            for topic in response.topics
        ]
    )


class StoredFile:
    def __init__(self, content: bytes) -> None:
        self.content = content

    def read(self, position: int, length: int) -> bytes:
        return self.content[position : position + length]


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_are_kios_byte_for_byte_and_field_for_field(
    version: int, entities: Entities
) -> None:
    @given(entity=entities(FETCH, version, "request"))
    @settings(max_examples=examples(50), deadline=None, database=None)
    def agree(entity: Any) -> None:
        body = kio_bytes(entity)
        ours = our_request(entity)

        assert decode_fetch(memoryview(body), version) == ours
        assert encode_fetch(version, ours) == body

    agree()


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_are_kios_byte_for_byte_and_field_for_field(
    version: int, entities: Entities
) -> None:
    @given(entity=entities(FETCH, version, "response"))
    @settings(max_examples=examples(50), deadline=None, database=None)
    def agree(entity: Any) -> None:
        ours = our_response(entity)
        frame = header(version) + kio_bytes(entity)

        assert decode_fetch_response(memoryview(frame), version) == ours
        filled = without_null_records(ours)
        assert decode_fetch_response(memoryview(encoded(version, ours)), version) == filled
        if ours == filled:
            assert encoded(version, ours) == frame

    agree()


@pytest.mark.parametrize("version", VERSIONS)
def test_no_records_are_written_as_empty_and_never_as_null(version: int) -> None:
    empty = FetchedPartition(0, 0, 5, records=Records(b""))
    for nothing in (empty, empty._replace(records=None)):
        frame = joined(encode_fetch_response(version, 7, 0, 0, [("t", TOPIC_ID, [nothing])]))

        (topic,) = decode_fetch_response(memoryview(frame), version).topics
        assert topic.partitions[0].records == b""


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_large_records_and_file_regions_stand_alone_between_merged_bytes(version: int) -> None:
    stored = StoredFile(bytes(range(100)))
    region = FileRegion(stored, 20, 30)
    large = memoryview(b"L" * 5000)
    small = memoryview(b"small")
    partitions = [
        FetchedPartition(index, 0, 5, records=records)
        for index, records in enumerate([small, region, small, large, None])
    ]

    parts = encode_fetch_response(version, 7, 0, 0, [("t", TOPIC_ID, partitions)])

    assert [type(part) for part in parts] == [
        bytearray,
        FileRegion,
        bytearray,
        memoryview,
        bytearray,
    ]
    assert (parts[1], parts[3]) == (region, large)
    (topic,) = decode_fetch_response(memoryview(joined(parts)), version).topics
    assert [partition.records for partition in topic.partitions] == [
        b"small",
        stored.content[20:50],
        b"small",
        large,
        b"",
    ]


def test_an_answer_without_partitions_is_one_part() -> None:
    (part,) = encode_fetch_response(18, 7, 70, 99, [])

    assert part == struct.pack(">ibihibb", 7, 0, 0, 70, 99, 1, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_cannot_say_is_left_out(version: int) -> None:
    told = FetchedPartition(3, 6, 9, 8, 1, [(4, 2)], 102, b"abc", (4, 7), (101, 5), (6, 2))
    endpoint = NodeEndpoint(101, "localhost", 9093, "rack")

    frame = joined(
        encode_fetch_response(version, 7, 71, 99, [("t", TOPIC_ID, [told])], [endpoint], 12)
    )
    answer = decode_fetch_response(memoryview(frame), version)

    assert (answer.error, answer.session_id) == ((71, 99) if version >= 7 else (0, 0))
    assert answer.node_endpoints == ([endpoint] if version >= 16 else [])
    (topic,) = answer.topics
    (read,) = topic.partitions
    assert (topic.name, topic.topic_id) == (("t", None) if version < 13 else (None, TOPIC_ID))
    assert read.log_start_offset == (1 if version >= 5 else -1)
    assert read.preferred_read_replica == (102 if version >= 11 else -1)
    tags = (read.diverging_epoch, read.current_leader, read.snapshot_id)
    assert tags == (((4, 7), (101, 5), (6, 2)) if version >= 12 else (None, None, None))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_follower_says_who_it_is_and_what_it_holds(version: int) -> None:
    asked = FetchPartition(0, 4, 10, 3, 2, 1024, UUID(int=8), 9)
    request = CONSUMER._replace(
        replica_id=102,
        replica_epoch=77,
        cluster_id="cluster",
        topics=[FetchTopic("t", TOPIC_ID, [asked])],
        forgotten=[("u", TOPIC_ID, (1, 2))],
    )

    read = decode_fetch(memoryview(encode_fetch(version, request)), version)

    assert (read.replica_id, read.replica_epoch) == (102, 77 if version >= 15 else -1)
    assert read.cluster_id == ("cluster" if version >= 12 else None)
    assert [partitions for _, _, partitions in read.forgotten] == [(1, 2)] * (version >= 7)
    (partition,) = read.topics[0].partitions
    assert partition.last_fetched_epoch == (3 if version >= 12 else -1)
    assert partition.replica_directory_id == (UUID(int=8) if version >= 17 else None)
    assert partition.high_watermark == (9 if version >= 18 else NO_HIGH_WATERMARK)


@pytest.mark.parametrize("version", range(12, 19))
def test_unknown_tags_are_skipped_everywhere(version: int) -> None:
    request = CONSUMER._replace(
        topics=[FetchTopic("t", TOPIC_ID, [FetchPartition(0, 1, 2, 3, 4, 5)])]
    )
    plain = encode_fetch(version, request)
    behind_partition = struct.pack(">qi", 4, 5)
    assert plain.count(behind_partition + b"\x00\x00") == 1
    tag = b"\x01\x1e\x02hi"

    tagged = plain.replace(behind_partition + b"\x00\x00", behind_partition + tag + tag)
    tagged = tagged.removesuffix(b"\x00") + tag

    assert decode_fetch(memoryview(tagged), version) == decode_fetch(memoryview(plain), version)


@pytest.mark.parametrize(
    ("tag", "size"), [(0, 15), (0, 17), (1, 7), (1, 9)], ids=["id", "id", "mark", "mark"]
)
def test_a_known_tag_must_fill_its_size(tag: int, size: int) -> None:
    request = CONSUMER._replace(
        topics=[FetchTopic("t", TOPIC_ID, [FetchPartition(0, 1, 2, 3, 4, 5)])]
    )
    behind_partition = struct.pack(">qi", 4, 5)
    body = encode_fetch(18, request).replace(
        behind_partition + b"\x00", behind_partition + bytes([1, tag, size]) + bytes(size)
    )

    with pytest.raises(MalformedRequest):
        decode_fetch(memoryview(body), 18)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_anywhere_is_refused(version: int) -> None:
    asked = FetchPartition(0, 4, 10, 3, 2, 1024, UUID(int=8), 9)
    request = CONSUMER._replace(
        replica_id=102,
        replica_epoch=77,
        cluster_id="cluster",
        topics=[FetchTopic("t", TOPIC_ID, [asked, asked])],
        forgotten=[("u", TOPIC_ID, (1, 2))],
    )
    body = memoryview(encode_fetch(version, request))

    for length in range(len(body)):
        with pytest.raises(MalformedRequest):
            decode_fetch(body[:length], version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_cut_anywhere_is_refused(version: int) -> None:
    told = FetchedPartition(3, 6, 9, 8, 1, [(4, 2)], 102, b"abc", (4, 7), (101, 5), (6, 2))
    frame = memoryview(
        joined(
            encode_fetch_response(
                version, 7, 0, 99, [("t", TOPIC_ID, [told])], [NodeEndpoint(101, "h", 9)]
            )
        )
    )

    for length in range(len(frame)):
        with pytest.raises(MalformedRequest):
            decode_fetch_response(frame[:length], version)


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 18])
def test_null_and_impossible_arrays_are_refused(version: int) -> None:
    empty = encode_fetch(version, CONSUMER)
    start = 17 if version < 7 else 25 if version < 15 else 21
    flexible = version >= 12
    width = 1 if flexible else 4
    lengths = [b"\x00", b"\xff\xff\xff\xff\x0f"] if flexible else [b"\xff" * 4, b"\x7f" * 4]

    for length in lengths:
        for array in range(1 if version < 7 else 2):
            at = start + array * width
            with pytest.raises(MalformedRequest):
                decode_fetch(memoryview(empty[:at] + length + empty[at + width :]), version)


def test_more_elements_than_a_request_may_have_are_refused() -> None:
    half = tuple(range(ELEMENTS_MAX // 2))
    request = CONSUMER._replace(forgotten=[("t", None, half)])
    assert decode_fetch(memoryview(encode_fetch(11, request)), 11).forgotten[0][2] == half

    request = CONSUMER._replace(forgotten=[("t", None, half)] * 2)
    with pytest.raises(MalformedRequest):
        decode_fetch(memoryview(encode_fetch(11, request)), 11)


@pytest.mark.parametrize("version", [4, 7, 12, 18])
@given(body=st.binary(max_size=300))
@settings(max_examples=examples(200), deadline=None, database=None)
def test_any_bytes_are_a_message_or_malformed(version: int, body: bytes) -> None:
    for decode in (decode_fetch, decode_fetch_response):
        try:
            decode(memoryview(body), version)
        except MalformedRequest as refused:
            assert str(refused)
