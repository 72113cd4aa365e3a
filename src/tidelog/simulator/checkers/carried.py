"""What the network carried to a node, as the rules read it: they believe nobody's own books."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tidelog.model.ids import METADATA_TOPIC_ID
from tidelog.wire.apis import ApiKey
from tidelog.wire.fetch import decode_fetch
from tidelog.wire.frame import read_request_header
from tidelog.wire.messages import decode_request

_METADATA: Final = METADATA_TOPIC_ID.bytes
_NAMED_METADATA: Final = b"__cluster_metadata"


class MetadataFollower(NamedTuple):
    """Somebody who asked for the metadata log, or a snapshot of it, in an epoch of the quorum."""

    replica_id: int
    epoch: int


def api_of(frame: bytes) -> int:
    """Which API a request is for; -1 for nothing."""
    return int.from_bytes(frame[:2], "big") if frame else -1


def is_for_metadata(frame: bytes) -> bool:
    """Whether a request fetches from the metadata log, or a snapshot of it."""
    api = api_of(frame)
    return (api == ApiKey.FETCH and _METADATA in frame) or (
        api == ApiKey.FETCH_SNAPSHOT and _NAMED_METADATA in frame
    )


def metadata_follower(frame: bytes) -> MetadataFollower | None:
    """Who fetches metadata with this request, if that is what it is."""
    if not is_for_metadata(frame):
        return None
    header = read_request_header(frame)
    body = memoryview(frame)[header.body_offset :]
    request: Any
    if header.api_key == ApiKey.FETCH:
        request = decode_fetch(body, header.api_version)
    else:
        request = decode_request(ApiKey.FETCH_SNAPSHOT, header.api_version, body)
    [partition] = request.topics[0].partitions
    return MetadataFollower(int(request.replica_id), int(partition.current_leader_epoch))
