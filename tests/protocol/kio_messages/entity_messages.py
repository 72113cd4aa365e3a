"""All messages but Produce and Fetch bodies on the hot path: requests in, responses out, and the
other way round for our own client.

Entities that come out are kio's frozen classes of that version, so a handler reads
`request.topics` as Kafka's definitions name it; `field` reads what older versions lack.

Invariant  Decoding raises MalformedRequest and nothing else, whatever the bytes are.
Invariant  Bytes behind the last field are ignored, as Kafka ignores them.
Invariant  The answer to ApiVersions has the old header in every version, because a client reads
           it before it knows which versions the broker speaks.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from tests.protocol.kio_messages.entity_reader import Cursor, Read, entity_reader
from tests.protocol.kio_messages.entity_schema import (
    EPOCH,
    EntitySchema,
    MessageKind,
    UnknownMessage,
    message_schema,
)
from tests.protocol.kio_messages.entity_writer import Write, entity_writer

from tidelog.model.errors import InvariantBroken
from tidelog.protocol.apis import ApiKey
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

_HEADER: Final = struct.Struct(">hhi")
_MILLISECOND: Final = timedelta(milliseconds=1)
_UNWRITABLE: Final = (struct.error, TypeError, AttributeError)


def decode_request(api_key: int, version: int, body: Buffer) -> Any:
    """Read the body of a request; nothing in the entity refers to `body` afterwards."""
    return _decode(api_key, version, "request", Cursor(body, 0, ELEMENTS_MAX))


def encode_response(
    api_key: int, version: int, correlation_id: int, fields: Mapping[str, Any]
) -> bytes:
    """Write header and body of a response, without the frame length.

    `fields` nests mappings and sequences under kio's field names. What this version lacks is
    dropped, what is not given takes its default.
    """
    answer = bytearray(INT32.pack(correlation_id))
    flexible, write = _writer(api_key, version, "response")
    if flexible and api_key != ApiKey.API_VERSIONS:
        answer += b"\x00"
    _write(write, answer, fields, api_key, version)
    return bytes(answer)


def encode_request(
    api_key: int,
    version: int,
    correlation_id: int,
    client_id: str | None,
    fields: Mapping[str, Any],
) -> bytes:
    """Write header and body of a request, without the frame length; `fields` as in a response."""
    flexible, write = _writer(api_key, version, "request")
    request = bytearray(request_header(api_key, version, correlation_id, client_id, flexible))
    _write(write, request, fields, api_key, version)
    return bytes(request)


def request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool
) -> bytes:
    """Header version 1, or 2 for a flexible API version."""
    header = _HEADER.pack(api_key, version, correlation_id) + nullable_string_bytes(client_id)
    return header + b"\x00" if flexible else header


def decode_response(api_key: int, version: int, frame: Buffer) -> tuple[int, Any]:
    """Read header and body of a response: its correlation id and its entity."""
    try:
        (correlation_id,) = INT32.unpack_from(frame)
        position = 4
        if api_key != ApiKey.API_VERSIONS and _schema(api_key, version, "response").flexible:
            position = skip_tags(frame, position)
    except MALFORMED as error:
        raise malformed("response header", error) from error
    # Only a broker that the user chose speaks here; its answers may be larger than any request.
    cursor = Cursor(frame, position, len(frame))
    return correlation_id, _decode(api_key, version, "response", cursor)


def field(entity: Any, name: str, default: Any) -> Any:
    """A field of an entity, or `default` where its version has no such field."""
    return getattr(entity, name, default)


def milliseconds(duration: timedelta) -> int:
    """A duration of an entity, as the rest of the code counts."""
    return duration // _MILLISECOND


def timestamp_ms(moment: datetime) -> int:
    """A moment of an entity, in milliseconds since 1970."""
    return (moment - EPOCH) // _MILLISECOND


def _decode(api_key: int, version: int, kind: MessageKind, cursor: Cursor) -> Any:
    try:
        return _reader(api_key, version, kind)(cursor)
    except MALFORMED as error:
        raise malformed(f"API key {api_key} version {version} {kind}", error) from error


def _schema(api_key: int, version: int, kind: MessageKind) -> EntitySchema:
    try:
        return message_schema(api_key, version, kind)
    except UnknownMessage as error:
        raise MalformedRequest(str(error)) from error


@cache
def _reader(api_key: int, version: int, kind: MessageKind) -> Read:
    return entity_reader(_schema(api_key, version, kind))


@cache
def _writer(api_key: int, version: int, kind: MessageKind) -> tuple[bool, Write]:
    schema = message_schema(api_key, version, kind)
    return schema.flexible, entity_writer(schema)


def _write(write: Write, out: bytearray, fields: Any, api_key: int, version: int) -> None:
    try:
        write(out, fields)
    except _UNWRITABLE as error:
        raise InvariantBroken(
            f"{ApiKey(api_key).name} version {version} cannot carry what we say: {error}"
        ) from error
