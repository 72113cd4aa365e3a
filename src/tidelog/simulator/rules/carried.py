"""What the network carried to a node, as the rules read it: they believe nobody's own books."""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from tidelog.model.ids import METADATA_TOPIC_ID
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.codec import decode_body
from tidelog.protocol.fetch import FetchRequest, FileRegion, Part, decode_fetch
from tidelog.protocol.frame import read_request_header
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.protocol.messages.fetch_snapshot import FetchSnapshotRequest

_FETCHES: Final = (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT)
_FIRST_FLEXIBLE: Final = 12
_FETCH_HEAD: Final = struct.Struct(">ibih")
"""Of a flexible answer: correlation id, no tags, throttle time, error."""


class MetadataFollower(NamedTuple):
    """Somebody who asked for the metadata log, or a snapshot of it, in an epoch of the quorum."""

    replica_id: int
    epoch: int


def api_of(frame: bytes) -> int:
    """Which API a request is for; -1 for nothing."""
    return int.from_bytes(frame[:2], "big") if frame else -1


def heartbeat_epoch(frame: bytes) -> int:
    """The broker epoch that a heartbeat names."""
    header = read_request_header(frame)
    body = memoryview(frame)[header.body_offset :]
    return decode_body(BrokerHeartbeatRequest, header.api_version, body).broker_epoch


def metadata_follower(frame: bytes) -> MetadataFollower | None:
    """Who fetches metadata with this request, if that is what it is."""
    if api_of(frame) not in _FETCHES:
        return None
    header = read_request_header(frame)
    body = memoryview(frame)[header.body_offset :]
    request: Any
    if header.api_key == ApiKey.FETCH:
        request = decode_fetch(body, header.api_version)
        topics = [topic for topic in request.topics if topic.topic_id == METADATA_TOPIC_ID]
    else:
        request = decode_body(FetchSnapshotRequest, header.api_version, body)
        topics = request.topics
    for topic in topics:
        epoch = topic.partitions[0].current_leader_epoch
        return MetadataFollower(int(request.replica_id), int(epoch))
    return None


class ReplicaFetch(NamedTuple):
    """A fetch of a broker that follows partitions."""

    correlation_id: int
    request: FetchRequest


def replica_fetch(frame: bytes) -> ReplicaFetch | None:
    """The fetch of a follower, if that is what it is; metadata is another matter."""
    if api_of(frame) != ApiKey.FETCH:
        return None
    header = read_request_header(frame)
    request = decode_fetch(memoryview(frame)[header.body_offset :], header.api_version)
    if request.replica_id < 0 or header.api_version < _FIRST_FLEXIBLE:
        return None
    if any(topic.topic_id == METADATA_TOPIC_ID for topic in request.topics):
        return None
    return ReplicaFetch(header.correlation_id, request)


def fetch_answer(parts: list[Part]) -> tuple[int, int]:
    """The correlation id of an answer, and the error of the whole if it answers a fetch."""
    first = parts[0]
    if isinstance(first, FileRegion) or len(first) < _FETCH_HEAD.size:
        return -1, 0
    correlation_id, _, _, error = _FETCH_HEAD.unpack_from(first)
    return correlation_id, error
