"""The Produce response, versions 3 to 13, written and read by hand.

Invariant  What a version has no field for (log start below 5, record errors and message below 8,
           leader and endpoints below 10) is left out silently.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.node_endpoints import NodeEndpoint, endpoint_tags, read_endpoint_tags
from tidelog.protocol.primitives import (
    INT32,
    MALFORMED,
    ZERO_UUID_BYTES,
    Buffer,
    MalformedRequest,
    compact_string_bytes,
    count_bytes,
    malformed,
    nullable_string_bytes,
    read_compact_nullable_string,
    read_compact_string,
    read_count,
    read_nullable_string,
    read_string,
    read_tag,
    read_tag_count,
    read_uuid,
    skip_tags,
    string_bytes,
)
from tidelog.protocol.produce_request import FIRST_BY_TOPIC_ID, FIRST_FLEXIBLE

_FIRST_LOG_START: Final = 5
_FIRST_RECORD_ERRORS: Final = 8
_FIRST_CURRENT_LEADER: Final = 10

_WITHOUT_LOG_START: Final = struct.Struct(">ihqq")
_WITH_LOG_START: Final = struct.Struct(">ihqqq")
_WITHOUT_DETAILS: Final = struct.Struct(">ihqqqbbb")
_LEADER_TAG: Final = struct.Struct(">bbbiib")
_LEADER: Final = struct.Struct(">ii")


class ProducedPartition(NamedTuple):
    """What became of the records for one partition."""

    index: int  # type: ignore[assignment]  # the protocol's name; hides tuple.index
    error: int
    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None


class ProducedTopic(NamedTuple):
    """The partitions of one topic in an answer."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[ProducedPartition]


class ProduceResponse(NamedTuple):
    """An answer, as our own client sees it."""

    correlation_id: int
    topics: list[ProducedTopic]
    throttle_ms: int
    node_endpoints: list[NodeEndpoint]


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str | None, UUID | None, Sequence[ProducedPartition]]],
    node_endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> bytes:
    """Write header and body of a Produce response, without the frame length."""
    if version < FIRST_FLEXIBLE:
        return _encode_legacy(version, correlation_id, topics, throttle_ms)
    answer = bytearray(INT32.pack(correlation_id))
    answer += b"\x00"
    answer += count_bytes(len(topics), True)
    for name, topic_id, partitions in topics:
        if version >= FIRST_BY_TOPIC_ID:
            answer += ZERO_UUID_BYTES if topic_id is None else topic_id.bytes
        else:
            answer += compact_string_bytes(name or "")
        answer += count_bytes(len(partitions), True)
        for partition in partitions:
            answer += _flexible_partition(version, partition)
        answer += b"\x00"
    answer += INT32.pack(throttle_ms)
    answer += endpoint_tags(node_endpoints) if version >= _FIRST_CURRENT_LEADER else b"\x00"
    return bytes(answer)


def _flexible_partition(version: int, partition: ProducedPartition) -> bytes:
    index, error, base_offset, append_time, log_start, errors, message, leader = partition
    if not errors and message is None and leader is None:
        return _WITHOUT_DETAILS.pack(index, error, base_offset, append_time, log_start, 1, 0, 0)
    encoded = bytearray(_WITH_LOG_START.pack(index, error, base_offset, append_time, log_start))
    encoded += count_bytes(len(errors), True)
    for batch_index, why in errors:
        encoded += INT32.pack(batch_index)
        encoded += compact_string_bytes(why)
        encoded += b"\x00"
    encoded += compact_string_bytes(message)
    if leader is None or leader == (-1, -1) or version < _FIRST_CURRENT_LEADER:
        encoded += b"\x00"
    else:
        encoded += _LEADER_TAG.pack(1, 0, 9, *leader, 0)
    return bytes(encoded)


