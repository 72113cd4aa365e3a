"""Topics of a Metadata answer, encoded one by one so that an answer can be put together.

A full answer names thousands of partitions that stay as they are for hours; whoever keeps the
bytes of each topic writes it at the speed of a copy.

Invariant  The bytes are those that `encode_response` writes for the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.messages.metadata import MetadataResponseTopic
from tidelog.protocol.primitives import (
    INT32,
    ZERO_UUID_BYTES,
    compact_string_bytes,
    nullable_string_bytes,
    uvarint,
)
from tidelog.protocol.struct_writer import EncodedArray

_FLEXIBLE: Final = SUPPORTED[ApiKey.METADATA].first_flexible
_INTERNAL_SINCE: Final = 1
_OFFLINE_SINCE: Final = 5
_EPOCH_SINCE: Final = 7
_OPERATIONS_SINCE: Final = 8
_TOPIC_ID_SINCE: Final = 10
_ERROR: Final = Struct(">h")
_WITHOUT_EPOCH: Final = Struct(">hii")
_WITH_EPOCH: Final = Struct(">hiii")


def encode_topic(topic: MetadataResponseTopic, version: int) -> bytes:
    """A topic up to and with its partitions; `topics_array` adds what was asked for of all."""
    flexible = version >= _FLEXIBLE
    out = bytearray(_ERROR.pack(topic.error_code))
    out += (compact_string_bytes if flexible else nullable_string_bytes)(topic.name)
    if version >= _TOPIC_ID_SINCE:
        out += ZERO_UUID_BYTES if topic.topic_id is None else topic.topic_id.bytes
    if version >= _INTERNAL_SINCE:
        out.append(topic.is_internal)
    out += _length(len(topic.partitions), flexible)
    for each in topic.partitions:
        error_code, index, leader = each.error_code, each.partition_index, each.leader_id
        if version >= _EPOCH_SINCE:
            out += _WITH_EPOCH.pack(error_code, index, leader, each.leader_epoch)
        else:
            out += _WITHOUT_EPOCH.pack(error_code, index, leader)
        out += _brokers(tuple(each.replica_nodes), flexible)
        out += _brokers(tuple(each.isr_nodes), flexible)
        if version >= _OFFLINE_SINCE:
            out += _brokers(tuple(each.offline_replicas), flexible)
        if flexible:
            out += b"\x00"
    return bytes(out)


def topics_array(
    topics: Sequence[bytes], version: int, operations: int | Sequence[int]
) -> EncodedArray:
    """Topics that were encoded for this version, as the array of an answer.

    `operations` is what may be done to all of them, or to each.
    """
    length = _length(len(topics), version >= _FLEXIBLE)
    if isinstance(operations, int):
        end = _end(version, operations)
        encoded = b"".join((length, end.join(topics), end if topics else b""))
        return EncodedArray(len(topics), encoded)
    ends = [_end(version, each) for each in operations]
    each_ended = (part for pair in zip(topics, ends, strict=True) for part in pair)
    return EncodedArray(len(topics), b"".join((length, *each_ended)))


def _end(version: int, operations: int) -> bytes:
    end = INT32.pack(operations) if version >= _OPERATIONS_SINCE else b""
    return end + b"\x00" if version >= _FLEXIBLE else end


@lru_cache(maxsize=4096)
def _brokers(broker_ids: tuple[int, ...], flexible: bool) -> bytes:
    return _length(len(broker_ids), flexible) + b"".join(map(INT32.pack, broker_ids))


def _length(count: int, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else INT32.pack(count)
