"""The Fetch response, versions 4 to 18, written by hand as a list of parts.

Invariant  Records are never copied when they are large or still in a file: they stand in the list
           as parts of their own, everything between them is merged.
Invariant  What a version has no field for is left out silently.
Invariant  No records are written as empty, never as null: Kafka never sends null, and not every
           client expects it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.fetch_request import FIRST_BY_TOPIC_ID, FIRST_FLEXIBLE, FIRST_SESSION
from tidelog.protocol.node_endpoints import NodeEndpoint, endpoint_tags, read_endpoint_tags
from tidelog.protocol.parts import FileRegion, Part, part_length
from tidelog.protocol.primitives import (
    INT32,
    MALFORMED,
    ZERO_UUID_BYTES,
    MalformedRequest,
    compact_string_bytes,
    count_bytes,
    malformed,
    read_compact_string,
    read_count,
    read_nullable_count,
    read_string,
    read_tag,
    read_tag_count,
    read_uuid,
    skip_tags,
    string_bytes,
    uvarint,
)

_FIRST_LOG_START: Final = 5
_FIRST_PREFERRED_REPLICA: Final = 11
_FIRST_NODE_ENDPOINTS: Final = 16

_COPY_BELOW: Final = 2048
"""Records at hand below this size are merged: one more part costs more than the copy."""

_HEAD_4: Final = struct.Struct(">ii")
_HEAD_7: Final = struct.Struct(">iihi")
_HEAD_12: Final = struct.Struct(">ibihi")
_PARTITION_4: Final = struct.Struct(">ihqq")
_PARTITION_5: Final = struct.Struct(">ihqqq")
_NOTHING_ABORTED_12: Final = struct.Struct(">ihqqqbi")
_ABORTED: Final = struct.Struct(">qq")
_ABORTED_FLEXIBLE: Final = struct.Struct(">qqb")
_DIVERGING_TAG: Final = struct.Struct(">bbiqb")
_LEADER_TAG: Final = struct.Struct(">bbiib")
_SNAPSHOT_TAG: Final = struct.Struct(">bbqib")
_EPOCH_END: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")
_SNAPSHOT: Final = struct.Struct(">qi")
_ERROR_SESSION: Final = struct.Struct(">hi")
_UNSET: Final = (-1, -1)


class FetchedPartition(NamedTuple):
    """What one partition has to give."""

    index: int  # type: ignore[assignment]  # the protocol's name; hides tuple.index
    error: int
    high_watermark: int
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    records: Part | None = None
    diverging_epoch: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None
    snapshot_id: tuple[int, int] | None = None


class FetchedTopic(NamedTuple):
    """The partitions of one topic in an answer."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[FetchedPartition]


class FetchResponse(NamedTuple):
    """An answer, as our own client sees it; records are views of the frame."""

    correlation_id: int
    throttle_ms: int
    error: int
    session_id: int
    topics: list[FetchedTopic]
    node_endpoints: list[NodeEndpoint]


