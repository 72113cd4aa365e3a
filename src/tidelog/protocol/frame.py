"""Frames and request headers: where a message begins and ends, and what it is.

A frame on the wire is an int32 length and that many bytes. The asyncio shell receives into its
own reusable buffers and finds frames in place with `frame_bounds`; whoever gets pieces of bytes
instead uses `FrameSplitter`.

Invariant  The first four bytes decide: a length that is not allowed is refused before anything
           else of the frame has arrived, and no memory is taken for what has only been claimed.
Invariant  A header that `read_request_header` gives back names an API we serve in a version we
           understand. The only exception is ApiVersions, whose version may be too high: the
           answer then is error 35 in version 0, so that the client can try again.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.primitives import (
    INT32,
    MALFORMED,
    Buffer,
    MalformedRequest,
    malformed,
    read_text,
    skip_tags,
)

__all__ = [
    "FRAME_LIMIT",
    "FrameSplitter",
    "MalformedRequest",
    "RequestHeader",
    "frame_bounds",
    "frame_length",
    "read_request_header",
]

_TLS_GREETING: Final = 0x160301
"""How the first message of a client with TLS begins, read as a length."""
FRAME_LIMIT: Final = 104_857_600
"""Default of `socket.request.max.bytes`."""


def frame_bounds(
    buffer: Buffer, start: int, end: int, limit: int = FRAME_LIMIT
) -> tuple[int, int] | None:
    """Find the next frame in `buffer[start:end]`, the bytes received and not yet used.

    Gives back `(frame_start, frame_end)`: the frame is `buffer[frame_start:frame_end]`, without
    its length, and the next search starts at `frame_end`. Gives back None while the frame is not
    there as a whole: receive more behind `end` and ask again with the same `start`. When the
    buffer ends before the frame does, move `buffer[start:end]` to the front or to a larger
    buffer; `frame_length` says how much the frame needs, but grow only step by step, because the
    peer may have claimed that length without ever sending it.

    Raises MalformedRequest as soon as four bytes show a length below 1 or above `limit`; the
    connection must then be closed, because there is no way to find the next frame.
    """
    if end - start < 4:
        return None
    length = frame_length(buffer, start, limit)
    frame_start = start + 4
    frame_end = frame_start + length
    return (frame_start, frame_end) if frame_end <= end else None


def frame_length(buffer: Buffer, start: int, limit: int = FRAME_LIMIT) -> int:
    """The length of the frame whose first four bytes stand at `start`, checked."""
    (length,) = INT32.unpack_from(buffer, start)
    if 0 < length <= limit:
        return int(length)
    if length >> 8 == _TLS_GREETING:
        raise MalformedRequest("the peer speaks TLS, which this listener does not")
    raise MalformedRequest(f"a frame of {length} bytes is not allowed, the limit is {limit}")


class FrameSplitter:
    """Bytes in, frames out, for callers that do not manage buffers of their own.

    What it holds is what has arrived of the frame that is not complete yet.
    """

    __slots__ = ("_received", "limit")

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self.limit = limit
        self._received = bytearray()

    @property
    def pending_bytes(self) -> int:
        """How much has arrived of a frame that is not complete."""
        return len(self._received)

    def receive(self, data: Buffer) -> list[memoryview]:
        """Take bytes; give back the frames they complete, each as a writable view.

        Raises MalformedRequest for a length that is not allowed, but only once the frames before
        it have been given out: ask again with no data after a list that was not empty.
        """
        received = self._received
        received += data
        end = len(received)
        bounds: list[tuple[int, int]] = []
        start = 0
        while (found := self._next(start, end, refuse=not bounds)) is not None:
            bounds.append(found)
            start = found[1]
        if not bounds:
            return []
        whole = memoryview(received)
        self._received = bytearray(whole[start:])
        return [whole[frame_start:frame_end] for frame_start, frame_end in bounds]

    def _next(self, start: int, end: int, *, refuse: bool) -> tuple[int, int] | None:
        try:
            return frame_bounds(self._received, start, end, self.limit)
        except MalformedRequest:
            if refuse:
                raise
            return None


class RequestHeader(NamedTuple):
    """What a request is, and where in its frame the body begins."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


_HEADER: Final = struct.Struct(">hhih")
_SERVED: Final = {int(key): (key, served) for key, served in SUPPORTED.items()}


def read_request_header(frame: Buffer) -> RequestHeader:
    """Read header version 1, or 2 when the API version is flexible.

    Raises MalformedRequest when the header is cut short, the API is unknown or not served, or
    its version is not understood (ApiVersions excepted).
    """
    try:
        api_key, version, correlation_id, client_id_length = _HEADER.unpack_from(frame)
        served = _SERVED.get(api_key)
        if served is None:
            raise MalformedRequest(f"API key {api_key} is not served")
        key, versions = served
        if not versions.understands(version) and (key is not ApiKey.API_VERSIONS or version < 0):
            raise MalformedRequest(f"version {version} of {key.name} is not served")
        client_id = None
        position = 10
        if client_id_length != -1:
            client_id, position = read_text(frame, position, client_id_length)
        if version >= versions.first_flexible:
            position = skip_tags(frame, position)
    except MALFORMED as error:
        raise malformed("request header", error) from error
    return RequestHeader(key, version, correlation_id, client_id, position)
