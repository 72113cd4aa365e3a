"""The offset index of a segment: from an offset to a position in the log file near it.

An entry says that the batch which starts at `position` ends with `offset`; there is one about
every `index.interval.bytes`. The file holds 8 bytes per entry: offset minus base offset, position.

Invariant  Offsets and positions both strictly rise.
Invariant  The answer to a lookup never lies behind the batch that holds the offset asked for.
Invariant  While entries are written anew the file keeps the old ones, and where both agree it is
           never touched: a crash on the way takes away nothing that still holds.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import lt
from struct import Struct
from typing import Final

from tidelog.model.errors import invariant
from tidelog.storage.filesystem import FileSystem, LazyFile

ENTRY: Final = Struct(">ii")
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
_pack = ENTRY.pack


class OffsetIndex:
    """Entries of one segment, held as two arrays of 32-bit integers once they are needed."""

    __slots__ = ("_offsets", "_positions", "_unsettled", "base_offset", "file", "max_entries")

    def __init__(
        self, files: FileSystem, path: str, base_offset: int, max_bytes: int = 10_485_760
    ) -> None:
        self.file = LazyFile(files, path)
        self.base_offset = base_offset
        self.max_entries = max_bytes // ENTRY.size
        self._offsets: array[int] | None = None
        self._positions: array[int] = array("i")
        self._unsettled = False

    def __len__(self) -> int:
        return len(self._loaded())

    @property
    def is_full(self) -> bool:
        return len(self._loaded()) >= self.max_entries

    def append(self, offset: int, position: int) -> None:
        """Note that the batch starting at `position` ends with `offset`."""
        offsets = self._loaded()
        relative = offset - self.base_offset
        if offsets:
            in_order = offsets[-1] < relative and self._positions[-1] < position
        else:
            in_order = relative >= 0 and position >= 0
        if not in_order or relative > RELATIVE_OFFSET_MAX:
            invariant(False, f"{self.file.path}: entry ({offset}, {position}) is out of order")
        if not self._unsettled:
            self.file.append(_pack(relative, position))
        offsets.append(relative)
        self._positions.append(position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """The entry with the greatest offset not above `offset`, else (base offset, 0)."""
        slot = bisect_right(self._loaded(), offset - self.base_offset) - 1
        return self._entry(slot) if slot >= 0 else (self.base_offset, 0)

    def first_at_or_past(self, position: int) -> tuple[int, int] | None:
        """The first entry whose position is not below `position`, if there is one."""
        self._loaded()
        slot = bisect_left(self._positions, position)
        return self._entry(slot) if slot < len(self._positions) else None

    def last(self) -> tuple[int, int]:
        """The last entry, else (base offset, 0)."""
        return self._entry(-1) if self._loaded() else (self.base_offset, 0)

    def entries(self) -> Iterator[tuple[int, int]]:
        for relative, position in zip(self._loaded(), self._positions, strict=True):
            yield self.base_offset + relative, position

    def truncate_to(self, offset: int) -> None:
        """Drop every entry at or above `offset`; `settle` must follow."""
        count = bisect_left(self._loaded(), offset - self.base_offset)
        del self._loaded()[count:]
        del self._positions[count:]
        self._unsettled = True

    def begin_anew(self) -> None:
        """Drop every entry, readable or not; `settle` must follow."""
        self._offsets, self._positions = array("i"), array("i")
        self._unsettled = True

    def settle(self) -> None:
        """Bring the file in line with the entries."""
        if not self._unsettled:
            return
        content = b"".join(map(_pack, self._loaded(), self._positions))
        agreed = _agreed_bytes(content, self.file.read_all())
        self.file.truncate(agreed)
        if agreed < len(content):
            self.file.append(content[agreed:])
        self._unsettled = False

    def sane(self) -> bool:
        """Whether the file can be an index: whole entries, nothing out of order."""
        if self.file.size() % ENTRY.size:
            return False
        offsets, positions = self._loaded(), self._positions
        if not offsets:
            return True
        return (
            offsets[0] >= 0
            and positions[0] >= 0
            and all(map(lt, offsets, offsets[1:]))
            and all(map(lt, positions, positions[1:]))
        )

    def sync(self) -> None:
        """Make the entries durable. May block: run it in a job."""
        self.file.sync()

    def close(self) -> None:
        """Give back descriptor and memory; the next use opens and loads again."""
        self.file.close()
        self._offsets, self._positions = None, array("i")
        self._unsettled = False

    def _entry(self, slot: int) -> tuple[int, int]:
        return self.base_offset + self._loaded()[slot], self._positions[slot]

    def _loaded(self) -> array[int]:
        offsets = self._offsets
        if offsets is None:
            offsets = self._load()
        return offsets

    def _load(self) -> array[int]:
        data = self.file.read_all()
        whole = len(data) - len(data) % ENTRY.size
        if whole != len(data):  # the next append must not continue half an entry
            self.file.truncate(whole)
        fields = array("i")
        fields.frombytes(data[:whole])
        if sys.byteorder == "little":
            fields.byteswap()
        offsets = self._offsets = fields[0::2]
        self._positions = fields[1::2]
        return offsets


def _agreed_bytes(new: bytes, old: bytes) -> int:
    """How much of two contents is the same, in whole entries."""
    shorter = min(len(new), len(old))
    if new[:shorter] == old[:shorter]:
        return shorter - shorter % ENTRY.size
    entries = range(0, shorter, ENTRY.size)
    return next(at for at in entries if new[at : at + ENTRY.size] != old[at : at + ENTRY.size])
