"""The Produce request, versions 3 to 13, read and written by hand: it is the hottest path.

Invariant  Records are views of the request's own buffer, never copies; they live as long as it.
Invariant  A topic has a name below version 13 and an identity from 13 on, never both.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.primitives import (
    ELEMENTS_MAX,
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
    read_uuid,
    read_uvarint,
    skip_tags,
    spend,
    string_bytes,
    uvarint,
)

FIRST_FLEXIBLE: Final = 9
FIRST_BY_TOPIC_ID: Final = 13

_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_INDEX_LENGTH: Final = struct.Struct(">ii")


class ProduceTopic(NamedTuple):
    """The partitions of one topic, each with its records or None."""

    name: str | None
    topic_id: UUID | None
    partitions: list[tuple[int, memoryview | None]]


class ProduceRequest(NamedTuple):
    """A producer asks to append."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


def decode_produce(body: memoryview, version: int) -> ProduceRequest:
    """Read the body of a Produce request; MalformedRequest for anything that is none."""
    try:
        if version >= FIRST_FLEXIBLE:
            return _decode_flexible(body, version >= FIRST_BY_TOPIC_ID)
        return _decode_legacy(body)
    except MALFORMED as error:
        raise malformed("Produce", error) from error


def _decode_flexible(body: memoryview, by_topic_id: bool) -> ProduceRequest:
    size = len(body)
    transactional_id, position = read_compact_nullable_string(body, 0)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(body, position)
    count, position = read_count(body, position + 6, True)
    elements_left = spend(ELEMENTS_MAX, count)
    topics: list[ProduceTopic] = []
    for _ in range(count):
        name = topic_id = None
        if by_topic_id:
            topic_id, position = read_uuid(body, position)
        else:
            name, position = read_compact_string(body, position)
        partition_count, position = read_count(body, position, True)
        elements_left = spend(elements_left, partition_count)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            (index,) = INT32.unpack_from(body, position)
            length, position = read_uvarint(body, position + 4)
            records = None
            if length:
                end = position + length - 1
                if end > size:
                    raise MalformedRequest(f"records of {length - 1} bytes do not fit")
                records = body[position:end]
                position = end
            position = skip_tags(body, position)
            partitions.append((index, records))
        position = skip_tags(body, position)
        topics.append(ProduceTopic(name, topic_id, partitions))
    skip_tags(body, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _decode_legacy(body: memoryview) -> ProduceRequest:
    size = len(body)
    transactional_id, position = read_nullable_string(body, 0)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(body, position)
    count, position = read_count(body, position + 6, False)
    elements_left = spend(ELEMENTS_MAX, count)
    topics: list[ProduceTopic] = []
    for _ in range(count):
        name, position = read_string(body, position)
        partition_count, position = read_count(body, position, False)
        elements_left = spend(elements_left, partition_count)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            index, length = _INDEX_LENGTH.unpack_from(body, position)
            position += 8
            records = None
            if length != -1:
                end = position + length
                if length < 0 or end > size:
                    raise MalformedRequest(f"records of {length} bytes do not fit")
                records = body[position:end]
                position = end
            partitions.append((index, records))
        topics.append(ProduceTopic(name, None, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_produce(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: Sequence[tuple[str | None, UUID | None, Sequence[tuple[int, Buffer | None]]]],
) -> bytes:
    """Write the body of a Produce request, without its header."""
    flexible = version >= FIRST_FLEXIBLE
    end_of_struct = b"\x00" if flexible else b""
    body = bytearray()
    body += (compact_string_bytes if flexible else nullable_string_bytes)(transactional_id)
    body += _ACKS_TIMEOUT.pack(acks, timeout_ms)
    body += count_bytes(len(topics), flexible)
    for name, topic_id, partitions in topics:
        if version >= FIRST_BY_TOPIC_ID:
            body += ZERO_UUID_BYTES if topic_id is None else topic_id.bytes
        else:
            body += (compact_string_bytes if flexible else string_bytes)(name or "")
        body += count_bytes(len(partitions), flexible)
        for index, records in partitions:
            body += INT32.pack(index)
            length = -1 if records is None else len(records)
            body += uvarint(length + 1) if flexible else INT32.pack(length)
            if records is not None:
                body += records
            body += end_of_struct
        body += end_of_struct
    body += end_of_struct
    return bytes(body)
