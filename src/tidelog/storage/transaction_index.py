"""The transaction index of a segment: the aborted transactions whose marker lies in it.

A consumer that reads only committed records gets these with its data and drops what they name.
The file holds 34 bytes per entry, in the order of the markers; most segments have no such file.

Invariant  Last offsets strictly rise: each is the offset of an abort marker.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from tidelog.model.errors import invariant
from tidelog.storage.filesystem import FileSystem, LazyFile

ENTRY: Final = Struct(">hqqqq")
VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction in one partition."""

    producer_id: int
    first_offset: int
    """Of its first record."""
    last_offset: int
    """Of its abort marker."""
    last_stable_offset: int
    """What was stable once it had ended: nothing below is named by an entry that follows."""


class AbortedSearch(NamedTuple):
    """What one segment's index knows about a range of offsets."""

    transactions: list[AbortedTransaction]
    complete: bool
    """Whether later segments cannot add anything."""


class TransactionIndex:
    """The aborted transactions of one segment, read when first asked for."""

    __slots__ = ("_entries", "file")

    def __init__(self, files: FileSystem, path: str) -> None:
        self.file = LazyFile(files, path)
        self._entries: list[AbortedTransaction] | None = None

    def __len__(self) -> int:
        return len(self._loaded())

    def append(self, aborted: AbortedTransaction) -> None:
        entries = self._loaded()
        if entries:
            invariant(
                entries[-1].last_offset < aborted.last_offset,
                f"{self.file.path}: the marker at {aborted.last_offset} is out of order",
            )
        self.file.append(ENTRY.pack(VERSION, *aborted))
        entries.append(aborted)

    def collect(self, fetch_offset: int, upper_bound: int) -> AbortedSearch:
        """The transactions that touch [fetch_offset, upper_bound)."""
        found: list[AbortedTransaction] = []
        for aborted in self._loaded():
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound:
                return AbortedSearch(found, complete=True)
        return AbortedSearch(found, complete=False)

    def entries(self) -> Iterator[AbortedTransaction]:
        return iter(self._loaded())

    def truncate_to(self, offset: int) -> None:
        """Drop every transaction whose marker is at or above `offset`."""
        entries = self._loaded()
        while entries and entries[-1].last_offset >= offset:
            entries.pop()
        self.file.truncate(len(entries) * ENTRY.size)

    def reset(self) -> None:
        """Drop every entry, readable or not."""
        self._entries = []
        self.file.truncate(0)

    def sane(self, base_offset: int = 0) -> bool:
        """Whether the file can be the index of a segment that starts at `base_offset`.

        A segment must ask before it answers from the index: a missing entry would pass aborted
        records off as committed ones.
        """
        size = self.file.size()
        entries = self._loaded()
        if size != len(entries) * ENTRY.size:
            return False
        previous = base_offset - 1
        for aborted in entries:
            if aborted.last_offset <= previous or aborted.first_offset > aborted.last_offset:
                return False
            previous = aborted.last_offset
        return True

    def sync(self) -> None:
        """Make the entries durable. May block: run it in a job."""
        self.file.sync()

    def close(self) -> None:
        """Give back descriptor and memory; the next use opens and loads again."""
        self.file.close()
        self._entries = None

    def _loaded(self) -> list[AbortedTransaction]:
        entries = self._entries
        if entries is None:
            entries = self._entries = list(_decode(self.file.read_all()))
        return entries


def _decode(data: bytes) -> Iterator[AbortedTransaction]:
    """Whole entries up to the first one of a version nobody knows."""
    for position in range(0, len(data) - ENTRY.size + 1, ENTRY.size):
        version, *fields = ENTRY.unpack_from(data, position)
        if version != VERSION:
            return
        yield AbortedTransaction._make(fields)
