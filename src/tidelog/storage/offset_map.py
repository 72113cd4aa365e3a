"""The newest offset of every key in the part of a log that is yet to be cleaned.

Invariant  What is known of a key comes from one unbroken range of offsets, which ends at
           `end_offset`; nothing is said about records behind it.
Invariant  Keys take a bounded amount of memory, however long they are.
"""

from __future__ import annotations

from hashlib import md5
from typing import Final

NONE: Final = -1
BYTES_PER_KEY: Final = 200
"""What one key costs here: its digest, its offset and their place in the table."""
_DIGEST_BYTES: Final = 16


class OffsetMap:
    """Long keys are known by a digest; short ones, which cannot be taken for one, as they are."""

    __slots__ = ("_max_keys", "_offsets", "end_offset")

    def __init__(self, start_offset: int, max_keys: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._max_keys = max_keys
        self.end_offset = start_offset

    def __len__(self) -> int:
        return len(self._offsets)

    def has_room_for(self, count: int) -> bool:
        """Whether so many keys more fit; an empty map takes any number, to get on at all."""
        return not self._offsets or len(self._offsets) + count <= self._max_keys

    def put(self, key: bytes, offset: int) -> None:
        """Note a record; offsets must rise."""
        self._offsets[_name_of(key)] = offset

    def latest(self, key: bytes) -> int:
        """The newest offset of a key, -1 when it does not occur."""
        return self._offsets.get(_name_of(key), NONE)


def _name_of(key: bytes) -> bytes:
    if len(key) < _DIGEST_BYTES:
        return key
    return md5(key, usedforsecurity=False).digest()
