"""The files of one segment: the log itself and the three indexes beside it.

Invariant  All of them bear the segment's base offset, in twenty digits, as their name.
Invariant  A file that is set aside or removed goes before its indexes: an index without a log is
           known to be a leftover, a log without an index is not.
"""

from __future__ import annotations

from typing import Final

from tidelog.storage.filesystem import File, FileSystem
from tidelog.storage.lazy_file import LazyFile
from tidelog.storage.offset_index import OffsetIndex
from tidelog.storage.time_index import TimeIndex
from tidelog.storage.transaction_index import TransactionIndex

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"


def file_name(base_offset: int, suffix: str) -> str:
    """The name of a file that belongs to an offset: twenty digits, then what it is."""
    return f"{base_offset:020d}{suffix}"


class SegmentFiles:
    """Opened when they are used, and known by the names they have now."""

    __slots__ = (
        "_file",
        "_files",
        "base_offset",
        "offset_index",
        "path",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        base_offset: int,
        index_bytes: int,
        ending: str = "",
    ) -> None:
        stem = f"{directory}/{base_offset:020d}"
        self._files = files
        self._file: File | None = None
        self.path = stem + LOG + ending
        self.base_offset = base_offset
        self.offset_index = OffsetIndex(files, stem + INDEX + ending, base_offset, index_bytes)
        self.time_index = TimeIndex(files, stem + TIME_INDEX + ending, base_offset, index_bytes)
        self.transaction_index = TransactionIndex(files, stem + TRANSACTION_INDEX + ending)

    @property
    def file(self) -> File:
        """The log file, opened if it was not."""
        file = self._file
        if file is None:
            file = self._file = self._files.open(self.path)
        return file

    def ensure_exist(self) -> None:
        """Create what a reader of the directory expects to find."""
        self.file.size()
        self.offset_index.file.ensure_exists()
        self.time_index.file.ensure_exists()

    def sync(self) -> None:
        """Make file and indexes durable. May block: run it in a job."""
        self.file.sync()
        self.offset_index.sync()
        self.time_index.sync()
        self.transaction_index.sync()

    def close(self) -> None:
        """Give descriptors and memory back; the next use opens them again."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self.offset_index.close()
        self.time_index.close()
        self.transaction_index.close()

    def set_aside(self) -> None:
        """Give every file a name that no start loads; whoever has one open can go on reading."""
        self.change_ending("", DELETED)

    def change_ending(self, before: str, after: str) -> None:
        """Let the name of every file end in `after` where it ends in `before`."""
        file = self.file
        self._files.rename(self.path, self.path.removesuffix(before) + after)
        self.path = file.path
        for index in self._index_files():
            index.rename_to(index.path.removesuffix(before) + after)

    def remove(self) -> None:
        """Remove every file, whatever its name is by now."""
        self.close()
        if self._files.exists(self.path):
            self._files.remove(self.path)
        for index in self._index_files():
            index.remove()

    def moved_to(self, directory: str) -> None:
        """The directory was renamed: go by the new name from now on."""
        self.path = f"{directory}/{self.path.rpartition('/')[2]}"
        for index in self._index_files():
            index.moved_to(f"{directory}/{index.path.rpartition('/')[2]}")

    def _index_files(self) -> tuple[LazyFile, LazyFile, LazyFile]:
        return self.offset_index.file, self.time_index.file, self.transaction_index.file
