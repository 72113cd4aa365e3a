"""Starting with a log that is there already, and making one that is not.

After a clean stop a log is taken as it was left: one look at the end of the last file tells
whether that is true. After any other stop, everything from the recovery point on is read again.

Before that, what a stop in the middle of something left behind is finished or undone: `.deleted`
files were to be removed, `.cleaned` files are the unfinished output of a compaction, `.swap` files
its finished output, ready to replace the segments it was made from.

Invariant  A start never refuses a log: what cannot be used is rebuilt, cut off or reported.
Invariant  Loading a log twice gives the same, also when the first time ended in a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.records.batch import CorruptBatch
from tidelog.storage.batch_scan import scan_headers
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.identity import write_topic_id
from tidelog.storage.leader_epoch_cache import FILE_NAME as EPOCHS_FILE
from tidelog.storage.leader_epoch_cache import LeaderEpochCache
from tidelog.storage.log_config import FOREVER, LogConfig
from tidelog.storage.log_place import LogPlace
from tidelog.storage.log_scan import LogScan
from tidelog.storage.log_values import Damage
from tidelog.storage.partition_log import LogContent, PartitionLog
from tidelog.storage.producer_snapshot import SUFFIX as SNAPSHOT
from tidelog.storage.producer_state import ProducerState
from tidelog.storage.segment import (
    CLEANED,
    DELETED,
    INDEX,
    LOG,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    Segment,
    file_name,
)
from tidelog.storage.segments import Segments

_INDEXES: Final = (INDEX, TIME_INDEX, TRANSACTION_INDEX)
_DIGITS: Final = 20


def create_log(
    partition: TopicPartition, topic_id: UUID, config: LogConfig, place: LogPlace, now: Now
) -> PartitionLog:
    """An empty log in a new directory."""
    place.files.make_directory(place.directory)
    write_topic_id(place.files, place.directory, topic_id)
    loading = _Loading(config, place, now)
    loading.start_empty_at(0)
    content = loading.content(0, 0, is_identified=False)
    return PartitionLog(partition, topic_id, config, place, content)


def load_log(
    partition: TopicPartition,
    topic_id: UUID,
    config: LogConfig,
    place: LogPlace,
    now: Now,
    *,
    clean: bool,
    recovery_point: int | None,
    log_start: int | None,
    cleaned_to: int = 0,
) -> PartitionLog:
    """The log in a directory; values of checkpoints are None when they are not known."""
    loading = _Loading(config, place, now)
    loading.find_segments()
    first = loading.segments[0].base_offset if loading.segments else 0
    start = max(log_start or 0, first)
    trusted = clean and loading.take_as_left(recovery_point or 0)
    if not trusted and loading.segments:
        loading.read_again(recovery_point or 0, cleaned_to, tail_only=clean)
    if not loading.segments or loading.end_offset < start:
        loading.start_empty_at(start)
        loading.report_missing(recovery_point or 0)
    loading.settle(start)
    durable = loading.end_offset if trusted else min(recovery_point or 0, loading.end_offset)
    content = loading.content(start, durable, is_identified=trusted or bool(recovery_point))
    return PartitionLog(partition, topic_id, config, place, content)


class _Loading:
    """A log on its way from files to a `PartitionLog`."""

    def __init__(self, config: LogConfig, place: LogPlace, now: Now) -> None:
        self.config = config
        self.place = place
        self.files = place.files
        self.directory = place.directory
        self.now = now
        self.epochs = LeaderEpochCache(self.files, f"{self.directory}/{EPOCHS_FILE}")
        self.producers = ProducerState(
            self.files,
            self.directory,
            config.producer_expiry_ms,
            verify_transactions=config.verify_transactions,
        )
        self.segments: list[Segment] = []
        self.end_offset = 0
        self.damage: list[Damage] = []
        self.cut_bytes = 0
        self._unindexed: list[Segment] = []
        self._bad_transactions: list[int] = []
        self._stray_snapshots = False
        self._was_read_again = False
        self._changed = False

    def find_segments(self) -> None:
        """Put the directory in order and take stock of it, without opening a log file."""
        names = clear_leftovers(self.files, self.directory)
        there = set(names)
        bases = [base for name in names if (base := base_offset_of(name, LOG)) is not None]
        for slot, base in enumerate(sorted(bases)):
            segment = Segment(
                self.files,
                self.directory,
                base,
                size=self.files.size(f"{self.directory}/{file_name(base, LOG)}"),
                config=self.config,
                created_ms=self.now.monotonic_ms,
            )
            self.segments.append(segment)
            if not {file_name(base, INDEX), file_name(base, TIME_INDEX)} <= there:
                self._unindexed.append(segment)
            transactions = segment.transaction_index
            if file_name(base, TRANSACTION_INDEX) in there and not transactions.sane(base):
                self._bad_transactions.append(slot)
        known = set(bases)
        snapshots = {base_offset_of(name, SNAPSHOT) for name in names if name.endswith(SNAPSHOT)}
        self._stray_snapshots = len(snapshots - known) > 1

    def take_as_left(self, recovery_point: int) -> bool:
        """Believe that the last stop was clean, unless something speaks against it."""
        if not self.segments or self._bad_transactions:
            return False
        active = self.segments[-1]
        end, last_epoch = active.base_offset, -1
        if active.size:
            last = active.last_header()
            if last is None:
                return False
            end, last_epoch = last.next_offset, last.leader_epoch
        if end < recovery_point or end > recovery_point > 0:
            return False
        self._index(self.segments)
        try:
            self._replay_to(end)
            if not self._epochs_reach(end, last_epoch):
                self.epochs.replace(_epochs_in(self.segments))
        except CorruptBatch:
            return False
        self.end_offset = end
        return True

    def read_again(self, flushed_to: int, cleaned_to: int, *, tail_only: bool) -> None:
        """Read every batch from the recovery point on, or from where something is wrong."""
        slot = Segments(self.segments).slot_of(flushed_to)
        if tail_only and not flushed_to:
            slot = len(self.segments) - 1
        slot = min([slot, *self._bad_transactions])
        known_epochs: LeaderEpochCache | None = self.epochs
        epochs: list[tuple[int, int]] = []
        try:
            base = self.segments[slot].base_offset
            self._index(self.segments[:slot])
            self._replay_to(base)
            epochs, trusted = self._epochs_below(slot)
            if not trusted:
                known_epochs = None
        except CorruptBatch:  # damage far below the recovery point: have a look at everything
            slot = 0
            self._replay_to(self.segments[0].base_offset)
        scan = LogScan(
            files=self.files,
            directory=self.directory,
            segments=self.segments,
            known_epochs=known_epochs,
            producers=self.producers,
            flushed_to=flushed_to,
            cleaned_to=cleaned_to,
            is_cleaned=self.config.cleanup_compact or cleaned_to > 0,
        )
        scan.run(slot, epochs[-1][0] if epochs else -1)
        self.end_offset = scan.end_offset
        self.damage = scan.damage
        self.cut_bytes = scan.cut_bytes
        self.epochs.replace([*epochs, *scan.found_epochs])
        self._changed = self._was_read_again = True

    def start_empty_at(self, offset: int) -> None:
        """Begin anew, with nothing left of what there was."""
        for segment in reversed(self.segments):
            segment.remove()
        if self.segments:
            self.files.sync_directory(self.directory)
        self.epochs.clear()
        self.producers.clear()
        segment = Segment.create(
            self.files, self.directory, offset, self.config, self.place.entropy, self.now
        )
        self.segments = [segment]
        self.end_offset = offset
        self._changed = True

    def report_missing(self, flushed_to: int) -> None:
        """Nothing is left of the records below `flushed_to`, which were durable once."""
        base = self.end_offset
        lost = Damage(base, 0, 0, base, flushed_to, in_place=False)
        self.damage = [lost] if base < flushed_to else []

    def settle(self, start: int) -> None:
        """Bring epochs and snapshots in line with where the log now starts and ends."""
        self.epochs.truncate_from_end(self.end_offset)
        self._complete_epochs(start)
        self.epochs.truncate_from_start(start)
        snapshot = self.producers.snapshots.path(self.end_offset)
        is_old = self._was_read_again or not self.files.exists(snapshot)
        if self.end_offset > self.segments[0].base_offset and is_old:
            self.producers.take_snapshot(self.end_offset)
            self._changed = True
        if self._stray_snapshots:
            self.producers.snapshots.remove_strays(
                [segment.base_offset for segment in self.segments]
            )

    def content(self, start: int, recovery_point: int, *, is_identified: bool) -> LogContent:
        return LogContent(
            segments=Segments(self.segments),
            epochs=self.epochs,
            producers=self.producers,
            start_offset=start,
            end_offset=self.end_offset,
            recovery_point=recovery_point,
            is_identified=is_identified,
            names_durable=not self._changed and not self.producers.snapshots.may_come_back,
            damage=self.damage,
            cut_bytes=self.cut_bytes,
        )

    def _index(self, segments: Sequence[Segment]) -> None:
        """Write the indexes of those segments that lack one."""
        for segment in segments:
            if segment in self._unindexed:
                segment.rebuild_indexes()
                self._changed = True

    def _replay_to(self, end: int) -> None:
        """Bring producer state to `end`, from the newest snapshot below."""
        replayed_from = self.producers.load(self.segments[0].base_offset, end, self.now.wall_ms)
        self.producers.replay(Segments(self.segments), replayed_from, end)

    def _epochs_below(self, slot: int) -> tuple[list[tuple[int, int]], bool]:
        """The epochs of the segments before `slot`, and whether the epoch file knew them."""
        base = self.segments[slot].base_offset
        below = self.segments[:slot]
        if not self.epochs.entries:
            return list(_epochs_in(below)), False
        last = below[-1].last_header() if below and below[-1].size else None
        if last is not None and not self._epochs_reach(base, last.leader_epoch):
            return list(_epochs_in(below)), False
        return [entry for entry in self.epochs.entries if entry.start_offset < base], True

    def _complete_epochs(self, start: int) -> None:
        """Find the epochs of records that came back: the log start was raised, but not for good."""
        entries = self.epochs.entries
        if entries and start < entries[0].start_offset:
            with suppress(CorruptBatch):
                found = list(_epochs_in(self.segments, entries[0].start_offset))
                latest = found[-1][0] if found else -1
                self.epochs.replace([*found, *(entry for entry in entries if entry.epoch > latest)])

    def _epochs_reach(self, end: int, last_epoch: int) -> bool:
        """Whether the epoch file knows the epoch of the last batch below `end`."""
        if not self.epochs.entries:
            return not any(segment.size for segment in self.segments)
        return last_epoch in (-1, self.epochs.epoch_for_offset(end - 1))


def _epochs_in(segments: Sequence[Segment], end: int = FOREVER) -> Iterator[tuple[int, int]]:
    """Every epoch with the offset of its first batch below `end`, from the headers in the files."""
    latest = -1
    for segment in segments:
        for _, header in segment.headers_from(segment.base_offset):
            if header.base_offset >= end:
                return
            if header.leader_epoch > latest:
                latest = header.leader_epoch
                yield latest, header.base_offset


def base_offset_of(name: str, suffix: str) -> int | None:
    """The offset a file is named after, if it is one of that kind."""
    stem = name.removesuffix(suffix)
    if stem == name or len(stem) != _DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    return int(stem)


def clear_leftovers(files: FileSystem, directory: str) -> Sequence[str]:
    """Finish or undo what was under way; the names that are in the directory afterwards."""
    names = files.list(directory)
    if any(name.endswith((DELETED, CLEANED, SWAP)) for name in names):
        names = _finish(files, directory, names)
    logs = {name.removesuffix(LOG) for name in names if name.endswith(LOG)}
    orphans = [
        name for name in names if name.endswith(_INDEXES) and name.rpartition(".")[0] not in logs
    ]
    _remove(files, directory, orphans)
    return [name for name in names if name not in orphans] if orphans else names


def _finish(files: FileSystem, directory: str, names: Sequence[str]) -> Sequence[str]:
    first_cleaned = min((_offset(name) for name in names if name.endswith(CLEANED)), default=None)
    swaps = [name for name in names if name.endswith(SWAP)]
    undone = [
        name for name in swaps if first_cleaned is not None and _offset(name) >= first_cleaned
    ]
    _remove(files, directory, [name for name in names if name.endswith((DELETED, CLEANED))])
    _remove(files, directory, undone)
    _replace_by_swaps(files, directory, [name for name in swaps if name not in undone])
    files.sync_directory(directory)
    return files.list(directory)


def _replace_by_swaps(files: FileSystem, directory: str, swaps: Sequence[str]) -> None:
    """Remove the segments that finished output stands for, then give it their names."""
    logs = [name for name in swaps if name.endswith(LOG + SWAP)]
    if logs:
        start = min(_offset(name) for name in logs)
        end = max(_end_of(files, directory, name) for name in logs)
        kinds = (LOG, *_INDEXES)
        replaced = [
            name
            for name in files.list(directory)
            if name.endswith(kinds) and start <= _offset(name) < end
        ]
        _remove(files, directory, replaced)
    for name in swaps:
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")


def _end_of(files: FileSystem, directory: str, name: str) -> int:
    file = files.open(f"{directory}/{name}")
    try:
        end = _offset(name) + 1  # at least the segment it is named after is replaced
        for _, header in scan_headers(file, 0, file.size()):
            end = header.next_offset
        return end
    finally:
        file.close()


def _offset(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else -1


def _remove(files: FileSystem, directory: str, names: Iterable[str]) -> None:
    for name in names:
        files.remove(f"{directory}/{name}")
