"""Reading a log back after a stop that was not clean.

Every batch from some segment on is read once: what is whole and fits is indexed, noted in the
producer state and in the list of epochs. At the first batch that does not fit the log is cut, if
it lies in the part that was never flushed. Damage in the flushed part is stepped over and
reported; what lies behind it stays.

Invariant  No batch is kept whose bytes, offsets or epoch cannot be what was written.
Invariant  A gap within a segment is no end: a leader may have sent it. The batch behind it is kept
           if another witness bears out its offsets, which no checksum covers: the batch or segment
           that follows, or an index entry. A gap between segments is a loss, unless the recovery
           point or the cleaner's own checkpoint says that it was there before.
Invariant  Later segments are gone for good before an earlier one is cut, so that a crash on the
           way leaves no hole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidelog.records.batch import BatchHeader, CorruptBatch, crc_matches
from tidelog.storage.batch_scan import FoundBatch, read_batch, scan_batches
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.leader_epoch_cache import LeaderEpochCache
from tidelog.storage.log_values import Damage
from tidelog.storage.offset_index import RELATIVE_OFFSET_MAX
from tidelog.storage.producer_state import ProducerState
from tidelog.storage.segment import Segment


@dataclass(slots=True, kw_only=True)
class LogScan:
    """One pass over the last segments of a log; `segments` loses those that are dropped."""

    files: FileSystem
    directory: str
    segments: list[Segment]
    known_epochs: LeaderEpochCache | None
    """What the epoch file says, if it can be trusted."""
    producers: ProducerState
    flushed_to: int
    """Everything below was durable once."""
    cleaned_to: int
    """Below, segments may lie apart: Apache Kafka's cleaner keeps nothing of an empty one."""
    is_cleaned: bool
    """Gaps may be the work of a cleaner: ours, that of a leader, or Apache Kafka's."""
    end_offset: int = 0
    found_epochs: list[tuple[int, int]] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    cut_bytes: int = 0
    _last_epoch: int = -1
    _witnesses: dict[int, int] = field(default_factory=dict)
    """From position to last offset, as the index of the segment under way had it."""
    _segment_end: int | None = None
    """Where the segment under way ends by the name of the one behind it."""

    def run(self, slot: int, last_epoch: int) -> None:
        """Read from segment `slot` on.

        `producers` must be up to date at its base offset, `last_epoch` be that of what lies below.
        """
        first = self.segments[slot]
        self.end_offset = first.base_offset
        self._last_epoch = last_epoch
        for segment in self.segments[slot:]:
            if segment is not first:
                if not self._follows(segment):
                    self._drop_behind(slot - 1)
                    break
                self.producers.take_snapshot(segment.base_offset)
            position = self._read_segment(segment, slot)
            if position < segment.size:
                self._drop_behind(slot)
                self.cut_bytes += segment.size - position
                segment.cut(position, self.end_offset)
                segment.add_time_entry()
                break
            segment.add_time_entry()
            segment.offset_index.settle()
            slot += 1
        if self.end_offset < self.flushed_to:
            last = self.segments[-1]
            self._report(last, last.size, last.size, self.flushed_to, in_place=False)

    def _follows(self, segment: Segment) -> bool:
        """Whether a segment goes on where the log, as far as it was read, ends."""
        base = segment.base_offset
        if self.end_offset < min(base, max(self.flushed_to, self.cleaned_to)):
            if not self.is_cleaned:
                self._report(segment, 0, 0, base, in_place=True)
            self.end_offset = base
        return base == self.end_offset

    def _read_segment(self, segment: Segment, slot: int) -> int:
        """Take the batches of one segment; where it is to be cut, its size if nowhere."""
        self._witnesses = {position: last for last, position in segment.offset_index.entries()}
        behind = self.segments[slot + 1 : slot + 2]
        self._segment_end = behind[0].base_offset if behind else None
        segment.start_over()
        segment.transaction_index.reset()
        position = self._take_batches(segment, 0)
        while position < segment.size and self.end_offset < self.flushed_to:
            found = self._next_whole(segment, position)
            if found is not None:
                self._report(segment, position, found.position, found.header.base_offset, True)
                self.end_offset = found.header.base_offset
                segment.index_next_batch()
                position = self._take_batches(segment, found.position)
            elif self._segment_end is not None:
                self._report(segment, position, segment.size, self._segment_end, True)
                self.end_offset = self._segment_end
                position = segment.size
            else:
                break
        return position

    def _take_batches(self, segment: Segment, position: int) -> int:
        """Take whole batches that fit, from `position` on; where the last of them ends."""
        for batch, following in _in_pairs(segment, position):
            header = batch.header
            if not self._fits(segment, batch, following):
                break
            try:
                self._note_producer(segment, batch)
            except CorruptBatch:  # a marker that is none
                break
            is_behind_gap = header.base_offset > self.end_offset
            if is_behind_gap and (following is None or self._is_indexed(batch)):
                segment.index_next_batch()
            segment.note(header.last_offset, header.max_timestamp, batch.position, header.size)
            if header.leader_epoch > self._last_epoch:
                self._last_epoch = header.leader_epoch
                self.found_epochs.append((header.leader_epoch, header.base_offset))
            self.end_offset = header.next_offset
            position = batch.position + header.size
        return position

    def _note_producer(self, segment: Segment, batch: FoundBatch) -> None:
        if batch.header.producer_id >= 0:
            aborted = self.producers.note(batch.header, batch.header.base_offset, batch.data)
            if aborted is not None:
                segment.transaction_index.append(aborted)

    # Judging a batch

    def _fits(self, segment: Segment, batch: FoundBatch, following: FoundBatch | None) -> bool:
        """Whether a batch can be what was written at the end of the log read so far."""
        header = batch.header
        return (
            self._offsets_fit(segment, batch, following)
            and self._epoch_fits(header, following)
            and crc_matches(batch.data)
        )

    def _offsets_fit(
        self, segment: Segment, batch: FoundBatch, following: FoundBatch | None
    ) -> bool:
        """The checksum does not cover the base offset: what lies around the batch must agree."""
        header = batch.header
        gap = header.base_offset - self.end_offset
        if gap < 0 or header.last_offset_delta < 0:
            return False
        if header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            return False
        return gap == 0 or self._is_borne_out(batch, following)

    def _is_borne_out(self, batch: FoundBatch, following: FoundBatch | None) -> bool:
        """Whether a batch behind a gap has a witness.

        Below the recovery point it needs none, nor in a compacted log, which may have been written
        by others.
        """
        header = batch.header
        if self._is_indexed(batch):
            return True
        if following is not None:
            return following.header.base_offset > header.last_offset
        return (
            self.is_cleaned
            or self.end_offset < self.flushed_to
            or header.next_offset == self._segment_end
        )

    def _is_indexed(self, batch: FoundBatch) -> bool:
        """Whether the index had an entry for just this batch; it keeps it then."""
        return self._witnesses.get(batch.position) == batch.header.last_offset

    def _epoch_fits(self, header: BatchHeader, following: FoundBatch | None) -> bool:
        """No checksum covers the epoch, neither in the batch nor in the file of epochs.

        Where the two differ the batches around decide: if one bears the header out, the file is old
        or damaged. A last batch is believed if it states less than the file does: a replica that
        claims too little has to fetch again, one that claims too much keeps what it should not.
        """
        epoch = header.leader_epoch
        if epoch < self._last_epoch:
            return False
        if self.known_epochs is None:
            return True
        known = self.known_epochs.epoch_for_offset(header.base_offset)
        if known is None or epoch in (known, self._last_epoch):
            return True
        if following is None:
            return epoch < known
        behind = following.header.leader_epoch
        return behind == epoch or behind > epoch > known

    def _next_whole(self, segment: Segment, position: int) -> FoundBatch | None:
        """The first whole batch behind a damaged one, by its length or by an old index entry."""
        stated = position + segment.batch_size_at(position)
        for candidate in sorted({stated, *self._witnesses}):
            if not position < candidate < segment.size:
                continue
            try:
                batch = read_batch(segment.file, candidate, segment.size)
            except CorruptBatch:
                continue
            if batch.header.base_offset >= self.end_offset and self._fits(segment, batch, None):
                return batch
        return None

    # What follows from it

    def _report(
        self, segment: Segment, position: int, end_position: int, next_offset: int, in_place: bool
    ) -> None:
        if position < end_position:
            segment.damaged.append((position, end_position))
        self.damage.append(
            Damage(
                segment.base_offset, position, end_position, self.end_offset, next_offset, in_place
            )
        )

    def _drop_behind(self, slot: int) -> None:
        """Remove every later segment, newest first, for good by the time this returns."""
        dropped = self.segments[slot + 1 :]
        for segment in reversed(dropped):
            self.cut_bytes += segment.size
            segment.remove()
        del self.segments[slot + 1 :]
        if dropped:
            self.files.sync_directory(self.directory)


def _in_pairs(segment: Segment, position: int) -> Iterator[tuple[FoundBatch, FoundBatch | None]]:
    """Each whole batch with the one behind it, if that one is whole, too."""
    current: FoundBatch | None = None
    try:
        for found in scan_batches(segment.file, position, segment.size):
            if current is not None:
                yield current, found
            current = found
    except CorruptBatch:
        pass  # whatever stands there is not a batch
    if current is not None:
        yield current, None
