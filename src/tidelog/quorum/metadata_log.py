"""The metadata log on disk: batches and snapshots in `__cluster_metadata-0`.

Invariant  A log that does not start at 0 has a snapshot that reaches its start (C9).
Invariant  Once there is a snapshot there always is one: the newest never goes.
Invariant  A voter does not start when records it once made durable are gone: they may be
           committed. Any other node goes on from what it has, and fetches the rest again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidelog.model.errors import DiskError, InvariantBroken, Refusal
from tidelog.model.time import Now
from tidelog.quorum.messages import LogEnd
from tidelog.quorum.snapshots import (
    DELETED_SUFFIX,
    PART_SUFFIX,
    SnapshotContent,
    SnapshotId,
    read_snapshot,
    snapshot_timestamp,
)
from tidelog.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    crc_matches,
    read_header,
    whole_batches,
)
from tidelog.records.validation import AcceptedBatch
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.flush import FlushJob
from tidelog.storage.leader_epoch_cache import EpochStart
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_place import Lowering
from tidelog.storage.log_values import LogSlice
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer import Origin

_READ_BYTES: Final = 1 << 20


def metadata_log_config(segment_bytes: int = 1 << 30, segment_ms: int = 604_800_000) -> LogConfig:
    """The settings of the metadata log: only snapshots decide what may go."""
    return LogConfig(
        segment_bytes=segment_bytes,
        segment_ms=segment_ms,
        retention_ms=-1,
        retention_bytes=-1,
        cleanup_delete=False,
    )


class StoredSnapshot(NamedTuple):
    """A snapshot in the directory."""

    id: SnapshotId
    size: int
    last_contained_timestamp: int


class MetadataLog:
    """The log and its snapshots, which only make sense together."""

    def __init__(
        self, files: FileSystem, log: PartitionLog, now: Now, *, may_refetch: bool
    ) -> None:
        """`may_refetch`: nobody counts on what this node has, so that it may begin anew where its
        log is damaged."""
        self._files = files
        self._log = log
        self._may_refetch = may_refetch
        self._snapshots: list[StoredSnapshot] = []
        for name in files.list(log.directory):
            if name.endswith((PART_SUFFIX, DELETED_SUFFIX)):
                files.remove(f"{log.directory}/{name}")
            elif (found := SnapshotId.from_file_name(name)) is not None:
                self.snapshot_stored(found)
        self._join_snapshot(now)

    def _join_snapshot(self, now: Now) -> None:
        """A log that a newer snapshot has overtaken continues behind the snapshot."""
        newest = self.newest_snapshot
        log = self._log
        if newest is not None and (
            newest.epoch > self.latest_epoch
            or (newest.epoch == self.latest_epoch and newest.offset > log.end_offset)
        ):
            log.truncate_fully_and_start_at(newest.offset, now)
        if log.start_offset > 0:
            self._start_at_a_snapshot()
        self._require_whole(now)

    def _require_whole(self, now: Now) -> None:
        """Do not go on as if records were there that were durable, hence perhaps committed (C6)."""
        newest = self.newest_snapshot
        for damage in self._log.damage:
            if newest is None or damage.next_offset > newest.offset:
                if self._may_refetch:
                    self._log.truncate_to(damage.first_offset, now)
                    return
                raise DiskError(
                    f"{self.directory} has lost the records from offset {damage.first_offset} to "
                    f"{damage.next_offset}, which were on disk once: restore them from a backup"
                )

    def _start_at_a_snapshot(self) -> None:
        """Raise the start to the oldest snapshot that reaches it; older ones are of no use."""
        start = self._log.start_offset
        useful = [snapshot for snapshot in self._snapshots if snapshot.id.offset >= start]
        if not useful:
            raise DiskError(
                f"{self.directory} starts at offset {start} and no snapshot reaches that far: "
                f"restore one from a backup, or format the directory anew"
            )
        for snapshot in self._snapshots[: -len(useful)]:
            self._files.remove(self.path_of(snapshot.id))
        self._snapshots = useful
        self._log.raise_start_to(useful[0].id.offset)

    @property
    def directory(self) -> str:
        return self._log.directory

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def durable_end(self) -> int:
        """Exclusive end of what a loss of power cannot take from this node."""
        return self._log.recovery_point

    @property
    def latest_epoch(self) -> int:
        """Of the last record, in the log or in the snapshot it continues; 0 before the first."""
        newest = self.newest_snapshot
        return self._log.epochs.latest_epoch or (0 if newest is None else newest.epoch)

    @property
    def log_end(self) -> LogEnd:
        """Where it ends, which decides whom its replica may vote for."""
        return LogEnd(self.latest_epoch, self._log.end_offset)

    @property
    def epochs(self) -> Sequence[EpochStart]:
        """Where each epoch begins that has records in the log; another sequence after each
        change."""
        return self._log.epochs.entries

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written."""
        epoch = self._log.epochs.epoch_for_offset(offset)
        if epoch is None:
            raise InvariantBroken(f"offset {offset} lies below the epochs of the metadata log")
        return epoch

    def append(self, batch: bytearray, epoch: int, now: Now) -> int:
        """Write a batch at the end; the new end. A log that cannot be written stops the node."""
        accepted = AcceptedBatch(read_header(batch), memoryview(batch))
        appended = self._log.append_as_leader(accepted, epoch, now, origin=Origin.RAFT)
        if isinstance(appended, Refusal):
            raise DiskError(f"the metadata log cannot be written: {appended.why}")
        return appended.last_offset + 1

    def batches(self, start: int, up_to: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches with records in [start, up_to), in order."""
        offset = start
        while offset < up_to:
            chunk = self._log.read(offset, _READ_BYTES, up_to)
            if chunk is None:
                raise InvariantBroken(f"the metadata log has nothing at offset {offset}")
            for header, batch in whole_batches(chunk.read()):
                if not crc_matches(batch):
                    raise DiskError(
                        f"{self._log.directory} is damaged: the checksum of the batch at offset "
                        f"{header.base_offset} does not fit, so its records cannot be trusted"
                    )
                yield header, batch
                offset = header.next_offset

    def read(self, offset: int, max_bytes: int) -> LogSlice | None:
        """Batches from `offset` on, the last perhaps cut; None at the end."""
        return self._log.read(offset, max_bytes, self._log.end_offset)

    def append_fetched(self, data: memoryview, epoch: int, now: Now) -> None:
        """Write batches as the leader of `epoch` gave them; CorruptBatch when they do not fit."""
        appended = self._log.append_as_follower(data, now, fetch_epoch=epoch)
        if isinstance(appended, Refusal):
            raise DiskError(f"the metadata log cannot be written: {appended.why}")

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch here that is not above `epoch`, and where it ends."""
        found, end = self._log.epochs.end_offset_for(epoch, self._log.end_offset)
        if found < 0:
            return self.latest_epoch, self._log.end_offset
        oldest = self.oldest_snapshot
        if oldest is not None and end == oldest.offset and found == epoch:
            # Below the epochs of the log; what the oldest snapshot ends with is known.
            return oldest.epoch, oldest.offset
        return found, end

    def boundary(self, offset: int) -> int:
        """Where the batch begins that holds `offset`, if it is within the log: batches are written,
        committed and given up as a whole."""
        if not self.start_offset < offset < self.end_offset:
            return offset
        found = self.read(offset, HEADER_SIZE)
        return offset if found is None else read_header(found.read()).base_offset

    def lowering_for_cut(self, offset: int) -> Lowering | None:
        """What must run before `truncate_to`, lest that waits for the disk."""
        return self._log.lowering_for_cut(offset)

    def lowering_for_snapshot(self, snapshot: SnapshotId) -> Lowering | None:
        """What must run before `install`, lest that waits for the disk."""
        return self._log.lowering_for_new_start(snapshot.offset)

    def truncate_to(self, offset: int, now: Now) -> None:
        """Give up what the leader does not have."""
        self._log.truncate_to(offset, now)

    def timestamp_before(self, offset: int) -> int:
        """The time of the last record below `offset`."""
        timestamp = 0
        for header, _ in self.batches(offset - 1, offset):
            timestamp = header.max_timestamp
        return timestamp

    def flush_job(self) -> FlushJob | None:
        return self._log.flush_job()

    def flushed(self, job: FlushJob) -> None:
        self._log.flushed(job)

    def flush_failed(self, job: FlushJob, why: str) -> None:
        self._log.flush_failed(job, why)

    # Snapshots

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        return self._snapshots[-1].id if self._snapshots else None

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        return self._snapshots[0].id if self._snapshots else None

    def read_newest(self) -> SnapshotContent | None:
        newest = self.newest_snapshot
        return None if newest is None else read_snapshot(self._files, self.path_of(newest))

    def has_snapshot(self, snapshot: SnapshotId) -> bool:
        return any(stored.id == snapshot for stored in self._snapshots)

    def snapshot_size(self, snapshot: SnapshotId) -> int:
        return self._files.size(self.path_of(snapshot))

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Some bytes of a snapshot, as they lie on disk."""
        file = self._files.open(self.path_of(snapshot))
        try:
            return file.read(position, max_bytes)
        finally:
            file.close()

    def install(self, snapshot: SnapshotId, now: Now) -> None:
        """A snapshot came from the leader: the log goes on behind it."""
        self.snapshot_stored(snapshot)
        self._join_snapshot(now)

    def path_of(self, snapshot: SnapshotId) -> str:
        return f"{self.directory}/{snapshot.file_name}"

    def snapshot_stored(self, snapshot: SnapshotId) -> None:
        """A snapshot of that id is whole and in place."""
        path = self.path_of(snapshot)
        stored = StoredSnapshot(
            snapshot, self._files.size(path), snapshot_timestamp(self._files, path)
        )
        self._snapshots = sorted({*self._snapshots, stored})

    def clean(self, now: Now, *, retention_bytes: int, retention_ms: int) -> None:
        """Remove old snapshots, never the newest, and the log below the oldest that stays."""
        while len(self._snapshots) > 1:
            oldest = self._snapshots[0]
            held = self._log.size_bytes + sum(snapshot.size for snapshot in self._snapshots)
            aged = now.wall_ms - oldest.last_contained_timestamp > retention_ms >= 0
            if not aged and not held > retention_bytes >= 0:
                return
            self._log.raise_start_to(self._snapshots[1].id.offset)
            self._log.delete_expired(now, self._snapshots[1].id.offset)
            self._files.remove(self.path_of(oldest.id))
            del self._snapshots[0]
