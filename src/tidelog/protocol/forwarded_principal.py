"""A principal as it travels in an Envelope: Kafka's DefaultPrincipalData, version 0.

    version int16, type compact string, name compact string, token authenticated bool, tags

Invariant  Bytes that are anything else are refused as a whole: nobody is taken for somebody.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.principal import Principal
from tidelog.protocol.primitives import (
    INT16,
    MALFORMED,
    MalformedRequest,
    compact_string_bytes,
    malformed,
    read_compact_string,
    skip_tags,
)

_VERSION: Final = 0
_NOT_BY_TOKEN: Final = b"\x00"
_NO_TAGS: Final = b"\x00"


def principal_bytes(principal: Principal) -> bytes:
    """What an Envelope says of who asked."""
    type_, name = compact_string_bytes(principal.type), compact_string_bytes(principal.name)
    return INT16.pack(_VERSION) + type_ + name + _NOT_BY_TOKEN + _NO_TAGS


def read_principal(data: bytes) -> Principal:
    """Who asked, by an Envelope; MalformedRequest when that cannot be read."""
    try:
        (version,) = INT16.unpack_from(data)
        if version != _VERSION:
            raise MalformedRequest(f"version {version} of a principal is not known")
        type_, position = read_compact_string(data, INT16.size)
        name, position = read_compact_string(data, position)
        position = skip_tags(data, position + len(_NOT_BY_TOKEN))
    except MALFORMED as error:
        raise malformed("a forwarded principal cannot be read", error) from error
    if position != len(data):
        raise MalformedRequest("a forwarded principal has bytes behind its end")
    return Principal(type_, name)
