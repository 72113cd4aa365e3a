"""What the network carried to a node, as the rules read it: they believe nobody's own books."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tidelog.model.ids import METADATA_TOPIC_ID
from tidelog.wire.apis import ApiKey
from tidelog.wire.fetch import decode_fetch
from tidelog.wire.frame import read_request_header
from tidelog.wire.messages import decode_request

_FETCHES: Final = (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT)


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
    request: Any = decode_request(ApiKey.BROKER_HEARTBEAT, header.api_version, body)
    return int(request.broker_epoch)


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
        request = decode_request(ApiKey.FETCH_SNAPSHOT, header.api_version, body)
        topics = request.topics
    for topic in topics:
        epoch = topic.partitions[0].current_leader_epoch
        return MetadataFollower(int(request.replica_id), int(epoch))
    return None
