"""The Fetch request, versions 4 to 18, read and written by hand.

Invariant  A topic has a name below version 13 and an identity from 13 on, never both.
Invariant  A field that a version does not carry has the protocol's default for it: no session
           below 7, no leader epoch below 9, no last fetched epoch below 12.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.protocol.primitives import (
    ELEMENTS_MAX,
    INT64,
    MALFORMED,
    ZERO_UUID_BYTES,
    MalformedRequest,
    compact_string_bytes,
    count_bytes,
    malformed,
    read_compact_nullable_string,
    read_compact_string,
    read_count,
    read_string,
    read_tag,
    read_tag_count,
    read_uuid,
    skip_tags,
    spend,
    string_bytes,
    uvarint,
)

FIRST_SESSION: Final = 7
FIRST_FLEXIBLE: Final = 12
FIRST_BY_TOPIC_ID: Final = 13
_FIRST_LOG_START: Final = 5
_FIRST_LEADER_EPOCH: Final = 9
_FIRST_RACK: Final = 11
_FIRST_REPLICA_STATE: Final = 15
_FIRST_DIRECTORY_ID: Final = 17
_FIRST_HIGH_WATERMARK: Final = 18

HIGH_WATERMARK_UNSUPPORTED: Final = (1 << 63) - 1
"""What a follower that does not report its high watermark is taken to have said."""

_FIXED_4: Final = struct.Struct(">iiiib")
_FIXED_7: Final = struct.Struct(">iiiibii")
_FIXED_15: Final = struct.Struct(">iiibii")
_PARTITION_4: Final = struct.Struct(">iqi")
_PARTITION_5: Final = struct.Struct(">iqqi")
_PARTITION_9: Final = struct.Struct(">iiqqi")
_PARTITION_12: Final = struct.Struct(">iiqiqi")
_REPLICA_STATE: Final = struct.Struct(">iq")


class FetchPartition(NamedTuple):
    """From where, and how much, of one partition."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int
    replica_directory_id: UUID | None = None
    high_watermark: int = HIGH_WATERMARK_UNSUPPORTED


class FetchTopic(NamedTuple):
    """The partitions of one topic."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[FetchPartition]


ForgottenTopic: TypeAlias = tuple[str | None, UUID | None, Sequence[int]]
"""A topic by name or identity, and the partitions that leave the session."""


class FetchRequest(NamedTuple):
    """A consumer or a follower asks for records."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: Sequence[FetchTopic]
    forgotten: Sequence[ForgottenTopic]
    rack_id: str
    cluster_id: str | None


def decode_fetch(body: memoryview, version: int) -> FetchRequest:
    """Read the body of a Fetch request; MalformedRequest for anything that is none."""
    try:
        return _decode(body, version)
    except MALFORMED as error:
        raise malformed("Fetch", error) from error


def _decode(body: memoryview, version: int) -> FetchRequest:
    flexible = version >= FIRST_FLEXIBLE
    replica_id = replica_epoch = session_epoch = -1
    session_id = 0
    if version >= _FIRST_REPLICA_STATE:
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = (
            _FIXED_15.unpack_from(body)
        )
        position = 21
    elif version >= FIRST_SESSION:
        (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
        ) = _FIXED_7.unpack_from(body)
        position = 25
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _FIXED_4.unpack_from(body)
        position = 17
    topics, position, elements_left = _read_topics(body, position, version, flexible)
    forgotten: list[ForgottenTopic] = []
    if version >= FIRST_SESSION:
        forgotten, position = _read_forgotten(body, position, version, flexible, elements_left)
    rack_id, cluster_id = "", None
    if flexible:
        rack_id, position = read_compact_string(body, position)
        if body[position]:
            cluster_id, replica_state = _read_tags(body, position, version)
            if replica_state is not None:
                replica_id, replica_epoch = replica_state
    elif version >= _FIRST_RACK:
        rack_id, position = read_string(body, position)
    return FetchRequest(
        replica_id,
        replica_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
        cluster_id,
    )