def _encode_legacy(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str | None, UUID | None, Sequence[ProducedPartition]]],
    throttle_ms: int,
) -> bytes:
    answer = bytearray(_LEADER.pack(correlation_id, len(topics)))
    for name, _, partitions in topics:
        answer += string_bytes(name or "")
        answer += INT32.pack(len(partitions))
        for partition in partitions:
            if version < _FIRST_LOG_START:
                answer += _WITHOUT_LOG_START.pack(*partition[:4])
                continue
            answer += _WITH_LOG_START.pack(*partition[:5])
            if version >= _FIRST_RECORD_ERRORS:
                answer += INT32.pack(len(partition.record_errors))
                for batch_index, why in partition.record_errors:
                    answer += INT32.pack(batch_index)
                    answer += nullable_string_bytes(why)
                answer += nullable_string_bytes(partition.error_message)
    answer += INT32.pack(throttle_ms)
    return bytes(answer)


def decode_produce_response(frame: Buffer, version: int) -> ProduceResponse:
    """Read header and body of a Produce response; MalformedRequest for anything that is none."""
    flexible = version >= FIRST_FLEXIBLE
    try:
        (correlation_id,) = INT32.unpack_from(frame)
        position = skip_tags(frame, 4) if flexible else 4
        count, position = read_count(frame, position, flexible)
        topics: list[ProducedTopic] = []
        for _ in range(count):
            topic, position = _read_topic(frame, position, version, flexible)
            topics.append(topic)
        (throttle_ms,) = INT32.unpack_from(frame, position)
        endpoints: list[NodeEndpoint] = []
        if flexible:
            endpoints, position = read_endpoint_tags(frame, position + 4)
    except MALFORMED as error:
        raise malformed("Produce response", error) from error
    return ProduceResponse(correlation_id, topics, throttle_ms, endpoints)


def _read_topic(
    frame: Buffer, position: int, version: int, flexible: bool
) -> tuple[ProducedTopic, int]:
    name = topic_id = None
    if version >= FIRST_BY_TOPIC_ID:
        topic_id, position = read_uuid(frame, position)
    else:
        name, position = (read_compact_string if flexible else read_string)(frame, position)
    count, position = read_count(frame, position, flexible)
    partitions: list[ProducedPartition] = []
    for _ in range(count):
        partition, position = _read_partition(frame, position, version, flexible)
        partitions.append(partition)
    if flexible:
        position = skip_tags(frame, position)
    return ProducedTopic(name, topic_id, partitions), position


def _read_partition(
    frame: Buffer, position: int, version: int, flexible: bool
) -> tuple[ProducedPartition, int]:
    if version < _FIRST_LOG_START:
        fixed = _WITHOUT_LOG_START.unpack_from(frame, position)
        return ProducedPartition(*fixed), position + _WITHOUT_LOG_START.size
    partition = ProducedPartition(*_WITH_LOG_START.unpack_from(frame, position))
    position += _WITH_LOG_START.size
    if version < _FIRST_RECORD_ERRORS:
        return partition, position
    read_message = read_compact_nullable_string if flexible else read_nullable_string
    count, position = read_count(frame, position, flexible)
    errors: list[tuple[int, str | None]] = []
    for _ in range(count):
        (batch_index,) = INT32.unpack_from(frame, position)
        why, position = read_message(frame, position + 4)
        if flexible:
            position = skip_tags(frame, position)
        errors.append((batch_index, why))
    message, position = read_message(frame, position)
    leader = None
    if flexible:
        leader, position = _read_leader_tag(frame, position)
    return (
        partition._replace(record_errors=errors, error_message=message, current_leader=leader),
        position,
    )


def _read_leader_tag(frame: Buffer, position: int) -> tuple[tuple[int, int] | None, int]:
    leader: tuple[int, int] | None = None
    count, position = read_tag_count(frame, position)
    for _ in range(count):
        tag, start, position = read_tag(frame, position)
        if tag == 0:
            leader = _LEADER.unpack_from(frame, start)
            if skip_tags(frame, start + 8) != position:
                raise MalformedRequest("the current leader does not fill its tag")
    return leader, position
