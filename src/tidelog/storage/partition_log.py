"""The log of one partition, as leader and follower use it.

Invariant  The end moves with the bytes: once a batch is in the file, no failure behind it can make
           its offsets be given out again.
Invariant  After a failed write or sync nothing is appended any more.
"""

from __future__ import annotations

from tidelog.model.errors import DiskError, ErrorCode, Refusal, invariant
from tidelog.model.time import Now
from tidelog.records.batch import CONTROL, BatchHeader, assign
from tidelog.records.control_batch import read_transaction_marker
from tidelog.records.validation import AcceptedBatch
from tidelog.storage import log_read, retention, timestamp_lookup, truncation
from tidelog.storage.filesystem import Buffer
from tidelog.storage.follower_append import FetchedBatches, split_fetched
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_values import Appended, LogSlice, TimestampOffset
from tidelog.storage.offset_index import RELATIVE_OFFSET_MAX
from tidelog.storage.origin import Origin
from tidelog.storage.producer_replay import note_batch
from tidelog.storage.retention import RemovedSegment
from tidelog.storage.segment import Segment
from tidelog.storage.segmented_log import Lowering, SegmentedLog
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.storage.transaction_verification import Verification


class PartitionLog(SegmentedLog):
    """All that is kept of one partition. Made by `recovery.load_log` and `recovery.create_log`."""

    # Appending

    def append_as_leader(
        self,
        batch: AcceptedBatch,
        leader_epoch: int,
        now: Now,
        *,
        origin: Origin = Origin.CLIENT,
        verification: Verification | None = None,
        transaction_version: int = 1,
    ) -> Appended | Refusal:
        """Give a batch the next offsets, in place, and write it; or say why not."""
        if self.health.offline_reason is not None:
            return self.health.refusal()
        latest_epoch = self.epochs.latest_epoch
        if latest_epoch is not None and leader_epoch < latest_epoch:
            invariant(False, f"{self.partition}: epoch {leader_epoch} comes after {latest_epoch}")
        header, data = batch
        first = self.end_offset
        last = first + header.last_offset_delta
        size = len(data)
        assign(data, first, leader_epoch)
        try:
            self.epochs.assign(leader_epoch, first)
            segment = self.segments.active
            if (
                header.max_timestamp > self._roll_after_timestamp
                or segment.size + size > self._config.segment_bytes
                or last - segment.base_offset > RELATIVE_OFFSET_MAX
                or segment.index_is_full
            ):
                if size > self._config.segment_bytes:
                    return _too_large(size, self._config)
                segment = self.segment_for(size, first, last, header.max_timestamp, now)
            if header.producer_id >= 0:
                if header.attributes & CONTROL:
                    refusal = self._check_marker(header, data, origin, transaction_version)
                    if refusal is not None:
                        return refusal
                else:
                    verdict = self.producers.check(header, origin, verification)
                    if isinstance(verdict, Refusal):
                        return verdict
                    if verdict is not None:
                        time = verdict.timestamp if header.is_log_append_time else -1
                        return Appended(verdict.first_offset, verdict.last_offset, time, True)
            position = segment.size
            segment.write(data)
            self.end_offset = last + 1
            self.tail.note(last, position)
            segment.note(last, header.max_timestamp, position, size)
            if header.producer_id >= 0:
                self._note_producer(segment, header, first, data)
        except DiskError as error:
            return self.health.fail(str(error))
        time = header.max_timestamp if header.is_log_append_time else -1
        return Appended(first, last, time, False)

    def append_as_follower(
        self, data: memoryview, now: Now, *, fetch_epoch: int
    ) -> Appended | Refusal | None:
        """Write fetched batches as they are; None when there is nothing to write.

        Batches of a later epoch than the fetch was made in wait for a fetch in that epoch. Raises
        `CorruptBatch`, and writes nothing, when a batch does not fit behind this log.
        """
        if self.health.offline_reason is not None:
            return self.health.refusal()
        fetched = split_fetched(self, data, fetch_epoch)
        if fetched is None:
            return None
        first, last = fetched.batches[0][0].base_offset, fetched.batches[-1][0].last_offset
        try:
            if first < self.end_offset:  # the log is empty and starts inside this batch
                truncation.truncate_fully_and_start_at(self, first, self.start_offset, now)
            self._write_fetched(fetched, first, last, now)
        except DiskError as error:
            return self.health.fail(str(error))
        return Appended(first, last, -1, False)

    def _write_fetched(self, fetched: FetchedBatches, first: int, last: int, now: Now) -> None:
        for header, _ in fetched.batches:
            self.epochs.assign(header.leader_epoch, header.base_offset)
        segment = self.segment_for(len(fetched.data), first, last, fetched.max_timestamp, now)
        position = segment.size
        segment.write(fetched.data)
        self.end_offset = last + 1
        for header, batch in fetched.batches:
            self.tail.note(header.last_offset, position)
            segment.note(header.last_offset, header.max_timestamp, position, header.size)
            if header.producer_id >= 0:
                self._note_producer(segment, header, header.base_offset, batch)
            position += header.size
        if fetched.ends_behind_gap:
            segment.vouch_for(last, position - fetched.batches[-1][0].size)

    def _check_marker(
        self, header: BatchHeader, data: Buffer, origin: Origin, transaction_version: int
    ) -> Refusal | None:
        marker = read_transaction_marker(data)
        if marker is None:
            return Refusal(ErrorCode.invalid_record, "a control batch holds no marker")
        return self.producers.check_marker(
            header, marker, origin, transaction_version=transaction_version
        )

    def _note_producer(
        self, segment: Segment, header: BatchHeader, first_offset: int, data: Buffer
    ) -> None:
        aborted = note_batch(self.producers, header, first_offset, data)
        if aborted is not None:
            segment.transaction_index.append(aborted)

    # Reading

    def read(
        self, offset: int, max_bytes: int, up_to: int, *, whole_first_batch: bool = True
    ) -> LogSlice | None:
        """Batches from `offset` on and below `up_to`, a batch boundary; None if there are none.

        At most `max_bytes`, the last batch perhaps cut; the first one is whole even if it alone is
        larger, or with `whole_first_batch` off there is no answer then. `offset` lies between the
        start and the end of the log. Raises `CorruptBatch` for an offset that is known to be lost.
        """
        with self.health:
            return log_read.read(self, offset, max_bytes, up_to, whole_first_batch)

    def upper_bound_of(self, fetch_offset: int, length: int) -> int:
        """An offset behind everything in a slice of `length` bytes read at `fetch_offset`."""
        with self.health:
            return log_read.upper_bound_of(self, fetch_offset, length)

    def aborted_transactions(self, fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """The aborted transactions that touch [fetch_offset, upper_bound)."""
        with self.health:
            return log_read.aborted_transactions(self, fetch_offset, upper_bound)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction begins, in this log, that is not decided below the mark."""
        offset = self.producers.first_unstable_offset(high_watermark)
        return None if offset is None else max(offset, self.start_offset)

    def offset_for_timestamp(self, timestamp: int, up_to: int) -> TimestampOffset | None:
        """The first record below `up_to` that is not before `timestamp`."""
        with self.health:
            return timestamp_lookup.offset_for_timestamp(self, timestamp, up_to)

    def max_timestamp_offset(self, up_to: int) -> TimestampOffset | None:
        """The first record with the largest timestamp, if it lies below `up_to`."""
        with self.health:
            return timestamp_lookup.max_timestamp_offset(self, up_to)

    # Cutting

    def lowering_for_cut(self, offset: int) -> Lowering | None:
        """What must run before `truncate_to` can cut here without waiting for the disk.

        Ask again when it is done: something else may have been written down meanwhile.
        """
        if offset >= self.end_offset or self.health.offline_reason is not None:
            return None
        with self.health:
            return self.place.lowering(truncation.lower_for(self, offset))

    def lowering_for_new_start(self, offset: int) -> Lowering | None:
        """The same for `truncate_fully_and_start_at`."""
        if self.health.offline_reason is not None:
            return None
        return self.place.lowering(truncation.lower_for_all(self, offset, offset))

    def lowering_for_fetched(self, records: memoryview) -> Lowering | None:
        """The same for `append_as_follower`: an empty log may start inside the first batch."""
        first = int.from_bytes(records[:8], "big")
        if first >= self.end_offset or self.health.offline_reason is not None:
            return None
        return self.place.lowering(truncation.lower_for_all(self, first, self.start_offset))

    def truncate_to(self, offset: int, now: Now) -> bool:
        """Drop everything at or above `offset`, a batch boundary or the start; whether any went."""
        with self.health:
            self.health.require()
            return truncation.truncate_to(self, offset, now)

    def truncate_fully_and_start_at(self, offset: int, now: Now) -> None:
        """Drop everything and go on at `offset`."""
        with self.health:
            self.health.require()
            truncation.truncate_fully_and_start_at(self, offset, offset, now)

    def raise_start_to(self, offset: int) -> bool:
        """Let the log start at `offset`, not above the high watermark; whether that was news."""
        invariant(offset <= self.end_offset, f"{self.partition} cannot start behind its end")
        with self.health:
            self.health.require()
            return retention.raise_start_to(self, offset)

    def delete_expired(self, now: Now, high_watermark: int) -> list[RemovedSegment]:
        """Take away the segments that retention no longer keeps; what they were, and why."""
        with self.health:
            self.health.require()
            return retention.delete_expired(self, now, high_watermark)


def _too_large(size: int, config: LogConfig) -> Refusal:
    return Refusal(
        ErrorCode.record_list_too_large,
        f"a batch of {size} bytes is larger than a segment of {config.segment_bytes}",
    )
