"""The number that stands before a body in the coordinators' topics and in consumers' metadata: the
type of a key, or the version of a value."""

from __future__ import annotations

from tidelog.protocol.primitives import INT16, MalformedRequest


def join_number(number: int, body: bytes) -> bytes:
    """A body behind its number."""
    return INT16.pack(number) + body


def split_number(data: bytes) -> tuple[int, memoryview]:
    """The number, and the body behind it."""
    if len(data) < INT16.size:
        raise MalformedRequest(f"{len(data)} bytes are no key, value or metadata of a coordinator")
    (number,) = INT16.unpack_from(data)
    return number, memoryview(data)[INT16.size :]
