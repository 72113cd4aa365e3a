from __future__ import annotations

import dataclasses
import io
import struct
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader as kio_reader
from kio.serial import entity_writer as kio_writer
from tests.protocol.kio_messages.entity_messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    field,
)
from tests.protocol.kio_messages.entity_schema import MessageKind
from tests.protocol.kio_messages.own_fields import FIRST_TAG
from tests.protocol.pairs import PAIRS, name
from tests.tiers import examples

from tidelog.model.errors import ErrorCode, InvariantBroken
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.frame import MalformedRequest, read_request_header

KINDS: tuple[MessageKind, ...] = ("request", "response")
TOPIC_ID = UUID(int=0xC0FFEE)


def kio_bytes(entity: Any) -> bytes:
    encoded = io.BytesIO()
    kio_writer(type(entity))(encoded, entity)
    return encoded.getvalue()


def as_fields(value: Any) -> Any:
    """Plain values only: mappings, lists, milliseconds, ints; and only what Kafka defines."""
    if dataclasses.is_dataclass(value):
        kafkas = [f for f in dataclasses.fields(value) if f.metadata.get("tag", 0) < FIRST_TAG]
        return {f.name: as_fields(getattr(value, f.name)) for f in kafkas}
    if isinstance(value, tuple):
        return [as_fields(element) for element in value]
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, ErrorCode):
        return int(value)
    return value


def frame_of(kind: MessageKind, api_key: ApiKey, version: int, fields: Any) -> bytes:
    if kind == "request":
        return encode_request(api_key, version, 7, "me", fields)
    return encode_response(api_key, version, 7, fields)


def header_size(kind: MessageKind, api_key: ApiKey, version: int, frame: bytes) -> int:
    if kind == "request":
        return read_request_header(frame).body_offset
    flexible = version >= SUPPORTED[api_key].first_flexible
    return 5 if flexible and api_key is not ApiKey.API_VERSIONS else 4


def decoded(kind: MessageKind, api_key: ApiKey, version: int, frame: bytes) -> Any:
    if kind == "request":
        body = memoryview(bytearray(frame))[read_request_header(frame).body_offset :]
        return decode_request(api_key, version, body)
    correlation_id, entity = decode_response(api_key, version, memoryview(frame))
    assert correlation_id == 7
    return entity


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("api_key", "version"), PAIRS, ids=name)
def test_messages_are_kios_byte_for_byte_and_field_for_field(
    api_key: ApiKey,
    version: int,
    kind: MessageKind,
    entities: Callable[[int, int, MessageKind], st.SearchStrategy[Any]],
) -> None:
    @given(entity=entities(api_key, version, kind))
    @settings(max_examples=examples(12), deadline=None, database=None)
    def agree(entity: Any) -> None:
        body = kio_bytes(entity)
        frame = frame_of(kind, api_key, version, as_fields(entity))
        start = header_size(kind, api_key, version, frame)

        assert frame[start:] == body
        assert decoded(kind, api_key, version, frame) == entity
        judged = kio_reader(type(entity))(memoryview(frame)[start:].toreadonly(), 0)[0]
        assert as_fields(judged) == as_fields(entity)

    agree()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("api_key", "version"), PAIRS, ids=name)
def test_fields_that_are_not_given_take_their_defaults(
    api_key: ApiKey, version: int, kind: MessageKind
) -> None:
    frame = frame_of(kind, api_key, version, {})
    entity = decoded(kind, api_key, version, frame)

    for each in dataclasses.fields(entity):
        if each.default is not dataclasses.MISSING:
            assert getattr(entity, each.name) == each.default
    assert frame[header_size(kind, api_key, version, frame) :] == kio_bytes(entity)


@pytest.mark.parametrize("version", [1, 2])
def test_fields_of_our_own_come_back(version: int) -> None:
    topic = {"name": "orders", "partition_indexes": [0, 4], "leader_epochs": [7, 8]}
    marker = {"producer_id": 9, "coordinator_epoch": 3, "decided_ms": 1_700, "topics": [topic]}
    frame = frame_of("request", ApiKey.WRITE_TXN_MARKERS, version, {"markers": [marker]})

    (ours,) = decoded("request", ApiKey.WRITE_TXN_MARKERS, version, frame).markers
    assert (ours.decided_ms, ours.topics[0].leader_epochs) == (1_700, (7, 8))


def test_one_set_of_fields_serves_every_version_of_a_response() -> None:
    fields = {
        "throttle_time": 20,
        "cluster_id": "cluster",
        "controller_id": 100,
        "brokers": [{"node_id": 100, "host": "localhost", "port": 9092, "rack": None}],
        "topics": [
            {
                "error_code": 0,
                "name": "orders",
                "topic_id": TOPIC_ID,
                "is_internal": False,
                "partitions": [
                    {
                        "error_code": ErrorCode.leader_not_available,
                        "partition_index": 0,
                        "leader_id": -1,
                        "leader_epoch": 4,
                        "replica_nodes": [100],
                        "isr_nodes": [100],
                        "offline_replicas": (),
                    }
                ],
            }
        ],
        "cluster_authorized_operations": -(1 << 31),
    }

    for version in range(14):
        _, answer = decode_response(
            ApiKey.METADATA, version, encode_response(ApiKey.METADATA, version, 7, fields)
        )
        (topic,) = answer.topics
        assert topic.name == "orders"
        assert topic.partitions[0].error_code is ErrorCode.leader_not_available
        assert field(topic.partitions[0], "leader_epoch", -1) == (4 if version >= 7 else -1)
        assert field(topic, "topic_id", None) == (TOPIC_ID if version >= 10 else None)
        assert field(answer, "throttle_time", None) == (
            timedelta(milliseconds=20) if version >= 3 else None
        )


