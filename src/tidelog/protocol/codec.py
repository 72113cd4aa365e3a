"""The one codec: bytes to messages and back, for requests, responses and what is stored.

A reader and a writer are compiled once for each struct and version, at first use, from the table
of fields that the struct's class carries.

Invariant  Whatever the bytes are, reading ends in a message or in MalformedRequest. Nothing is
           allocated because a length says so: it is compared with the bytes that are there, and
           the elements of one request, nested ones included, are limited, as are its tags.
Invariant  A message is complete: a field that the version lacks has its default. Nothing in it
           refers to the bytes that it was read from.
Invariant  Unknown tagged fields are skipped; a known one must fill exactly the size it claims. A
           tagged field that has its default is not written.
Invariant  A request or response loses what its version lacks: who builds one fills in the fields
           of all versions at once. A record must not, because it would be lost for good: as with
           Kafka's own classes, only what the definition calls ignorable is dropped, and anything
           else is refused.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeVar

from tidelog.model.errors import InvariantBroken
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.message import Message, RecordMessage, RequestMessage, ResponseMessage
from tidelog.protocol.messages import UnknownApi, request_class
from tidelog.protocol.primitives import (
    ELEMENTS_MAX,
    INT32,
    MALFORMED,
    Buffer,
    MalformedRequest,
    malformed,
    nullable_string_bytes,
    skip_tags,
)
from tidelog.protocol.struct_reader import Cursor, Read, struct_reader
from tidelog.protocol.struct_writer import Unwritable, Write, struct_writer

MessageT = TypeVar("MessageT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=ResponseMessage)

_HEADER: Final = struct.Struct(">hhi")


def decode_request(api_key: int, version: int, body: Buffer) -> RequestMessage[Any]:
    """Read the body of a request; bytes behind the last field are ignored, as Kafka does."""
    try:
        message = request_class(api_key)
    except UnknownApi as error:
        raise MalformedRequest(str(error)) from error
    return decode_body(message, version, body)


def decode_body(
    message: type[MessageT], version: int, body: Buffer, elements_max: int = ELEMENTS_MAX
) -> MessageT:
    """Read a message at the beginning of `body`: whatever stands behind it is ignored."""
    return _decode(message, version, Cursor(body, 0, elements_max))


def decode_response(message: type[ResponseT], version: int, frame: Buffer) -> tuple[int, ResponseT]:
    """Read header and body of a response: its correlation id, and the message."""
    try:
        (correlation_id,) = INT32.unpack_from(frame)
        position = 4
        if _has_tagged_header(message, version):
            position = skip_tags(frame, position)
    except MALFORMED as error:
        raise malformed("response header", error) from error
    # Only a broker that the user chose speaks here; its answers may be larger than any request.
    return correlation_id, _decode(message, version, Cursor(frame, position, len(frame)))


def decode(message: type[MessageT], version: int, data: Buffer) -> MessageT:
    """Read a message that has no header and fills `data` exactly."""
    cursor = Cursor(data, 0, len(data))
    read = _decode(message, version, cursor)
    if cursor.position != len(data):
        left = len(data) - cursor.position
        raise MalformedRequest(f"{message.__name__} version {version}: {left} bytes too many")
    return read


def encode_request(
    message: RequestMessage[Any], version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Write header and body of a request, without the length of the frame."""
    flexible = version >= message.FLEXIBLE_SINCE
    out = bytearray(request_header(message.API_KEY, version, correlation_id, client_id, flexible))
    _encode(message, version, out)
    return bytes(out)


def request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool
) -> bytes:
    """Header version 1, or 2 for a flexible version of an API."""
    header = _HEADER.pack(api_key, version, correlation_id) + nullable_string_bytes(client_id)
    return header + b"\x00" if flexible else header


def encode_response(message: ResponseMessage, version: int, correlation_id: int) -> bytes:
    """Write header and body of a response, without the length of the frame."""
    out = bytearray(INT32.pack(correlation_id))
    if _has_tagged_header(type(message), version):
        out += b"\x00"
    _encode(message, version, out)
    return bytes(out)


def encode(message: Message, version: int) -> bytes:
    """Write a message without a header; raises `Unwritable` for a record that does not fit."""
    out = bytearray()
    _encode(message, version, out)
    return bytes(out)


def _has_tagged_header(message: type[ResponseMessage], version: int) -> bool:
    # A client reads the answer to ApiVersions before it knows which versions the broker speaks.
    return version >= message.FLEXIBLE_SINCE and message.API_KEY != ApiKey.API_VERSIONS


def _decode(message: type[MessageT], version: int, cursor: Cursor) -> MessageT:
    try:
        read: MessageT = _message_reader(message, version)(cursor)
    except MALFORMED as error:
        raise malformed(f"{message.__name__} version {version}", error) from error
    return read


def _encode(message: Message, version: int, out: bytearray) -> None:
    try:
        _message_writer(type(message), version)(out, message)
    except (struct.error, TypeError, AttributeError, Unwritable) as error:
        why = f"{type(message).__name__} version {version} cannot carry what we say: {error}"
        if isinstance(message, RecordMessage) and isinstance(error, struct.error | Unwritable):
            raise Unwritable(why) from error
        raise InvariantBroken(why) from error


_READERS: Final[dict[tuple[type[Message], int], Read]] = {}
_WRITERS: Final[dict[tuple[type[Message], int], Write]] = {}


def _message_reader(message: type[Message], version: int) -> Read:
    read = _READERS.get((message, version))
    if read is None:
        first, last = message.VERSIONS
        if not first <= version <= last:
            raise MalformedRequest(f"there is no {message.__name__} version {version}")
        read = struct_reader(message, version, version >= message.FLEXIBLE_SINCE)
        _READERS[message, version] = read
    return read


def _message_writer(message: type[Message], version: int) -> Write:
    write = _WRITERS.get((message, version))
    if write is None:
        first, last = message.VERSIONS
        if not first <= version <= last:
            raise Unwritable("there is no such version")
        loses = not issubclass(message, RecordMessage)
        write = struct_writer(message, version, version >= message.FLEXIBLE_SINCE, loses)
        _WRITERS[message, version] = write
    return write