def _read_topics(
    body: memoryview, position: int, version: int, flexible: bool
) -> tuple[list[FetchTopic], int, int]:
    count, position = read_count(body, position, flexible)
    elements_left = spend(ELEMENTS_MAX, count)
    topics: list[FetchTopic] = []
    for _ in range(count):
        name, topic_id, position = _read_topic_key(body, position, version, flexible)
        partition_count, position = read_count(body, position, flexible)
        elements_left = spend(elements_left, partition_count)
        if flexible:
            partitions, position = _read_flexible_partitions(
                body, position, version, partition_count
            )
            position = skip_tags(body, position)
        else:
            partitions, position = _read_legacy_partitions(body, position, version, partition_count)
        topics.append(FetchTopic(name, topic_id, partitions))
    return topics, position, elements_left


def _read_topic_key(
    body: memoryview, position: int, version: int, flexible: bool
) -> tuple[str | None, UUID | None, int]:
    if version >= FIRST_BY_TOPIC_ID:
        topic_id, position = read_uuid(body, position)
        return None, topic_id, position
    name, position = (read_compact_string if flexible else read_string)(body, position)
    return name, None, position


def _read_flexible_partitions(
    body: memoryview, position: int, version: int, count: int
) -> tuple[list[FetchPartition], int]:
    partitions: list[FetchPartition] = []
    for _ in range(count):
        partition = FetchPartition(*_PARTITION_12.unpack_from(body, position))
        position += 32
        if body[position]:
            partition, position = _read_partition_tags(body, position, version, partition)
        else:
            position += 1
        partitions.append(partition)
    return partitions, position


def _read_partition_tags(
    body: memoryview, position: int, version: int, partition: FetchPartition
) -> tuple[FetchPartition, int]:
    count, position = read_tag_count(body, position)
    for _ in range(count):
        tag, start, position = read_tag(body, position)
        if tag == 0 and version >= _FIRST_DIRECTORY_ID:
            directory_id, end = read_uuid(body, start)
            partition = partition._replace(replica_directory_id=directory_id)
        elif tag == 1 and version >= _FIRST_HIGH_WATERMARK:
            (high_watermark,) = INT64.unpack_from(body, start)
            partition = partition._replace(high_watermark=high_watermark)
            end = start + 8
        else:
            continue
        _require_filled(end, position)
    return partition, position


def _read_legacy_partitions(
    body: memoryview, position: int, version: int, count: int
) -> tuple[list[FetchPartition], int]:
    partitions: list[FetchPartition] = []
    for _ in range(count):
        epoch = log_start = -1
        if version >= _FIRST_LEADER_EPOCH:
            index, epoch, offset, log_start, max_bytes = _PARTITION_9.unpack_from(body, position)
            position += 28
        elif version >= _FIRST_LOG_START:
            index, offset, log_start, max_bytes = _PARTITION_5.unpack_from(body, position)
            position += 24
        else:
            index, offset, max_bytes = _PARTITION_4.unpack_from(body, position)
            position += 16
        partitions.append(FetchPartition(index, epoch, offset, -1, log_start, max_bytes))
    return partitions, position


def _read_forgotten(
    body: memoryview, position: int, version: int, flexible: bool, elements_left: int
) -> tuple[list[ForgottenTopic], int]:
    count, position = read_count(body, position, flexible)
    elements_left = spend(elements_left, count)
    forgotten: list[ForgottenTopic] = []
    for _ in range(count):
        name, topic_id, position = _read_topic_key(body, position, version, flexible)
        partition_count, position = read_count(body, position, flexible)
        elements_left = spend(elements_left, partition_count)
        partitions = struct.unpack_from(f">{partition_count}i", body, position)
        position += 4 * partition_count
        if flexible:
            position = skip_tags(body, position)
        forgotten.append((name, topic_id, partitions))
    return forgotten, position


def _read_tags(
    body: memoryview, position: int, version: int
) -> tuple[str | None, tuple[int, int] | None]:
    cluster_id: str | None = None
    replica_state: tuple[int, int] | None = None
    count, position = read_tag_count(body, position)
    for _ in range(count):
        tag, start, position = read_tag(body, position)
        if tag == 0:
            cluster_id, end = read_compact_nullable_string(body, start)
        elif tag == 1 and version >= _FIRST_REPLICA_STATE:
            replica_state = _REPLICA_STATE.unpack_from(body, start)
            end = skip_tags(body, start + 12)
        else:
            continue
        _require_filled(end, position)
    return cluster_id, replica_state


