"""Fetch on the wire: the request of a consumer or follower and the answer it gets."""

from __future__ import annotations

from tidelog.protocol.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    decode_fetch,
    encode_fetch,
)
from tidelog.protocol.fetch_response import (
    FetchedPartition,
    FetchedTopic,
    FetchResponse,
    decode_fetch_response,
    encode_fetch_response,
)
from tidelog.protocol.node_endpoints import NodeEndpoint
from tidelog.protocol.parts import FileRegion, Part, joined, part_length

__all__ = [
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchedPartition",
    "FetchedTopic",
    "FileRegion",
    "ForgottenTopic",
    "NodeEndpoint",
    "Part",
    "decode_fetch",
    "decode_fetch_response",
    "encode_fetch",
    "encode_fetch_response",
    "joined",
    "part_length",
]
