"""The time index of a segment: from a timestamp to an offset before which nothing is as late.

An entry (timestamp, offset) says that `timestamp` is the largest one up to `offset`, which ends
the batch that holds it. The file holds 12 bytes per entry: timestamp, offset minus base offset.

Invariant  Timestamps strictly rise and offsets never fall.
Invariant  One place is kept free, so that the segment's largest timestamp can always be added
           when the segment is rolled or closed.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import le, lt
from struct import Struct
from typing import Final

from tidelog.model.errors import invariant
from tidelog.storage.filesystem import FileSystem, LazyFile

ENTRY: Final = Struct(">qi")
NO_TIMESTAMP: Final = -1
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
_pack = ENTRY.pack


class TimeIndex:
    """Entries of one segment, held as two arrays of integers once they are needed."""

    __slots__ = ("_offsets", "_timestamps", "base_offset", "file", "max_entries")

    def __init__(
        self, files: FileSystem, path: str, base_offset: int, max_bytes: int = 10_485_760
    ) -> None:
        self.file = LazyFile(files, path)
        self.base_offset = base_offset
        self.max_entries = max_bytes // ENTRY.size
        self._timestamps: array[int] | None = None
        self._offsets: array[int] = array("i")

    def __len__(self) -> int:
        return len(self._loaded())

    @property
    def is_full(self) -> bool:
        """Whether only the place for the final entry is left."""
        return len(self._loaded()) >= self.max_entries - 1

    def append_if_later(self, timestamp: int, offset: int) -> bool:
        """Note `timestamp`, unless the index already holds one that is as late."""
        timestamps = self._loaded()
        if timestamp <= (timestamps[-1] if timestamps else NO_TIMESTAMP):
            return False
        relative = offset - self.base_offset
        least = self._offsets[-1] if timestamps else 0
        if not least <= relative <= RELATIVE_OFFSET_MAX:
            invariant(False, f"{self.file.path}: entry ({timestamp}, {offset}) is out of order")
        self.file.append(_pack(timestamp, relative))
        timestamps.append(timestamp)
        self._offsets.append(relative)
        return True

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The entry with the greatest timestamp not above `timestamp`, else (-1, base offset)."""
        slot = bisect_right(self._loaded(), timestamp) - 1
        return self._entry(slot) if slot >= 0 else (NO_TIMESTAMP, self.base_offset)

    def last(self) -> tuple[int, int]:
        """The last entry, else (-1, base offset). Reads no more than that entry from disk."""
        if self._timestamps is not None:
            return self._entry(-1) if self._timestamps else (NO_TIMESTAMP, self.base_offset)
        size = self.file.size()
        extra = size % ENTRY.size
        if size == extra:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = ENTRY.unpack_from(self.file.read_tail(ENTRY.size + extra))
        return timestamp, self.base_offset + relative

    def entries(self) -> Iterator[tuple[int, int]]:
        for timestamp, relative in zip(self._loaded(), self._offsets, strict=True):
            yield timestamp, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Drop every entry at or above `offset`."""
        timestamps = self._loaded()
        count = bisect_left(self._offsets, offset - self.base_offset)
        del timestamps[count:]
        del self._offsets[count:]
        self.file.truncate(count * ENTRY.size)

    def reset(self) -> None:
        """Drop every entry, readable or not."""
        self._timestamps, self._offsets = array("q"), array("i")
        self.file.truncate(0)

    def sane(self) -> bool:
        """Whether the file can be an index: whole entries, nothing out of order."""
        if self.file.size() % ENTRY.size:
            return False
        timestamps, offsets = self._loaded(), self._offsets
        if not timestamps:
            return True
        return (
            timestamps[0] >= 0
            and offsets[0] >= 0
            and all(map(lt, timestamps, timestamps[1:]))
            and all(map(le, offsets, offsets[1:]))
        )

    def sync(self) -> None:
        """Make the entries durable. May block: run it in a job."""
        self.file.sync()

    def close(self) -> None:
        """Give back descriptor and memory; the next use opens and loads again."""
        self.file.close()
        self._timestamps, self._offsets = None, array("i")

    def _entry(self, slot: int) -> tuple[int, int]:
        return self._loaded()[slot], self.base_offset + self._offsets[slot]

    def _loaded(self) -> array[int]:
        timestamps = self._timestamps
        if timestamps is None:
            timestamps = self._load()
        return timestamps

    def _load(self) -> array[int]:
        data = self.file.read_all()
        count, rest = divmod(len(data), ENTRY.size)
        if rest:  # the next append must not continue half an entry
            self.file.truncate(count * ENTRY.size)
            data = data[: count * ENTRY.size]
        timestamps = self._timestamps = _column("q", data, 0, 8)
        self._offsets = _column("i", data, 8, 4)
        return timestamps


def _column(typecode: str, data: bytes, first: int, width: int) -> array[int]:
    """One field of every entry; copied byte by byte of the field, so that no entry costs a call."""
    column = bytearray(len(data) // ENTRY.size * width)
    for byte in range(width):
        column[byte::width] = data[first + byte :: ENTRY.size]
    values: array[int] = array(typecode)
    values.frombytes(column)
    if sys.byteorder == "little":
        values.byteswap()
    return values
