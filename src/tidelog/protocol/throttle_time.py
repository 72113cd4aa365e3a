"""How long a client is told to wait, in answers of every kind.

Most answers are messages; the answer of another node that is passed on, and that to Metadata, are
bytes already.

Invariant  An answer is not changed: who wants another time in it gets another answer.
Invariant  Of two times the longer one is told.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from tidelog.protocol.apis import FORWARDED, SUPPORTED, ApiKey
from tidelog.protocol.message import ResponseMessage
from tidelog.protocol.parts import Part
from tidelog.protocol.primitives import INT32

FIELD: Final = "throttle_time_ms"
METADATA_SINCE: Final = 3

ResponseT = TypeVar("ResponseT", bound=ResponseMessage)


def with_throttle_time(message: ResponseT, time_ms: int) -> ResponseT:
    """The same message with this time, if it has room for one."""
    fields: dict[str, Any] = {each.name: getattr(message, each.name) for each in message.FIELDS}
    if FIELD not in fields:
        return message
    return type(message)(**{**fields, FIELD: max(time_ms, fields[FIELD])})


def read_throttle_time(api_key: ApiKey, version: int, answer: bytes) -> int:
    """What an encoded answer says; 0 when it says nothing."""
    place = _place(api_key, version)
    return 0 if place is None else int(INT32.unpack_from(answer, place)[0])


def encoded_with_throttle_time(
    api_key: ApiKey, version: int, parts: list[Part], time_ms: int
) -> list[Part]:
    """The same encoded answer with this time, if it has room for one."""
    place = _place(api_key, version)
    first = parts[0]
    if place is None or not isinstance(first, bytes | bytearray | memoryview):
        return parts
    patched = bytearray(first)
    INT32.pack_into(patched, place, max(time_ms, INT32.unpack_from(patched, place)[0]))
    return [patched, *parts[1:]]


def _place(api_key: ApiKey, version: int) -> int | None:
    """Where the time is: in all that is passed on it comes first, but for DescribeQuorum."""
    if api_key == ApiKey.METADATA:
        has_time = version >= METADATA_SINCE
    else:
        has_time = api_key in FORWARDED and api_key != ApiKey.DESCRIBE_QUORUM
    if not has_time:
        return None
    return 5 if version >= SUPPORTED[api_key].first_flexible else 4