def _require_filled(end: int, tag_end: int) -> None:
    if end != tag_end:
        raise MalformedRequest("a tagged field does not fill its size")


def encode_fetch(version: int, request: FetchRequest) -> bytes:
    """Write the body of a Fetch request, without its header."""
    flexible = version >= FIRST_FLEXIBLE
    end_of_struct = b"\x00" if flexible else b""
    replica_id, replica_epoch, *fixed = request[:8]
    if version >= _FIRST_REPLICA_STATE:
        body = bytearray(_FIXED_15.pack(*fixed))
    elif version >= FIRST_SESSION:
        body = bytearray(_FIXED_7.pack(replica_id, *fixed))
    else:
        body = bytearray(_FIXED_4.pack(replica_id, *fixed[:4]))
    body += count_bytes(len(request.topics), flexible)
    for topic in request.topics:
        body += _topic_key_bytes(version, topic.name, topic.topic_id)
        body += count_bytes(len(topic.partitions), flexible)
        for partition in topic.partitions:
            body += _partition_bytes(version, partition)
        body += end_of_struct
    if version >= FIRST_SESSION:
        body += count_bytes(len(request.forgotten), flexible)
        for name, topic_id, partitions in request.forgotten:
            body += _topic_key_bytes(version, name, topic_id)
            body += count_bytes(len(partitions), flexible)
            body += struct.pack(f">{len(partitions)}i", *partitions)
            body += end_of_struct
    if flexible:
        body += compact_string_bytes(request.rack_id)
        body += _tag_bytes(version, request.cluster_id, replica_id, replica_epoch)
    elif version >= _FIRST_RACK:
        body += string_bytes(request.rack_id)
    return bytes(body)


def _topic_key_bytes(version: int, name: str | None, topic_id: UUID | None) -> bytes:
    if version >= FIRST_BY_TOPIC_ID:
        return ZERO_UUID_BYTES if topic_id is None else topic_id.bytes
    return (compact_string_bytes if version >= FIRST_FLEXIBLE else string_bytes)(name or "")


def _partition_bytes(version: int, partition: FetchPartition) -> bytes:
    index, epoch, offset, last_epoch, log_start, max_bytes, directory_id, high_watermark = partition
    if version < _FIRST_LOG_START:
        return _PARTITION_4.pack(index, offset, max_bytes)
    if version < _FIRST_LEADER_EPOCH:
        return _PARTITION_5.pack(index, offset, log_start, max_bytes)
    if version < FIRST_FLEXIBLE:
        return _PARTITION_9.pack(index, epoch, offset, log_start, max_bytes)
    fixed = _PARTITION_12.pack(index, epoch, offset, last_epoch, log_start, max_bytes)
    tags: list[bytes] = []
    if version >= _FIRST_DIRECTORY_ID and directory_id is not None and directory_id.int != 0:
        tags.append(b"\x00\x10" + directory_id.bytes)
    if version >= _FIRST_HIGH_WATERMARK and high_watermark != HIGH_WATERMARK_UNSUPPORTED:
        tags.append(b"\x01\x08" + INT64.pack(high_watermark))
    return fixed + uvarint(len(tags)) + b"".join(tags)


def _tag_bytes(version: int, cluster_id: str | None, replica_id: int, replica_epoch: int) -> bytes:
    tags: list[bytes] = []
    if cluster_id is not None:
        value = compact_string_bytes(cluster_id)
        tags.append(b"\x00" + uvarint(len(value)) + value)
    if version >= _FIRST_REPLICA_STATE and (replica_id, replica_epoch) != (-1, -1):
        tags.append(b"\x01\x0d" + _REPLICA_STATE.pack(replica_id, replica_epoch) + b"\x00")
    return uvarint(len(tags)) + b"".join(tags)
