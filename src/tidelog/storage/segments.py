"""The segments of a log in the order of their offsets, and what is looked up across them.

Invariant  There is always at least one; the last is the active one, which takes appends.
Invariant  Base offsets strictly rise.
Invariant  A record looked up by its time is the first one at or above the start asked for that is
           as late as asked.
Invariant  For each offset at or above the start of the tail its answer is exact, without a look at
           the disk: followers and most consumers ask for the offset behind the last batch they
           got, up to a high watermark that was a batch boundary a moment ago.
Invariant  The files of a segment that is set aside bear another name at once, so that no start
           loads them; whoever holds one of them open can read it until it is removed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tidelog.model.errors import invariant
from tidelog.model.time import Now
from tidelog.records.batch import BatchHeader
from tidelog.records.record import records_of
from tidelog.storage.batch_scan import read_batch
from tidelog.storage.log_values import TimestampOffset
from tidelog.storage.segment import Segment
from tidelog.storage.transaction_index import AbortedTransaction

_KEPT: Final = 128


class Segments:
    """A sorted list that knows which segment an offset lies in."""

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]
        invariant(bool(self._segments), "a log has at least one segment")
        self.active = self._segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, slot: int) -> Segment:
        return self._segments[slot]

    @property
    def first(self) -> Segment:
        return self._segments[0]

    def slot_of(self, offset: int) -> int:
        """Which segment an offset lies in; the first one for offsets below the log."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def end_of(self, slot: int, log_end: int) -> int:
        """The offset at which a segment ends: the next one's base, or the end of the log."""
        return self._bases[slot + 1] if slot + 1 < len(self._bases) else log_end

    def add(self, segment: Segment) -> None:
        """Put a new active segment behind all others."""
        invariant(segment.base_offset > self._bases[-1], "segments follow one another")
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def take_first(self, count: int) -> list[Segment]:
        """Take the oldest segments out; one must stay."""
        invariant(count < len(self._segments), "the active segment stays")
        taken = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        return taken

    def take_after(self, slot: int) -> list[Segment]:
        """Take every segment behind `slot` out."""
        taken = self._segments[slot + 1 :]
        del self._segments[slot + 1 :], self._bases[slot + 1 :]
        self.active = self._segments[-1]
        return taken

    def replace(self, replaced: Sequence[Segment], segment: Segment) -> None:
        """Let one segment stand in for neighbours, of which the active one is none."""
        slot = self.slot_of(segment.base_offset)
        end = slot + len(replaced)
        invariant(self._segments[slot:end] == list(replaced), "what is replaced is here")
        invariant(end < len(self._segments), "the active segment stays")
        self._segments[slot:end] = [segment]
        self._bases[slot:end] = [segment.base_offset]

    def replace_all(self, segment: Segment) -> None:
        """Let one new segment stand in for all of them."""
        self._segments, self._bases, self.active = [segment], [segment.base_offset], segment

    # Finding

    def locate(self, offset: int) -> tuple[Segment, int]:
        """Segment and position of the first batch that ends at or above `offset`."""
        for slot in range(self.slot_of(offset), len(self._segments)):
            segment = self._segments[slot]
            position = segment.position_of(offset)
            if position < segment.size or segment is self.active:
                return segment, position
        return self.active, self.active.size

    def upper_bound_of(self, fetch_offset: int, length: int, log_end: int) -> int:
        """An offset behind everything in a slice of `length` bytes read at `fetch_offset`.

        Taken from the index, so it may lie some batches behind.
        """
        segment, position = self.locate(fetch_offset)
        entry = segment.offset_index.first_at_or_past(position + length)
        if entry is not None:
            return entry[0]
        return self.end_of(self.slot_of(segment.base_offset), log_end)

    def aborted_transactions(self, fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """The aborted transactions that touch [fetch_offset, upper_bound), by their ends."""
        found: list[AbortedTransaction] = []
        for slot in range(self.slot_of(fetch_offset), len(self._segments)):
            search = self._segments[slot].transaction_index.collect(fetch_offset, upper_bound)
            found += search.transactions
            if search.complete:
                break
        return found

    def offset_for_timestamp(self, timestamp: int, start: int) -> TimestampOffset | None:
        """The first record at or above `start` whose timestamp is not before `timestamp`."""
        for slot in range(self.slot_of(start), len(self._segments)):
            segment = self._segments[slot]
            if segment.max_timestamp < timestamp:
                continue
            for position, header in segment.headers_from_time(timestamp, start):
                if header.max_timestamp < timestamp or header.last_offset < start:
                    continue
                found = _first_record(segment, position, header, timestamp, start)
                if found is not None:
                    return found
        return None

    def max_timestamp_offset(self, start: int) -> TimestampOffset | None:
        """The first record at or above `start` with the largest timestamp."""
        latest: TimestampOffset | None = None
        for slot in range(self.slot_of(start), len(self._segments)):
            segment = self._segments[slot]
            if latest is None or segment.max_timestamp > latest.timestamp:
                found = _latest_in(segment, max(start, segment.base_offset))
                if found is not None and (latest is None or found.timestamp > latest.timestamp):
                    latest = found
        return latest


def _latest_in(segment: Segment, start: int) -> TimestampOffset | None:
    """The first record at or above `start` with the largest timestamp in a segment."""
    whole = start == segment.base_offset
    latest: TimestampOffset | None = None
    for position, header in segment.headers_from(segment.max_timestamp_offset if whole else start):
        if header.last_offset < start or (latest and header.max_timestamp <= latest.timestamp):
            continue
        found = _latest_record(segment, position, header, start)
        if found is not None and (latest is None or found.timestamp > latest.timestamp):
            latest = found
        if whole and latest is not None and latest.timestamp == segment.max_timestamp:
            break
    return latest if latest is not None and latest.timestamp >= 0 else None


def _latest_record(
    segment: Segment, position: int, header: BatchHeader, start: int
) -> TimestampOffset | None:
    batch = read_batch(segment.file, position, segment.size)
    records = [record for record in records_of(batch.data) if record.offset >= start]
    if not records:
        return None
    latest = max(records, key=lambda record: record.timestamp)
    return TimestampOffset(latest.timestamp, latest.offset, header.leader_epoch)


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start: int
) -> TimestampOffset | None:
    batch = read_batch(segment.file, position, segment.size)
    for record in records_of(batch.data):
        if record.timestamp >= timestamp and record.offset >= start:
            return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