def encode_fetch_response(
    version: int,
    correlation_id: int,
    error: int,
    session_id: int,
    topics: Sequence[tuple[str | None, UUID | None, Sequence[FetchedPartition]]],
    node_endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> list[Part]:
    """Write header and body of a Fetch response, without the frame length."""
    flexible = version >= FIRST_FLEXIBLE
    parts: list[Part] = []
    answer = bytearray(_head(version, correlation_id, error, session_id, throttle_ms))
    answer += count_bytes(len(topics), flexible)
    for name, topic_id, partitions in topics:
        if version >= FIRST_BY_TOPIC_ID:
            answer += ZERO_UUID_BYTES if topic_id is None else topic_id.bytes
        else:
            answer += (compact_string_bytes if flexible else string_bytes)(name or "")
        answer += count_bytes(len(partitions), flexible)
        for partition in partitions:
            if flexible:
                answer += _flexible_before_records(partition)
            else:
                answer += _legacy_before_records(version, partition)
            answer = _put_records(parts, answer, partition.records, flexible)
            if flexible:
                answer += _partition_tags(partition)
        if flexible:
            answer += b"\x00"
    if flexible:
        answer += endpoint_tags(node_endpoints) if version >= _FIRST_NODE_ENDPOINTS else b"\x00"
    if answer:
        parts.append(answer)
    return parts


def _head(
    version: int, correlation_id: int, error: int, session_id: int, throttle_ms: int
) -> bytes:
    if version >= FIRST_FLEXIBLE:
        return _HEAD_12.pack(correlation_id, 0, throttle_ms, error, session_id)
    if version >= FIRST_SESSION:
        return _HEAD_7.pack(correlation_id, throttle_ms, error, session_id)
    return _HEAD_4.pack(correlation_id, throttle_ms)


def _put_records(
    parts: list[Part], answer: bytearray, records: Part | None, flexible: bool
) -> bytearray:
    """Put length and records; gives back the piece that what follows is written to."""
    if records is None:
        answer += b"\x01" if flexible else b"\x00\x00\x00\x00"
        return answer
    length = part_length(records)
    answer += uvarint(length + 1) if flexible else INT32.pack(length)
    if length == 0:
        return answer
    if length < _COPY_BELOW and not isinstance(records, FileRegion):
        answer += records
        return answer
    parts.append(answer)
    parts.append(records)
    return bytearray()


def _flexible_before_records(partition: FetchedPartition) -> bytes:
    index, error, high_watermark, last_stable, log_start, aborted, preferred = partition[:7]
    if not aborted:
        return _NOTHING_ABORTED_12.pack(
            index,
            error,
            high_watermark,
            last_stable,
            log_start,
            0 if aborted is None else 1,
            preferred,
        )
    encoded = bytearray(_PARTITION_5.pack(index, error, high_watermark, last_stable, log_start))
    encoded += uvarint(len(aborted) + 1)
    for producer_id, first_offset in aborted:
        encoded += _ABORTED_FLEXIBLE.pack(producer_id, first_offset, 0)
    encoded += INT32.pack(preferred)
    return bytes(encoded)


def _legacy_before_records(version: int, partition: FetchedPartition) -> bytes:
    if version < _FIRST_LOG_START:
        encoded = bytearray(_PARTITION_4.pack(*partition[:4]))
    else:
        encoded = bytearray(_PARTITION_5.pack(*partition[:5]))
    aborted = partition.aborted
    if aborted is None:
        encoded += b"\xff\xff\xff\xff"
    else:
        encoded += INT32.pack(len(aborted))
        for producer_id, first_offset in aborted:
            encoded += _ABORTED.pack(producer_id, first_offset)
    if version >= _FIRST_PREFERRED_REPLICA:
        encoded += INT32.pack(partition.preferred_read_replica)
    return bytes(encoded)


def _partition_tags(partition: FetchedPartition) -> bytes:
    diverging, leader, snapshot = partition[8:]
    if diverging is None and leader is None and snapshot is None:
        return b"\x00"
    tags: list[bytes] = []
    if diverging is not None and diverging != _UNSET:
        tags.append(_DIVERGING_TAG.pack(0, 13, *diverging, 0))
    if leader is not None and leader != _UNSET:
        tags.append(_LEADER_TAG.pack(1, 9, *leader, 0))
    if snapshot is not None and snapshot != _UNSET:
        tags.append(_SNAPSHOT_TAG.pack(2, 13, *snapshot, 0))
    return uvarint(len(tags)) + b"".join(tags)


def decode_fetch_response(frame: memoryview, version: int) -> FetchResponse:
    """Read header and body of a Fetch response; MalformedRequest for anything that is none."""
    flexible = version >= FIRST_FLEXIBLE
    try:
        (correlation_id,) = INT32.unpack_from(frame)
        position = skip_tags(frame, 4) if flexible else 4
        (throttle_ms,) = INT32.unpack_from(frame, position)
        position += 4
        error = session_id = 0
        if version >= FIRST_SESSION:
            error, session_id = _ERROR_SESSION.unpack_from(frame, position)
            position += 6
        count, position = read_count(frame, position, flexible)
        topics: list[FetchedTopic] = []
        for _ in range(count):
            topic, position = _read_topic(frame, position, version, flexible)
            topics.append(topic)
        endpoints: list[NodeEndpoint] = []
        if flexible:
            endpoints, position = read_endpoint_tags(frame, position)
    except MALFORMED as problem:
        raise malformed("Fetch response", problem) from problem
    return FetchResponse(correlation_id, throttle_ms, error, session_id, topics, endpoints)


def _read_topic(
    frame: memoryview, position: int, version: int, flexible: bool
) -> tuple[FetchedTopic, int]:
    name = topic_id = None
    if version >= FIRST_BY_TOPIC_ID:
        topic_id, position = read_uuid(frame, position)
    else:
        name, position = (read_compact_string if flexible else read_string)(frame, position)
    count, position = read_count(frame, position, flexible)
    partitions: list[FetchedPartition] = []
    for _ in range(count):
        partition, position = _read_partition(frame, position, version, flexible)
        partitions.append(partition)
    if flexible:
        position = skip_tags(frame, position)
    return FetchedTopic(name, topic_id, partitions), position


def _read_partition(
    frame: memoryview, position: int, version: int, flexible: bool
) -> tuple[FetchedPartition, int]:
    fixed = _PARTITION_4 if version < _FIRST_LOG_START else _PARTITION_5
    partition = FetchedPartition(*fixed.unpack_from(frame, position))
    count, position = read_nullable_count(frame, position + fixed.size, flexible)
    aborted: list[tuple[int, int]] = []
    for _ in range(count):
        aborted.append(_ABORTED.unpack_from(frame, position))
        position += 16
        if flexible:
            position = skip_tags(frame, position)
    preferred = -1
    if version >= _FIRST_PREFERRED_REPLICA:
        (preferred,) = INT32.unpack_from(frame, position)
        position += 4
    records, position = _read_records(frame, position, flexible)
    partition = partition._replace(
        aborted=None if count < 0 else aborted, preferred_read_replica=preferred, records=records
    )
    if flexible:
        partition, position = _read_partition_tags(frame, position, partition)
    return partition, position


def _read_records(
    frame: memoryview, position: int, flexible: bool
) -> tuple[memoryview | None, int]:
    length, position = read_nullable_count(frame, position, flexible)
    if length < 0:
        return None, position
    return frame[position : position + length], position + length


def _read_partition_tags(
    frame: memoryview, position: int, partition: FetchedPartition
) -> tuple[FetchedPartition, int]:
    count, position = read_tag_count(frame, position)
    for _ in range(count):
        tag, start, position = read_tag(frame, position)
        if tag == 0:
            partition = partition._replace(diverging_epoch=_EPOCH_END.unpack_from(frame, start))
            end = skip_tags(frame, start + 12)
        elif tag == 1:
            partition = partition._replace(current_leader=_LEADER.unpack_from(frame, start))
            end = skip_tags(frame, start + 8)
        elif tag == 2:
            partition = partition._replace(snapshot_id=_SNAPSHOT.unpack_from(frame, start))
            end = skip_tags(frame, start + 12)
        else:
            continue
        if end != position:
            raise MalformedRequest("a tagged field does not fill its size")
    return partition, position