def test_a_field_no_version_has_is_a_bug_of_ours() -> None:
    with pytest.raises(InvariantBroken, match="leader_edoch"):
        encode_response(ApiKey.METADATA, 12, 7, {"topics": [{"partitions": [{"leader_edoch": 1}]}]})


@pytest.mark.parametrize(
    "fields",
    [
        {"brokers": [{"node_id": 1 << 31}]},
        {"brokers": [{"host": None}]},
        {"brokers": None},
        {"topics": [{"name": 5}]},
        {"topics": [{"topic_id": "not an identity"}]},
    ],
    ids=str,
)
def test_a_value_the_protocol_cannot_carry_is_a_bug_of_ours(fields: dict[str, Any]) -> None:
    with pytest.raises(InvariantBroken, match="METADATA"):
        encode_response(ApiKey.METADATA, 12, 7, fields)


def test_the_answer_to_api_versions_has_the_old_header_in_every_version() -> None:
    for version in range(5):
        frame = encode_response(ApiKey.API_VERSIONS, version, 7, {"error_code": 35})

        assert frame[:6] == struct.pack(">ih", 7, 35)
        assert decode_response(ApiKey.API_VERSIONS, version, frame)[1].error_code == 35


def test_supported_features_travel_as_tags() -> None:
    fields = {
        "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}],
        "supported_features": [{"name": "metadata.version", "min_version": 7, "max_version": 30}],
        "finalized_features_epoch": 12,
    }

    _, answer = decode_response(
        ApiKey.API_VERSIONS, 3, encode_response(ApiKey.API_VERSIONS, 3, 7, fields)
    )

    assert answer.supported_features[0].name == "metadata.version"
    assert answer.finalized_features_epoch == 12
    assert answer.finalized_features == ()


def test_unknown_tags_are_skipped() -> None:
    body = b"\x00" + b"\x01\x00" + b"\x02\x05\x03abc\x60\x00"

    request = decode_request(ApiKey.METADATA, 12, body)

    assert (request.topics, request.allow_auto_topic_creation) == (None, True)


def test_a_known_tag_must_fill_its_size() -> None:
    body = encode_response(ApiKey.API_VERSIONS, 3, 7, {"finalized_features_epoch": 12})
    assert body.endswith(b"\x01\x01\x08" + struct.pack(">q", 12))

    with pytest.raises(MalformedRequest, match="finalized_features_epoch"):
        decode_response(ApiKey.API_VERSIONS, 3, body.replace(b"\x01\x08", b"\x01\x09") + b"\x00")


def test_bytes_behind_the_last_field_are_ignored() -> None:
    assert decode_request(ApiKey.METADATA, 0, b"\x00\x00\x00\x00more").topics == ()


def test_null_is_refused_where_the_version_forbids_it() -> None:
    null = b"\xff\xff\xff\xff"

    assert decode_request(ApiKey.METADATA, 1, null).topics is None
    with pytest.raises(MalformedRequest):
        decode_request(ApiKey.DELETE_TOPICS, 1, null + null)


def test_an_array_is_refused_before_its_first_element_when_it_cannot_fit() -> None:
    with pytest.raises(MalformedRequest, match="topics cannot have 4294967294 elements"):
        decode_request(ApiKey.METADATA, 12, b"\xff\xff\xff\xff\x0f" + bytes(100))


def test_an_error_code_that_is_news_to_us_is_an_unknown_server_error() -> None:
    frame = encode_response(ApiKey.INIT_PRODUCER_ID, 4, 7, {"error_code": 9999})

    _, answer = decode_response(ApiKey.INIT_PRODUCER_ID, 4, frame)

    assert answer.error_code is ErrorCode.unknown_server_error


def test_an_api_or_version_that_does_not_exist_is_malformed() -> None:
    with pytest.raises(MalformedRequest):
        decode_request(ApiKey.METADATA, 99, b"")
    with pytest.raises(MalformedRequest):
        decode_request(4, 0, b"")
    with pytest.raises(MalformedRequest):
        decode_response(ApiKey.METADATA, 99, bytes(8))


def test_a_struct_can_be_null_behind_its_marker() -> None:
    cursor = {"topic_name": "orders", "partition_index": 4}
    for given_cursor in (None, cursor):
        frame = encode_request(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 7, None, {"cursor": given_cursor}
        )
        body = frame[read_request_header(frame).body_offset :]

        request = decode_request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body)

        assert as_fields(request)["cursor"] == given_cursor


def test_nothing_of_a_request_refers_to_its_buffer() -> None:
    buffer = bytearray(b"\x00\x00\x00\x01\x00\x03abc")

    request = decode_request(ApiKey.METADATA, 0, memoryview(buffer))
    buffer.clear()

    assert request.topics[0].name == "abc"
