"""Producer snapshots: what is known about every producer at one offset, in a file of that name.

`%020d.snapshot`: version i16 = 1, CRC-32C u32 of all that follows, number of entries i32, entries
of 46 bytes. The offset in the name is the first one that the snapshot does not cover.

Invariant  A snapshot that is torn, zeroed or otherwise changed is never taken for a good one.
Invariant  A removed snapshot stays removed after a crash: an old one must not speak for offsets
           that were written anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from tidelog.model.errors import TidelogError
from tidelog.storage.filesystem import FileMissing, FileSystem, read_all

SUFFIX: Final = ".snapshot"
VERSION: Final = 1
HEADER: Final = Struct(">hIi")
ENTRY: Final = Struct(">qhiqiqiq")
_CHECKED_FROM: Final = 6
_COUNT: Final = Struct(">i")
_NAME_DIGITS: Final = 20


class CorruptSnapshotError(TidelogError):
    """The content of a snapshot file is not what was once written to it."""


class ProducerSnapshotEntry(NamedTuple):
    """One producer in a snapshot; -1 stands for none."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    """From the first to the last offset of the last batch."""
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def encode_snapshot(entries: Iterable[ProducerSnapshotEntry]) -> bytes:
    packed = [ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return HEADER.pack(VERSION, crc32c(body), len(packed)) + body[_COUNT.size :]


def decode_snapshot(content: bytes) -> list[ProducerSnapshotEntry]:
    """The entries of a snapshot file; `CorruptSnapshotError` if they cannot be trusted."""
    if len(content) < HEADER.size:
        raise CorruptSnapshotError(f"{len(content)} bytes are too few for a producer snapshot")
    version, crc, count = HEADER.unpack_from(content)
    if version != VERSION:
        raise CorruptSnapshotError(f"producer snapshot version {version} is not known")
    if crc != crc32c(memoryview(content)[_CHECKED_FROM:]):
        raise CorruptSnapshotError("the checksum of the producer snapshot does not fit")
    if len(content) != HEADER.size + count * ENTRY.size:
        raise CorruptSnapshotError(f"{len(content)} bytes do not hold {count} producers")
    return [
        ProducerSnapshotEntry._make(fields) for fields in ENTRY.iter_unpack(content[HEADER.size :])
    ]


class ProducerSnapshots:
    """The snapshot files in one partition's directory."""

    __slots__ = ("_files", "directory", "may_come_back")

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self.directory = directory
        self.may_come_back = False
        """Whether snapshots were removed that a loss of power could bring back."""

    def path(self, offset: int) -> str:
        return f"{self.directory}/{offset:0{_NAME_DIGITS}d}{SUFFIX}"

    def offsets(self) -> list[int]:
        """The offsets there are snapshots for, rising."""
        return sorted(
            int(stem)
            for name in self._files.list(self.directory)
            if (stem := name.removesuffix(SUFFIX)) != name
            and len(stem) == _NAME_DIGITS
            and stem.isascii()
            and stem.isdigit()
        )

    def exists(self, offset: int) -> bool:
        return self._files.exists(self.path(offset))

    def read(self, offset: int) -> list[ProducerSnapshotEntry]:
        return decode_snapshot(read_all(self._files, self.path(offset)))

    def write(self, offset: int, entries: Iterable[ProducerSnapshotEntry]) -> str:
        """Write a snapshot and return its path; it is not durable before it is synced.

        That is soon enough: a snapshot lost or torn by a crash is noticed, and replaced by an
        older one and the log behind it.
        """
        path = self.path(offset)
        if self._files.exists(path):
            self._files.remove(path)
        file = self._files.open(path)
        try:
            file.append(encode_snapshot(entries))
        finally:
            file.close()
        return path

    def sync(self, offset: int) -> None:
        """Make a snapshot durable, if it is still there. May block: run it in a job."""
        if not self.exists(offset):
            return
        try:
            file = self._files.open(self.path(offset))
        except FileMissing:  # the log's directory was renamed while the job waited
            return
        try:
            file.sync()
        finally:
            file.close()

    def remove(self, offsets: Collection[int]) -> None:
        """Remove snapshots, not for good before the directory is synced."""
        for offset in offsets:
            if self.exists(offset):
                self._files.remove(self.path(offset))
                self.may_come_back = True

    def remove_strays(self, segment_bases: Collection[int]) -> None:
        """Remove what belongs to no segment, except the one a clean stop left at the log's end."""
        bases = set(segment_bases)
        strays = [offset for offset in self.offsets() if offset not in bases]
        if strays and strays[-1] > max(bases, default=-1):
            strays.pop()
        self.remove(strays)
