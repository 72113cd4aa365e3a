"""Where the leaders named in an answer can be reached (KIP-951): tag 0 of Produce and Fetch.

Invariant  An answer that names no leader carries no endpoints, and then not even the tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.protocol.primitives import (
    INT32,
    Buffer,
    MalformedRequest,
    compact_string_bytes,
    read_compact_nullable_string,
    read_compact_string,
    read_count,
    read_tag,
    read_tag_count,
    skip_tags,
    uvarint,
)

NODE_ENDPOINTS_TAG = 0


class NodeEndpoint(NamedTuple):
    """One broker's address on the listener the client uses."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def endpoint_tags(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged fields that end an answer: the endpoints, or none at all."""
    if not endpoints:
        return b"\x00"
    value = bytearray(uvarint(len(endpoints) + 1))
    for endpoint in endpoints:
        value += INT32.pack(endpoint.node_id)
        value += compact_string_bytes(endpoint.host)
        value += INT32.pack(endpoint.port)
        value += compact_string_bytes(endpoint.rack)
        value += b"\x00"
    return b"\x01\x00" + uvarint(len(value)) + bytes(value)


def read_endpoint_tags(buffer: Buffer, position: int) -> tuple[list[NodeEndpoint], int]:
    """The endpoints among the tagged fields that end an answer."""
    endpoints: list[NodeEndpoint] = []
    count, position = read_tag_count(buffer, position)
    for _ in range(count):
        tag, start, position = read_tag(buffer, position)
        if tag == NODE_ENDPOINTS_TAG:
            endpoints = _read_endpoints(buffer[start:position])
    return endpoints, position


def _read_endpoints(value: Buffer) -> list[NodeEndpoint]:
    count, position = read_count(value, 0, True)
    endpoints: list[NodeEndpoint] = []
    for _ in range(count):
        (node_id,) = INT32.unpack_from(value, position)
        host, position = read_compact_string(value, position + 4)
        (port,) = INT32.unpack_from(value, position)
        rack, position = read_compact_nullable_string(value, position + 4)
        position = skip_tags(value, position)
        endpoints.append(NodeEndpoint(node_id, host, port, rack))
    if position != len(value):
        raise MalformedRequest("the node endpoints do not fill their tag")
    return endpoints
