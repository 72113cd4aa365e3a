"""One segment of a log: batches in a file, the three indexes beside it, and what is known of them.

Invariant  All files bear the segment's base offset, in twenty digits, as their name. One that is
           set aside or removed goes before its indexes: an index without a log is known to be a
           leftover, a log without an index is not.
Invariant  `size` counts the bytes that are part of the log; what a failed write left behind them
           is never read.
Invariant  Indexes name only batches that are in the file, and are rebuilt when they do not.
Invariant  A last batch behind a gap, which a follower gets from a compacted log, has an index entry
           of its own: no checksum covers its offsets, and no batch behind bears them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Final

from tidelog.model.entropy import Entropy
from tidelog.model.errors import invariant
from tidelog.model.time import Now
from tidelog.records.batch import LENGTH_AT, NO_TIMESTAMP, PREFIX_SIZE, BatchHeader, CorruptBatch
from tidelog.storage.batch_scan import scan_headers
from tidelog.storage.filesystem import Buffer, File, FileSystem, LazyFile
from tidelog.storage.log_config import LogConfig
from tidelog.storage.offset_index import ENTRY, OffsetIndex
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


class Segment:
    """Batches from `base_offset` up to the base offset of the segment that follows."""

    __slots__ = (
        "_file",
        "_files",
        "_first_timestamp",
        "_index_checked",
        "_max_timestamp",
        "_max_timestamp_offset",
        "base_offset",
        "created_ms",
        "damaged",
        "index_interval",
        "index_is_full",
        "jitter_ms",
        "offset_index",
        "path",
        "since_entry",
        "size",
        "time_index",
        "transaction_index",
        "unsynced",
    )

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        base_offset: int,
        *,
        size: int,
        config: LogConfig,
        created_ms: int,
        jitter_ms: int = 0,
        ending: str = "",
    ) -> None:
        stem = f"{directory}/{base_offset:020d}"
        index_bytes = config.index_bytes
        self._files = files
        self._file: File | None = None
        self.path = stem + LOG + ending
        self.base_offset = base_offset
        self.offset_index = OffsetIndex(files, stem + INDEX + ending, base_offset, index_bytes)
        self.time_index = TimeIndex(files, stem + TIME_INDEX + ending, base_offset, index_bytes)
        self.transaction_index = TransactionIndex(files, stem + TRANSACTION_INDEX + ending)
        self.size = size
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.damaged: list[tuple[int, int]] = []
        """Ranges of bytes, in their order, that are no batches; what lies behind them is sound."""
        self.unsynced = False
        """Something other than an append changed its files: a flush must not pass it over, even
        when the recovery point lies behind all of its batches."""
        self.index_interval = config.index_interval_bytes
        self.index_is_full = False
        self.since_entry = size
        self._index_checked = size == 0
        self._first_timestamp: int | None = None
        self._max_timestamp: int | None = NO_TIMESTAMP if size == 0 else None
        self._max_timestamp_offset = base_offset

    @classmethod
    def create(
        cls,
        files: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        entropy: Entropy,
        now: Now,
    ) -> Segment:
        """An empty segment with all the files a reader expects."""
        bound = min(config.segment_jitter_ms, config.segment_ms)
        segment = cls(
            files,
            directory,
            base_offset,
            size=0,
            config=config,
            created_ms=now.monotonic_ms,
            jitter_ms=entropy.below(bound) if bound > 0 else 0,
        )
        segment.ensure_exist()
        invariant(segment.file.size() == 0, f"{segment.path} is new")
        return segment

    # Its files

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

    # Writing

    def write(self, data: Buffer) -> None:
        """Add bytes to the file; `note` must follow for each batch in them."""
        if self._max_timestamp is None:
            self._learn_max_timestamp()  # it may repair the indexes: before `note` adds to them
        file = self._file
        if file is None:
            file = self.file
        file.append(data)
        self.size += len(data)

    def note(self, last_offset: int, max_timestamp: int, position: int, size: int) -> None:
        """Index the batch of `size` bytes written at `position`, if one is due."""
        latest = self._max_timestamp
        if latest is None:
            latest = self.max_timestamp
        if position == 0:
            self._first_timestamp = max_timestamp
        if max_timestamp > latest:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self.since_entry > self.index_interval:
            self.offset_index.append(last_offset, position)
            self.add_time_entry()
            self.index_is_full = self.offset_index.is_full or self.time_index.is_full
            self.since_entry = size
        else:
            self.since_entry += size

    def vouch_for(self, last_offset: int, position: int) -> None:
        """Give the last batch an entry, if it has none."""
        if self.offset_index.last() != (last_offset, position):
            self.offset_index.append(last_offset, position)
            self.index_is_full = self.offset_index.is_full or self.time_index.is_full
            self.since_entry = self.size - position

    def add_time_entry(self) -> bool:
        """Note the largest timestamp so far; whether that was news."""
        return self.time_index.append_if_later(self.max_timestamp, self._max_timestamp_offset)

    def finish(self) -> None:
        """Add the last time entry, if anything was written since the segment was loaded."""
        if self._max_timestamp is not None and self.add_time_entry():
            self.unsynced = True

    # Timestamps

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment, -1 when there is none."""
        latest = self._max_timestamp
        return self._learn_max_timestamp() if latest is None else latest

    @property
    def stated_max_timestamp(self) -> int:
        """The same as the end of the time index has it, without a check and at little cost."""
        latest = self._max_timestamp
        return self.time_index.last()[0] if latest is None else latest

    def _learn_max_timestamp(self) -> int:
        """Take the last time entry for true if the batch it names bears it out."""
        self._check_indexes()
        if self._max_timestamp is None:
            timestamp, offset = self.time_index.last()
            is_true = self._holds(timestamp, offset) if timestamp >= 0 else self.first_timestamp < 0
            if is_true:
                self._max_timestamp, self._max_timestamp_offset = timestamp, offset
                return timestamp
            self.rebuild_indexes()
        return self.max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the batch that holds the largest timestamp."""
        return self._max_timestamp_offset if self.max_timestamp >= 0 else self.base_offset

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, -1 when there is none."""
        if self._first_timestamp is None:
            if self.size == 0:
                return NO_TIMESTAMP
            for _, header in self._scan(0):
                self._first_timestamp = header.max_timestamp
                return header.max_timestamp
            return NO_TIMESTAMP
        return self._first_timestamp

    # Finding

    def position_of(self, offset: int) -> int:
        """Start of the first batch that ends at or above `offset`, else the size."""
        for position, header in self.headers_from(offset):
            if header.last_offset >= offset:
                return position
        return self.size

    def headers_from(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Headers in order, from the start of a batch that does not lie behind `offset`."""
        self._check_indexes()
        indexed, position = self.offset_index.lookup(offset)
        headers = self._scan(position)
        if position == 0:
            return headers
        first = _first_sound(headers)
        if first is not None and first[1].last_offset == indexed:
            return chain((first,), headers)
        self.rebuild_indexes()
        return self._scan(self.offset_index.lookup(offset)[1])

    def headers_from_time(self, timestamp: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Headers in order; what was left out is below `offset` or before `timestamp`."""
        self._check_indexes()
        entry_timestamp, entry_offset = self.time_index.lookup(timestamp)
        if entry_timestamp >= 0 and not self._holds(entry_timestamp, entry_offset):
            self.rebuild_indexes()
            _, entry_offset = self.time_index.lookup(timestamp)
        return self.headers_from(max(entry_offset, offset))

    def _holds(self, timestamp: int, last_offset: int) -> bool:
        """Whether a batch that ends with `last_offset` has `timestamp` as its largest."""
        for _, header in self.headers_from(last_offset):
            if header.last_offset >= last_offset:
                return (header.last_offset, header.max_timestamp) == (last_offset, timestamp)
        return False

    def _check_indexes(self) -> None:
        if not self._index_checked:
            self._index_checked = True
            if not (self.offset_index.sane() and self.time_index.sane()):
                self.rebuild_indexes()

    def _scan(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Headers from `position`, where a batch starts, to the end."""
        if not self.damaged:
            return scan_headers(self.file, position, self.size)
        return self._scan_around_damage(position)

    def _scan_around_damage(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        for start, end in self.damaged:
            if position < end:
                yield from scan_headers(self.file, position, start)
                position = end
        yield from scan_headers(self.file, position, self.size)

    def batch_size_at(self, position: int) -> int:
        """Bytes of the batch that starts at `position`."""
        length = self.file.read(position + LENGTH_AT, 4)
        return PREFIX_SIZE + int.from_bytes(length, "big")

    def last_header(self) -> BatchHeader | None:
        """The last batch, found from the last index entry; None if the file is in doubt.

        Reads that entry and the headers behind it, and learns how far the next entry is away.
        """
        indexed, position = self._last_entry()
        if position < 0:
            return None
        last, reached = None, position
        for at, header in _while_sound(scan_headers(self.file, position, self.size)):
            follows = header.base_offset >= (last.next_offset if last else self.base_offset)
            if not follows or (at == position > 0 and header.last_offset != indexed):
                return None
            last, reached = header, at + header.size
        self.since_entry = self.size - position
        return last if reached == self.size else None

    def _last_entry(self) -> tuple[int, int]:
        """The last index entry by a look at the end of its file, else (base offset, 0)."""
        tail = self.offset_index.file.read_tail(ENTRY.size)
        if len(tail) < ENTRY.size:
            return self.base_offset, 0
        relative, position = ENTRY.unpack(tail)
        return self.base_offset + relative, position

    # Repair

    def rebuild_indexes(self) -> None:
        """Write offset and time index anew from the headers in the file."""
        self.start_over()
        behind_damage = {end for _, end in self.damaged}
        reached = self.base_offset
        behind_gap_at: int | None = None
        for position, header in _while_sound(self._scan(0)):
            if position in behind_damage:
                self.index_next_batch()
            self.note(header.last_offset, header.max_timestamp, position, header.size)
            behind_gap_at = position if header.base_offset > reached else None
            reached = header.next_offset
        self.add_time_entry()
        if behind_gap_at is not None:
            self.vouch_for(reached - 1, behind_gap_at)
        self.offset_index.settle()

    def index_next_batch(self) -> None:
        """Give the next batch an entry of its own, however near the last one is."""
        self.since_entry = self.index_interval + 1

    def start_over(self) -> None:
        """Forget both indexes and what was learned from the batches, not the batches.

        The offset index must be settled once it is complete again.
        """
        self.offset_index.begin_anew()
        self.time_index.reset()
        if self.size or self.offset_index.file.is_open or self.time_index.file.is_open:
            self.unsynced = True
        self.since_entry = 0
        self.index_is_full = False
        self._index_checked = True
        self._first_timestamp = None
        self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset

    def cut(self, position: int, offset: int) -> None:
        """Drop every batch from `position` on; the log then ends at `offset`.

        The index goes first: a batch behind a gap that becomes the last one has its entry before
        the batches are gone that bore it out.
        """
        self.size = position
        self.unsynced = True
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self.index_is_full = self.offset_index.is_full or self.time_index.is_full
        self._first_timestamp = None
        self._max_timestamp, self._max_timestamp_offset = self.time_index.last()
        reached, indexed = self.offset_index.last()
        self.since_entry = position - indexed
        self.damaged = [(start, end) for start, end in self.damaged if end <= position]
        behind_gap_at: int | None = None
        for at, header in self._scan(indexed):
            behind_gap_at = at if header.base_offset > reached else None
            reached = header.next_offset
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp = header.max_timestamp
                self._max_timestamp_offset = header.last_offset
        if behind_gap_at is not None:
            self.vouch_for(reached - 1, behind_gap_at)
        self.offset_index.settle()
        self.file.truncate(position)


def _while_sound(
    headers: Iterator[tuple[int, BatchHeader]],
) -> Iterator[tuple[int, BatchHeader]]:
    with suppress(CorruptBatch):
        yield from headers


def _first_sound(headers: Iterator[tuple[int, BatchHeader]]) -> tuple[int, BatchHeader] | None:
    """The next header, leaving the others to whoever goes on; None if there is no sound one."""
    try:
        return next(headers, None)
    except CorruptBatch:
        return None
