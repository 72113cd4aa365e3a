"""The log of one partition, as leader and follower use it.

Invariant  start_offset <= end_offset and recovery_point <= end_offset.
Invariant  The end moves with the bytes: once a batch is in the file, no failure behind it can make
           its offsets be given out again.
Invariant  After a failed write or sync nothing is appended any more.
Invariant  A new segment begins at the end of the log, so that segments follow without a gap.
Invariant  The topic id is durable before the recovery point moves past the first record: what is
           lost with it was never said to be on disk. A log has no second segment before the name
           of its first one is durable: what a loss of power leaves has no hole at its beginning.
Invariant  No byte at or above `up_to` is handed out to a reader, and none that is known to be
           damaged. A slice lies in one segment and starts with the batch that holds the offset
           asked for, or with the first one behind it when compaction removed that.
Invariant  A recovery point that may be on disk is lowered there before any byte is cut, so that no
           start takes for flushed what was cut off and written anew. Who may not wait for the disk
           has that done by the job that `lowering_for_cut` gives, and cuts when there is none.
Invariant  After a crash in the middle of a cut the log is as before, as afterwards or in between,
           but never has a hole: a start drops later segments that do not follow, and nothing is
           appended as a follower before later segments are gone for good (`flushes.is_settled`).
Invariant  Retention moves the start before it moves files; files disappear oldest first, so that
           whatever a crash brings back still is the end of a log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from tidelog.model.errors import DiskError, ErrorCode, Refusal, invariant
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.records.batch import CONTROL, BatchHeader, CorruptBatch, assign
from tidelog.records.control_batch import read_transaction_marker
from tidelog.records.validation import AcceptedBatch
from tidelog.storage.fetched_batches import FetchedBatches, split_fetched
from tidelog.storage.filesystem import Buffer
from tidelog.storage.flush import FlushJob, FlushState
from tidelog.storage.leader_epoch_cache import FILE_NAME as EPOCHS_FILE
from tidelog.storage.leader_epoch_cache import LeaderEpochCache
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_place import LogPlace, Lower, Lowering
from tidelog.storage.log_values import (
    Appended,
    Damage,
    LogSlice,
    RemovedSegment,
    TimestampOffset,
)
from tidelog.storage.offset_index import RELATIVE_OFFSET_MAX
from tidelog.storage.producer import Origin
from tidelog.storage.producer_state import ProducerState
from tidelog.storage.retention import Expired, below_start, count_expired, over_size, too_old
from tidelog.storage.segment import CLEANED, SWAP, Segment
from tidelog.storage.segments import SegmentRemovals, Segments, TailBatches
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.storage.transaction_verification import Verification

UNKNOWN_TIMESTAMP: Final = -2


@dataclass(slots=True, kw_only=True)
class LogContent:
    """What a start found, or what a new log begins with."""

    segments: Segments
    epochs: LeaderEpochCache
    producers: ProducerState
    start_offset: int
    end_offset: int
    recovery_point: int
    is_identified: bool
    """The topic id, and the name of the directory, are durable."""
    names_durable: bool
    """No file was created or removed since the directory was last synced."""
    damage: list[Damage] = field(default_factory=list)
    cut_bytes: int = 0


class PartitionLog:
    """All that is kept of one partition. Made by `recovery.load_log` and `recovery.create_log`."""

    def __init__(
        self,
        partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        place: LogPlace,
        content: LogContent,
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.place = place
        self.health = place.health
        self.segments = content.segments
        self.epochs = content.epochs
        self.producers = content.producers
        self.start_offset = content.start_offset
        self.end_offset = content.end_offset
        self.damage = content.damage
        """Flushed records that the last start found missing."""
        self.cut_bytes = content.cut_bytes
        """How much the last start cut off because it was never whole."""
        self.flushes = FlushState(
            content.recovery_point,
            names_durable=content.names_durable,
            is_identified=content.is_identified,
        )
        self.first_dirty_offset = 0
        """Everything below was cleaned, if the log is a compacted one."""
        self.tail = TailBatches(content.end_offset)
        self.removals = SegmentRemovals()
        self._config = config
        self._roll_after_timestamp = UNKNOWN_TIMESTAMP

    @property
    def directory(self) -> str:
        """The path of the log's own directory."""
        return self.place.directory

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.segments.active.index_interval = config.index_interval_bytes
        self.producers.expiry_ms = config.producer_expiry_ms
        self.producers.verify_transactions = config.verify_transactions
        self._roll_after_timestamp = UNKNOWN_TIMESTAMP

    @property
    def recovery_point(self) -> int:
        """Everything below is durable."""
        return self.flushes.recovery_point

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

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
                segment = self._segment_for(size, first, last, header.max_timestamp, now)
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
        latest = self.epochs.latest_epoch
        fetched = split_fetched(
            self.partition,
            data,
            fetch_epoch,
            log_start=self.start_offset,
            log_end=self.end_offset,
            latest_epoch=-1 if latest is None else latest,
        )
        if fetched is None:
            return None
        first, last = fetched.batches[0][0].base_offset, fetched.batches[-1][0].last_offset
        try:
            if first < self.end_offset:  # the log is empty and starts inside this batch
                self._begin_anew_at(first, self.start_offset, now)
            self._write_fetched(fetched, first, last, now)
        except DiskError as error:
            return self.health.fail(str(error))
        return Appended(first, last, -1, False)

    def _write_fetched(self, fetched: FetchedBatches, first: int, last: int, now: Now) -> None:
        for header, _ in fetched.batches:
            self.epochs.assign(header.leader_epoch, header.base_offset)
        segment = self._segment_for(len(fetched.data), first, last, fetched.max_timestamp, now)
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
        aborted = self.producers.note(header, first_offset, data)
        if aborted is not None:
            segment.transaction_index.append(aborted)

    # Rolling

    def _segment_for(
        self, size: int, first: int, last: int, max_timestamp: int, now: Now
    ) -> Segment:
        """The segment an append goes to, a new one if it is time for that."""
        segment = self.segments.active
        if self._must_roll(segment, size, last, max_timestamp, now):
            base = self.end_offset
            return self.roll(now, base if last - base <= RELATIVE_OFFSET_MAX else first)
        if segment.size and segment.first_timestamp >= 0:
            limit = self._config.segment_ms - segment.jitter_ms
            self._roll_after_timestamp = segment.first_timestamp + limit
        return segment

    def _must_roll(
        self, segment: Segment, size: int, last: int, max_timestamp: int, now: Now
    ) -> bool:
        furthest = max(last - segment.base_offset, segment.size + size)
        if furthest > RELATIVE_OFFSET_MAX or segment.index_is_full:  # neither fits into an index
            return True
        if segment.size == 0 or not self.flushes.is_identified:
            return False
        began = segment.first_timestamp
        waited = max_timestamp - began if began >= 0 else now.monotonic_ms - segment.created_ms
        return (
            segment.size + size > self._config.segment_bytes
            or waited > self._config.segment_ms - segment.jitter_ms
        )

    def roll(self, now: Now, base_offset: int | None = None) -> Segment:
        """Begin a new segment at the end of the log."""
        base = self.end_offset if base_offset is None else base_offset
        self.segments.active.finish()
        self._take_snapshot(base)
        segment = self._new_segment(base, now)
        self.segments.add(segment)
        self.tail.restart(base)
        return segment

    def _new_segment(self, base_offset: int, now: Now) -> Segment:
        """An empty segment with its files, not yet part of the log."""
        segment = Segment.create(
            self.place.files, self.directory, base_offset, self._config, self.place.entropy, now
        )
        self.flushes.names_changed()
        self._roll_after_timestamp = UNKNOWN_TIMESTAMP
        return segment

    def _take_snapshot(self, offset: int) -> None:
        if not self.place.files.exists(self.producers.snapshots.path(offset)):
            self.producers.take_snapshot(offset)
            self.flushes.snapshot_taken(offset)
            self.flushes.names_changed()

    # Reading

    def read(
        self, offset: int, max_bytes: int, up_to: int, *, whole_first_batch: bool = True
    ) -> LogSlice | None:
        """Batches from `offset` on and below `up_to`, a batch boundary; None if there are none.

        At most `max_bytes`, the last batch perhaps cut; the first one is whole even if it alone is
        larger, or with `whole_first_batch` off there is no answer then. `offset` lies between the
        start and the end of the log. Raises `CorruptBatch` for an offset that is known to be lost.
        """
        if offset >= up_to:
            return None
        with self.health:
            tail, active = self.tail, self.segments.active
            if offset >= tail.start_offset:
                segment, position = active, tail.position_of(offset, active.size)
            else:
                segment, position = self.segments.locate(offset)
            end = self._end_in(segment, up_to)
            if self.damage:
                end = self._end_before_damage(segment, offset, position, end)
            length = end - position
            if length > max_bytes:
                length = max_bytes
                if max_bytes <= 0 and not whole_first_batch:
                    return None
                first_batch = segment.batch_size_at(position)
                if first_batch > max_bytes:
                    if not whole_first_batch:
                        return None
                    length = first_batch
            return LogSlice(segment.file, position, length) if length > 0 else None

    def _end_in(self, segment: Segment, up_to: int) -> int:
        """Where the batches of a segment that lie below `up_to` end in its file."""
        segments = self.segments
        if segment is segments.active:
            if up_to >= self.end_offset:
                return segment.size
            if up_to >= self.tail.start_offset:
                return self.tail.position_of(up_to, segment.size)
        elif up_to >= segments.end_of(segments.slot_of(segment.base_offset), self.end_offset):
            return segment.size
        return segment.position_of(up_to)

    def _end_before_damage(self, segment: Segment, offset: int, position: int, end: int) -> int:
        for damage in self.damage:
            if not damage.in_place:
                continue
            if damage.first_offset <= offset < damage.next_offset:
                raise CorruptBatch(
                    f"{self.partition}: offsets {damage.first_offset} to {damage.next_offset} are "
                    f"damaged in {segment.path}"
                )
            if damage.base_offset == segment.base_offset and damage.position >= position:
                end = min(end, damage.position)
        return end

    def upper_bound_of(self, fetch_offset: int, length: int) -> int:
        """An offset behind everything in a slice of `length` bytes read at `fetch_offset`."""
        with self.health:
            return self.segments.upper_bound_of(fetch_offset, length, self.end_offset)

    def aborted_transactions(self, fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """The aborted transactions that touch [fetch_offset, upper_bound)."""
        with self.health:
            return self.segments.aborted_transactions(fetch_offset, upper_bound)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction begins that is not decided below the high watermark."""
        offset = self.producers.first_unstable_offset(high_watermark)
        return None if offset is None else max(offset, self.start_offset)

    def offset_for_timestamp(self, timestamp: int, up_to: int) -> TimestampOffset | None:
        """The first record that is not before `timestamp`, if it lies below `up_to`."""
        with self.health:
            found = self.segments.offset_for_timestamp(timestamp, self.start_offset)
        return found if found is not None and found.offset < up_to else None

    def max_timestamp_offset(self, up_to: int) -> TimestampOffset | None:
        """The first record with the largest timestamp, if it lies below `up_to`."""
        with self.health:
            found = self.segments.max_timestamp_offset(self.start_offset)
        return found if found is not None and found.offset < up_to else None

    # Cutting

    def lowering_for_cut(self, offset: int) -> Lowering | None:
        """What must run before `truncate_to` can cut here without waiting for the disk.

        Ask again when it is done: something else may have been written down meanwhile.
        """
        if offset >= self.end_offset or self.health.offline_reason is not None:
            return None
        with self.health:
            return self.place.lowering(self._lower_for_cut(offset))

    def lowering_for_new_start(self, offset: int) -> Lowering | None:
        """The same for `truncate_fully_and_start_at`."""
        if self.health.offline_reason is not None:
            return None
        return self.place.lowering(self._lower_for_all(offset, offset))

    def lowering_for_fetched(self, records: memoryview) -> Lowering | None:
        """The same for `append_as_follower`: an empty log may start inside the first batch."""
        first = int.from_bytes(records[:8], "big")
        if first >= self.end_offset or self.health.offline_reason is not None:
            return None
        return self.place.lowering(self._lower_for_all(first, self.start_offset))

    def _lower_for_cut(self, offset: int) -> Lower:
        if self._cut_leaves_nothing(offset):
            return self._lower_for_all(offset, offset)
        # Not just to `offset`: until the next flush a power cut can undo the cut, and a start must
        # then look at this segment even if another one begins at `offset`.
        segment = self.segments[self.segments.slot_of(offset)]
        return Lower(segment.base_offset, min(self.start_offset, offset))

    def _lower_for_all(self, offset: int, start_offset: int) -> Lower:
        """What has to be lowered for a log that is to begin anew at `offset`."""
        first = self.segments.first.base_offset
        return Lower(min(offset, first), min(self.start_offset, start_offset))

    def _cut_leaves_nothing(self, offset: int) -> bool:
        """Whether a cut is below all segments, or in a batch: there only a start can lie."""
        if offset < self.segments.first.base_offset:
            return True
        segment = self.segments[self.segments.slot_of(offset)]
        return offset <= self.start_offset and _is_within_a_batch(segment, offset)

    def truncate_to(self, offset: int, now: Now) -> bool:
        """Drop everything at or above `offset`, a batch boundary or the start; whether any went.

        An offset at or above the end still takes away epochs in which nothing was written. One
        within a batch, where only a log can be cut that starts there, leaves nothing.
        """
        invariant(offset >= 0, f"{self.partition}: truncated to {offset}")
        with self.health:
            self.health.require()
            if offset >= self.end_offset:
                self.epochs.truncate_from_end(self.end_offset)
                return False
            if self._cut_leaves_nothing(offset):
                self._begin_anew_at(offset, offset, now)
            else:
                self._cut_at(offset, now)
            return True

    def _cut_at(self, offset: int, now: Now) -> None:
        self._lower(self._lower_for_cut(offset))
        slot = self.segments.slot_of(offset)
        segment = self.segments[slot]
        self._set_aside(self.segments.take_after(slot), now)
        damaged = [
            damage.position for damage in self.damage if damage.is_in(segment.base_offset, offset)
        ]
        segment.cut(min([segment.position_of(offset), *damaged]), offset)
        self._ends_at(offset)
        self.epochs.truncate_from_end(offset)
        first = self.segments.first.base_offset
        replayed_from = self.producers.load(first, offset, now.wall_ms)
        self.producers.replay(self.segments, replayed_from, offset)
        self._forget_snapshots()

    def truncate_fully_and_start_at(self, offset: int, now: Now) -> None:
        """Drop everything and go on at `offset`."""
        with self.health:
            self.health.require()
            self._begin_anew_at(offset, offset, now)

    def _begin_anew_at(self, offset: int, start_offset: int, now: Now) -> None:
        """Drop everything; the log goes on at `offset` and shows what is from `start_offset` on."""
        self._lower(self._lower_for_all(offset, start_offset))
        self._set_aside(list(self.segments), now)
        self.epochs.clear()
        self.producers.clear()
        self._forget_snapshots()
        self.segments.replace_all(self._new_segment(offset, now))
        self.flushes.began_anew()
        self._ends_at(offset)
        self.start_offset = start_offset

    def _ends_at(self, offset: int) -> None:
        """The log was cut to `offset`."""
        self.end_offset = offset
        self.tail.restart(offset)
        self.damage = [
            damage._replace(next_offset=min(damage.next_offset, offset))
            for damage in self.damage
            if damage.first_offset < offset
        ]
        self._roll_after_timestamp = UNKNOWN_TIMESTAMP

    def _forget_snapshots(self) -> None:
        """A snapshot that came back would tell of another history once the log is that long."""
        if self.producers.snapshots.may_come_back:
            self.producers.snapshots.may_come_back = False
            self.flushes.set_aside()

    def _lower(self, lower: Lower) -> None:
        self.start_offset = lower.start_offset
        self.first_dirty_offset = min(self.first_dirty_offset, lower.recovery_point)
        self.flushes.lowered_to(lower.recovery_point)
        self.place.lowered()

    def _set_aside(self, segments: Sequence[Segment], now: Now) -> None:
        """Newest first: whatever a crash brings back is the beginning of what there was."""
        due_ms = now.monotonic_ms + self._config.file_delete_delay_ms
        for segment in reversed(segments):
            self.removals.add(segment, due_ms)
        if segments:
            self.flushes.set_aside()

    # Retention

    def raise_start_to(self, offset: int) -> bool:
        """Let the log start at `offset`, not above the high watermark; whether that was news.

        Files follow with retention.
        """
        invariant(offset <= self.end_offset, f"{self.partition} cannot start behind its end")
        with self.health:
            self.health.require()
            if offset <= self.start_offset:
                return False
            self.start_offset = offset
            self.epochs.truncate_from_start(offset)
            return True

    def delete_expired(self, now: Now, high_watermark: int) -> list[RemovedSegment]:
        """Take away the segments that retention no longer keeps; what they were, and why.

        The rules apply one after the other, each to what the one before it left.
        """
        config, segments = self._config, self.segments
        with self.health:
            self.health.require()
            start = below_start(segments, self.start_offset)
            removed = self._delete_while(start, "log start", now, high_watermark)
            if config.cleanup_delete:
                size = over_size(segments, config.retention_bytes)
                removed += self._delete_while(size, "retention.bytes", now, high_watermark)
                age = too_old(self.place.files, config.retention_ms, now.wall_ms)
                removed += self._delete_while(age, "retention.ms", now, high_watermark)
            return removed

    def _delete_while(
        self, expired: Expired, cause: str, now: Now, high_watermark: int
    ) -> list[RemovedSegment]:
        segments = self.segments
        count = count_expired(segments, self.end_offset, high_watermark, expired)
        if count == 0:
            return []
        if count == len(segments):
            self.roll(now)
            self.flushes.began_anew()
        self.raise_start_to(segments[count].base_offset)
        taken = segments.take_first(count)
        due_ms = now.monotonic_ms + self._config.file_delete_delay_ms
        for segment in taken:
            self.removals.add(segment, due_ms)
        self.flushes.names_changed()
        self.producers.snapshots.remove([segment.base_offset for segment in taken])
        return [RemovedSegment(segment.base_offset, segment.size, cause) for segment in taken]

    # Compaction

    def can_swap_in(self, cleaned: Segment, sources: Sequence[Segment], generation: int) -> bool:
        """Whether the log still has, unchanged, the segments that a cleaned one was made from."""
        if self.flushes.generation != generation:
            return False
        slot = self.segments.slot_of(cleaned.base_offset)
        here = [self.segments[at] for at in range(slot, len(self.segments) - 1)]
        return here[: len(sources)] == list(sources)

    def swap_in(self, cleaned: Segment, sources: Sequence[Segment], now: Now) -> None:
        """Let a cleaned segment, which is durable, take the place of those it was made from.

        Its files go from `.cleaned` to `.swap`, the old ones to `.deleted` for the time of
        `file.delete.delay.ms`, the new ones to their final names; names reach the disk in that
        order. Whatever a crash leaves of that, the next start finishes or undoes.
        """
        cleaned.change_ending(CLEANED, SWAP)
        due_ms = now.monotonic_ms + self._config.file_delete_delay_ms
        for source in sources:
            self.removals.add(source, due_ms)
        cleaned.change_ending(SWAP, "")
        self.segments.replace(sources, cleaned)
        self.producers.snapshots.remove([source.base_offset for source in sources[1:]])
        self.flushes.names_changed()

    # Durability

    def needs_flush(self, now: Now) -> bool:
        """Whether a flush is due: after a roll, or by `flush.messages` and `flush.ms`."""
        if self.health.offline_reason is not None:
            return False
        return self.flushes.is_due(self.segments, self.end_offset, self._config, now)

    def owes_flush(self, now: Now) -> bool:
        """Whether `flush.messages` or `flush.ms` want a flush before anything is answered."""
        if self.health.offline_reason is not None:
            return False
        return self.flushes.is_owed(self.end_offset, self._config, now)

    def flush_job(self) -> FlushJob | None:
        """Everything not yet durable, as a job to run elsewhere; then call `flushed`."""
        if self.health.offline_reason is not None:
            return None
        return self.flushes.job(
            self.place.files,
            self.directory,
            self.segments,
            self.producers.snapshots,
            self.epochs,
            self.end_offset,
        )

    def identity_job(self) -> FlushJob | None:
        """What a log begins with as a job, once; a flush sees to it as well."""
        if self.health.offline_reason is not None:
            return None
        return self.flushes.identity_job(self.place.files, self.directory)

    def settling_job(self) -> FlushJob | None:
        """What must run after a cut before a follower appends; None if nothing must."""
        if self.flushes.is_settled or self.health.offline_reason is not None:
            return None
        return self.flushes.settling_job(self.place.files, self.directory)

    def flushed(self, job: FlushJob) -> None:
        """The job has run without failing."""
        self.flushes.done(job)

    def flush_failed(self, _job: FlushJob, reason: str) -> None:
        """The job failed: what it should have made durable never will be."""
        self.flushes.ended()
        self.health.fail(reason)

    def sync(self) -> None:
        """Make everything durable, here and now."""
        job = self.flush_job()
        if job is None:
            return
        try:
            job.run()
        except DiskError as error:
            self.flush_failed(job, str(error))
            raise
        self.flushed(job)

    # The end

    def sweep(self, now: Now) -> int:
        """Remove files set aside long enough ago; not while a job may be at work on them."""
        with self.health:
            self.health.require()
            return 0 if self.flushes.jobs_under_way else self.removals.sweep(now)

    def close(self) -> None:
        """Leave the log so that the next start need not read it; nothing more if it failed."""
        if self.health.offline_reason is None:
            with self.health:
                self.segments.active.finish()
                if self.end_offset > self.segments.first.base_offset:
                    self._take_snapshot(self.end_offset)
                self.sync()
        self.release()

    def release(self) -> None:
        """Give every file back, as it is."""
        for segment in self.segments:
            segment.close()
        self.removals.close()

    def moved_to(self, directory: str) -> None:
        """The directory was renamed: go by the new name from now on."""
        self.place = replace(self.place, directory=directory)
        self.epochs.moved_to(f"{directory}/{EPOCHS_FILE}")
        self.producers.moved_to(directory)
        for segment in self.segments:
            segment.moved_to(directory)
        self.removals.moved_to(directory)


def _is_within_a_batch(segment: Segment, offset: int) -> bool:
    headers = (header for _, header in segment.headers_from(offset))
    reaching = next((header for header in headers if header.last_offset >= offset), None)
    return reaching is not None and reaching.base_offset < offset


def _too_large(size: int, config: LogConfig) -> Refusal:
    return Refusal(
        ErrorCode.record_list_too_large,
        f"a batch of {size} bytes is larger than a segment of {config.segment_bytes}",
    )