class TailBatches:
    """Where the last batches written start, between 128 and 256 of them on a busy log."""

    __slots__ = ("_last_offsets", "_positions", "start_offset")

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self._last_offsets = array("q")
        self._positions = array("q")

    def note(self, last_offset: int, position: int) -> None:
        """A batch that ends with `last_offset` was written at `position`."""
        self._last_offsets.append(last_offset)
        self._positions.append(position)
        if len(self._positions) >= 2 * _KEPT:
            self.start_offset = self._last_offsets[_KEPT - 1] + 1
            del self._last_offsets[:_KEPT]
            del self._positions[:_KEPT]

    def position_of(self, offset: int, end: int) -> int:
        """Start of the first batch that ends at or above `offset`, else `end`."""
        slot = bisect_left(self._last_offsets, offset)
        return self._positions[slot] if slot < len(self._positions) else end

    def restart(self, start_offset: int) -> None:
        """Forget everything: from now on only what comes at or above `start_offset` is known."""
        self.start_offset = start_offset
        del self._last_offsets[:]
        del self._positions[:]


class SegmentRemovals:
    """Segments that are no longer part of a log, in the order in which they were set aside."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Segment]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, segment: Segment, due_ms: int) -> None:
        """Set the files aside now; they go at `due_ms`."""
        segment.set_aside()
        self._waiting.append((due_ms, segment))

    def sweep(self, now: Now) -> int:
        """Remove the files whose time has come; how many segments those were."""
        count = 0
        while self._waiting and self._waiting[0][0] <= now.monotonic_ms:
            self._waiting.popleft()[1].remove()
            count += 1
        return count

    def close(self) -> None:
        """Give the files back; the next start removes them."""
        for _, segment in self._waiting:
            segment.close()
        self._waiting.clear()

    def moved_to(self, directory: str) -> None:
        """The directory was renamed: go by the new name from now on."""
        for _, segment in self._waiting:
            segment.moved_to(directory)
