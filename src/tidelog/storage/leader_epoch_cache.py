"""Where each leader epoch begins in a log, so that two logs can find where they part.

Written through to `leader-epoch-checkpoint`: version, count, then one `epoch start-offset` a line.

Invariant  Epochs and start offsets both strictly rise.
Invariant  An epoch is in the file before its first record is in the log, so it survives the
           process. A power cut may take it, until the next flush of the log; the log itself tells
           all epochs that have records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from tidelog.model.errors import DiskError, invariant
from tidelog.storage.checkpoint import decode_checkpoint, encode_checkpoint, number
from tidelog.storage.filesystem import FileMissing, FileSystem, read_all, replace_file

FILE_NAME: Final = "leader-epoch-checkpoint"
UNDEFINED: Final = (-1, -1)
_epoch_of = itemgetter(0)
_start_of = itemgetter(1)


class EpochStart(NamedTuple):
    """A leader epoch and the offset of the first record that could be written in it."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """The epochs of one log; a missing or unreadable file is an empty cache, to be rebuilt."""

    __slots__ = (
        "_entries",
        "_files",
        "_latest_epoch",
        "_latest_start",
        "_unwritten",
        "path",
        "unsynced",
    )

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self.path = path
        self._unwritten = False
        self.unsynced = False
        self._entries: list[EpochStart] = []
        self._latest_epoch = -1
        self._latest_start = -1
        self._remember(_read(files, path))

    @property
    def latest_epoch(self) -> int | None:
        return self._latest_epoch if self._entries else None

    @property
    def entries(self) -> Sequence[EpochStart]:
        """Oldest first; not to be changed."""
        return self._entries

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` writes from `start_offset` on; whether that was news.

        Called for every append, so the usual case comes first. What the new entry contradicts
        goes: it came from a leader whose records are being replaced. A negative epoch, as batches
        from before there were leader epochs carry it, is nothing to note.
        """
        if epoch == self._latest_epoch and start_offset >= self._latest_start:
            if self._unwritten:
                self._write(self._entries)
            return False
        if epoch < 0:
            return False
        self._write(self._with(epoch, start_offset))
        return True

    def begin(self, epoch: int, start_offset: int) -> None:
        """A leader begins its epoch; the file follows with the first record of it.

        Until then nothing is lost with the entry: after a restart another epoch begins.
        """
        if epoch != self._latest_epoch or start_offset < self._latest_start:
            self._remember(self._with(epoch, start_offset))
            self._unwritten = True

    def _with(self, epoch: int, start_offset: int) -> list[EpochStart]:
        invariant(start_offset >= 0, f"{self.path}: epoch {epoch} cannot start at {start_offset}")
        kept = [
            entry
            for entry in self._entries
            if entry.epoch < epoch and entry.start_offset < start_offset
        ]
        return [*kept, EpochStart(epoch, start_offset)]

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch in which the record at `offset` was or would be written."""
        slot = bisect_right(self._entries, offset, key=_start_of) - 1
        return self._entries[slot].epoch if slot >= 0 else None

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest known epoch not above `epoch` and where it ends; (-1, -1) if undefined."""
        entries = self._entries
        if epoch < 0 or epoch > self._latest_epoch:
            return UNDEFINED
        if epoch == self._latest_epoch:
            return epoch, log_end
        following = bisect_right(entries, epoch, key=_epoch_of)
        end = entries[following].start_offset
        return (entries[following - 1].epoch if following else epoch), end

    def truncate_from_end(self, offset: int) -> None:
        """Forget every epoch that starts at or above `offset`."""
        count = bisect_left(self._entries, offset, key=_start_of)
        if count < len(self._entries):
            self._write(self._entries[:count])

    def truncate_from_start(self, offset: int) -> None:
        """Forget what lies below `offset`; the epoch that reaches into the rest starts there."""
        count = bisect_right(self._entries, offset, key=_start_of)
        if count == 0:
            return
        first = EpochStart(self._entries[count - 1].epoch, offset)
        kept = [first, *self._entries[count:]]
        if kept != self._entries:
            self._write(kept)

    def replace(self, entries: Iterable[tuple[int, int]]) -> None:
        """Put entries read back from the log in place of everything known."""
        rebuilt = [EpochStart._make(entry) for entry in entries]
        invariant(_rising(rebuilt), f"{self.path}: rebuilt epochs do not rise: {rebuilt}")
        if rebuilt != self._entries:
            self._write(rebuilt)

    def clear(self) -> None:
        """Forget every epoch."""
        self.replace(())

    def sync(self) -> None:
        """Make the file durable, all but its name; harmless when the log is gone meanwhile."""
        self.unsynced = False
        with suppress(FileMissing):
            if self._files.exists(self.path):
                file = self._files.open(self.path)
                try:
                    file.sync()
                finally:
                    file.close()

    def moved_to(self, path: str) -> None:
        """The log's directory was renamed: go by the new name from now on."""
        self.path = path

    def _write(self, entries: list[EpochStart]) -> None:
        replace_file(self._files, self.path, encode_checkpoint(entries))
        self._remember(entries)
        self._unwritten = False
        self.unsynced = True

    def _remember(self, entries: list[EpochStart]) -> None:
        self._entries = entries
        self._latest_epoch, self._latest_start = entries[-1] if entries else UNDEFINED


def _read(files: FileSystem, path: str) -> list[EpochStart]:
    """The entries of the file, or none when it cannot be trusted."""
    try:
        lines = decode_checkpoint(read_all(files, path), fields=2)
        entries = [EpochStart(number(epoch), number(start)) for epoch, start in lines]
    except (DiskError, ValueError):
        return []
    return entries if _rising(entries) else []


def _rising(entries: Sequence[EpochStart]) -> bool:
    return all(
        before.epoch < after.epoch and before.start_offset < after.start_offset
        for before, after in pairwise(entries)
    )
