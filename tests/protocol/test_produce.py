from __future__ import annotations

import io
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_writer
from tests.protocol.kio_messages.entity_schema import MessageKind
from tests.tiers import examples

from tidelog.protocol.frame import MalformedRequest
from tidelog.protocol.primitives import ELEMENTS_MAX
from tidelog.protocol.produce import (
    NodeEndpoint,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    decode_produce,
    decode_produce_response,
    encode_produce,
    encode_produce_response,
)

VERSIONS = range(3, 14)
PRODUCE = 0
TOPIC_ID = UUID(int=7)
NULL_ID = UUID(int=0)
Entities = Callable[[int, int, MessageKind], st.SearchStrategy[Any]]


def kio_bytes(entity: Any) -> bytes:
    encoded = io.BytesIO()
    entity_writer(type(entity))(encoded, entity)
    return encoded.getvalue()


def milliseconds(value: Any) -> int:
    if value is None:
        return -1
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    return int((value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


def topic_key(topic: Any) -> tuple[str | None, UUID | None]:
    if hasattr(topic, "topic_id"):
        return None, topic.topic_id or NULL_ID
    return topic.name, None


def our_request(entity: Any) -> ProduceRequest:
    return ProduceRequest(
        entity.transactional_id,
        entity.acks,
        milliseconds(entity.timeout),
        [
            ProduceTopic(
                *topic_key(topic),
                [
                    (data.index, None if data.records is None else memoryview(data.records))
                    for data in topic.partition_data
                ],
            )
            for topic in entity.topic_data
        ],
    )


def our_partition(data: Any) -> ProducedPartition:
    leader = getattr(data, "current_leader", None)
    return ProducedPartition(
        data.index,
        int(data.error_code),
        data.base_offset,
        milliseconds(data.log_append_time),
        getattr(data, "log_start_offset", -1),
        [(e.batch_index, e.batch_index_error_message) for e in getattr(data, "record_errors", ())],
        getattr(data, "error_message", None),
        None if leader is None else (leader.leader_id, leader.leader_epoch),
    )


def our_topics(entity: Any) -> list[ProducedTopic]:
    return [
        ProducedTopic(*topic_key(topic), [our_partition(d) for d in topic.partition_responses])
        for topic in entity.responses
    ]


def our_endpoints(entity: Any) -> list[NodeEndpoint]:
    return [
        NodeEndpoint(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
        for endpoint in getattr(entity, "node_endpoints", ())
    ]


def header(version: int) -> bytes:
    return struct.pack(">i", 7) + (b"\x00" if version >= 9 else b"")


def canonical(topics: list[ProducedTopic]) -> list[ProducedTopic]:
    """As they read back: no errors is an empty list, no leader is None."""
    return [
        topic._replace(
            partitions=[
                partition._replace(
                    record_errors=list(partition.record_errors),
                    current_leader=None
                    if partition.current_leader == (-1, -1)
                    else partition.current_leader,
                )
                for partition in topic.partitions
            ]
        )
        for topic in topics
    ]


def readable(topics: list[ProducedTopic], version: int) -> list[ProducedTopic]:
    """The same, as `decode_produce_response` spells absent record errors below version 8."""
    if version >= 8:
        return canonical(topics)
    return [
        topic._replace(partitions=[p._replace(record_errors=()) for p in topic.partitions])
        for topic in topics
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_are_kios_byte_for_byte_and_field_for_field(
    version: int, entities: Entities
) -> None:
    @given(entity=entities(PRODUCE, version, "request"))
    @settings(max_examples=examples(60), deadline=None, database=None)
    def agree(entity: Any) -> None:
        body = kio_bytes(entity)
        ours = our_request(entity)

        assert decode_produce(memoryview(body), version) == ours
        assert encode_produce(version, *ours) == body

    agree()


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_are_kios_byte_for_byte_and_field_for_field(
    version: int, entities: Entities
) -> None:
    @given(entity=entities(PRODUCE, version, "response"))
    @settings(max_examples=examples(60), deadline=None, database=None)
    def agree(entity: Any) -> None:
        frame = header(version) + kio_bytes(entity)
        throttle_ms = milliseconds(entity.throttle_time)
        topics, endpoints = our_topics(entity), our_endpoints(entity)

        assert encode_produce_response(version, 7, topics, endpoints, throttle_ms) == frame
        assert decode_produce_response(frame, version) == ProduceResponse(
            7, readable(topics, version), throttle_ms, endpoints
        )

    agree()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_cannot_say_is_left_out(version: int) -> None:
    told = ProducedPartition(0, 6, -1, 5, 3, [(2, "bad")], "moved", (101, 9))
    endpoint = NodeEndpoint(101, "localhost", 9093)

    frame = encode_produce_response(version, 7, [("t", TOPIC_ID, [told])], [endpoint])
    answer = decode_produce_response(frame, version)

    (topic,) = answer.topics
    (read,) = topic.partitions
    assert (topic.name, topic.topic_id) == (("t", None) if version < 13 else (None, TOPIC_ID))
    assert read.log_start_offset == (3 if version >= 5 else -1)
    assert list(read.record_errors) == ([(2, "bad")] if version >= 8 else [])
    assert read.error_message == ("moved" if version >= 8 else None)
    assert read.current_leader == ((101, 9) if version >= 10 else None)
    assert answer.node_endpoints == ([endpoint] if version >= 10 else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_writable_views_of_the_request(version: int) -> None:
    buffer = bytearray(encode_produce(version, None, -1, 0, [("t", TOPIC_ID, [(0, b"abc")])]))

    records = decode_produce(memoryview(buffer), version).topics[0].partitions[0][1]
    assert records is not None
    records[0] = ord("A")

    assert b"Abc" in buffer


@pytest.mark.parametrize("version", [9, 12, 13])
def test_unknown_tags_are_skipped_everywhere(version: int) -> None:
    plain = encode_produce(version, "tx", 1, 5, [("t", TOPIC_ID, [(0, b"abc")])])
    assert plain.endswith(b"abc\x00\x00\x00")
    tag = b"\x01\x07\x02hi"

    tagged = plain.removesuffix(b"\x00\x00\x00") + tag * 3

    assert decode_produce(memoryview(tagged), version) == decode_produce(memoryview(plain), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_anywhere_is_refused(version: int) -> None:
    body = encode_produce(version, "tx", 1, 5, [("t", TOPIC_ID, [(0, b"abc"), (1, None)])])

    for length in range(len(body)):
        with pytest.raises(MalformedRequest):
            decode_produce(memoryview(body)[:length], version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_cut_anywhere_is_refused(version: int) -> None:
    partition = ProducedPartition(0, 6, -1, 5, 3, [(2, "bad")], "moved", (101, 9))
    frame = encode_produce_response(
        version, 7, [("t", TOPIC_ID, [partition])], [NodeEndpoint(101, "h", 9, "rack")]
    )

    for length in range(len(frame)):
        with pytest.raises(MalformedRequest):
            decode_produce_response(memoryview(frame)[:length], version)


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">hhii", -1, 1, 5, -1),
        struct.pack(">hhiih1si", -1, 1, 5, 1, 1, b"t", -1),
        struct.pack(">hhiih1siii", -1, 1, 5, 1, 1, b"t", 1, 0, -2),
        struct.pack(">hhiih", -1, 1, 5, 1, -1) + bytes(8),
        struct.pack(">hhii", -1, 1, 5, (1 << 31) - 1) + bytes(64),
    ],
    ids=["null topics", "null partitions", "negative records", "null name", "2^31 topics"],
)
def test_null_and_impossible_lengths_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        decode_produce(memoryview(body), 3)


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x00\x01\x00\x00\x00\x05\x00\x00",
        b"\x00\x00\x01\x00\x00\x00\x05\x02\x02t\x00\x00\x00",
        b"\x00\x00\x01\x00\x00\x00\x05\x02\x00\x01\x00\x00",
        b"\x00\x00\x01\x00\x00\x00\x05\xff\xff\xff\xff\x0f" + bytes(64),
        b"\x00\x00\x01\x00\x00\x00\x05\x02\x02t\xff\xff\xff\xff\x07" + bytes(64),
        b"\x00\x00\x01\x00\x00\x00\x05\xff\xff\xff\xff\xff\x01" + bytes(64),
    ],
    ids=["null topics", "null partitions", "null name", "2^32", "nested 2^31", "long varint"],
)
def test_null_and_impossible_compact_lengths_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        decode_produce(memoryview(body), 9)


def test_more_elements_than_a_request_may_have_are_refused() -> None:
    def topics(count: int) -> memoryview:
        return memoryview(encode_produce(9, None, 1, 5, [("", None, [])] * count))

    assert len(decode_produce(topics(ELEMENTS_MAX), 9).topics) == ELEMENTS_MAX
    with pytest.raises(MalformedRequest):
        decode_produce(topics(ELEMENTS_MAX + 1), 9)
    for version in (3, 9):
        halves = [("t", None, [(0, None)] * (ELEMENTS_MAX // 2))] * 2
        with pytest.raises(MalformedRequest):
            decode_produce(memoryview(encode_produce(version, None, 1, 5, halves)), version)


@pytest.mark.parametrize("version", [3, 9, 13])
@given(body=st.binary(max_size=200))
@settings(max_examples=examples(200), deadline=None, database=None)
def test_any_bytes_are_a_request_or_malformed(version: int, body: bytes) -> None:
    for decode in (decode_produce, decode_produce_response):
        try:
            decode(memoryview(body), version)
        except MalformedRequest as refused:
            assert str(refused)
