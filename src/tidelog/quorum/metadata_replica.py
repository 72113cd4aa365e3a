"""A node's copy of the metadata log, whatever its part in the quorum: what of it is committed, who
votes by it, writing, catching up with a leader, and snapshots.

Invariant  Users see committed records only, in order, each once.
Invariant  The high watermark never falls, and nothing below it is ever cut: a leader that wants
           that has lost what was committed, and this node stops rather than believe it (C6).
Invariant  A snapshot holds committed records only; what it holds was committed when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from tidelog.model.errors import DiskError, TidelogError, invariant
from tidelog.model.time import Now
from tidelog.quorum.batches import control_batch, in_batches, in_one_batch, record_batch
from tidelog.quorum.control_records import (
    ControlRecord,
    UnreadableControlRecord,
    Voter,
    read_control_record,
)
from tidelog.quorum.messages import LogEnd
from tidelog.quorum.metadata_log import MetadataLog
from tidelog.quorum.snapshots import (
    BOOTSTRAP_ID,
    SnapshotDownload,
    SnapshotId,
    SnapshotJob,
    SnapshotRules,
)
from tidelog.quorum.voters import NOT_IN_LOG, QuorumVoters, VoterSet
from tidelog.records.batch import BatchHeader, CorruptBatch, whole_batches
from tidelog.records.record import records_of
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.log_place import Lowering

T = TypeVar("T")


class LostCommittedMetadata(TidelogError):
    """The quorum's leader does not have what was committed before."""


class RecordCodec(NamedTuple, Generic[T]):
    """How the users' records become bytes and back; reading may raise, which stops the node."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


class CommittedRecord(NamedTuple, Generic[T]):
    """A record that every node will see at this offset."""

    offset: int
    epoch: int
    record: T


class LoadedSnapshot(NamedTuple, Generic[T]):
    """The state that stands in for the log below `end_offset`."""

    end_offset: int
    epoch: int
    records: Iterator[T]


class MetadataReplica(Generic[T]):
    """The log, how far it is committed, and who votes as far as it says."""

    def __init__(
        self,
        *,
        files: FileSystem,
        log: MetadataLog,
        voters: QuorumVoters,
        codec: RecordCodec[T],
        now: Now,
        rules: SnapshotRules,
        static_voters: tuple[Voter, ...],
    ) -> None:
        """`voters` is kept as the log has it."""
        self._files = files
        self.log = log
        self._voters = voters
        self._codec = codec
        self._rules = rules
        self._static_voters = static_voters
        self._downloads = count(1)
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = now.monotonic_ms
        self._load()
        self._high_watermark = self._snapshot_id.offset

    def _load(self) -> None:
        """Read the voters and the newest snapshot; what is in a snapshot was committed."""
        content = self.log.read_newest()
        self._voters.latest = VoterSet(voters=self._static_voters)
        self._snapshot_id = self.log.newest_snapshot or BOOTSTRAP_ID
        self._bytes_since_snapshot = 0
        if content is not None and content.kraft_version > 0:
            first = self._snapshot_id == BOOTSTRAP_ID
            written_at = NOT_IN_LOG if first else self._snapshot_id.offset
            self._voters.latest = VoterSet(content.kraft_version, content.voters, written_at)
        for header, batch in self.log.batches(self._snapshot_id.offset, self.log.end_offset):
            self._note(header, batch)

    def _note(self, header: BatchHeader, batch: memoryview) -> None:
        """A batch stands in the log: it counts for the next snapshot, and may name voters."""
        self._bytes_since_snapshot += header.size
        if header.is_control:
            for record in records_of(batch):
                latest = self._voters.latest
                self._voters.latest = latest.after(read_control_record(record), record.offset)

    @property
    def high_watermark(self) -> int:
        """Exclusive end of what is committed, as far as this node knows."""
        return self._high_watermark

    def commit_up_to(self, offset: int) -> bool:
        """Everything below is committed, as far as it is here; whether that is news."""
        if min(offset, self.log.end_offset) <= self._high_watermark:
            return False
        committed = self.log.boundary(min(offset, self.log.end_offset))
        is_news = committed > self._high_watermark
        self._high_watermark = max(committed, self._high_watermark)
        return is_news

    # Reading

    def latest_snapshot(self) -> LoadedSnapshot[T] | None:
        """The records of the newest snapshot; None when everything stands in the log."""
        content = self.log.read_newest()
        if content is None or self._snapshot_id == BOOTSTRAP_ID:
            return None
        offset, epoch = self._snapshot_id
        return LoadedSnapshot(offset, epoch, map(self._codec.decode, content.values))

    def committed_since(self, offset: int) -> Iterator[CommittedRecord[T]]:
        """The committed records from `offset` on; the quorum's own records are left out."""
        invariant(offset >= self.log.start_offset, "the snapshot comes before the log")
        high_watermark = self.high_watermark
        for header, batch in self.log.batches(offset, high_watermark):
            if header.is_control:
                continue
            for record in records_of(batch):
                if record.value is None:
                    raise DiskError(f"the metadata record at offset {record.offset} has no value")
                if record.offset >= offset:
                    decoded = self._codec.decode(record.value)
                    yield CommittedRecord(record.offset, header.leader_epoch, decoded)

    def committed_batches(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """The committed batches from `offset` on that are still in the log, as they lie there."""
        start = max(offset, self.log.start_offset)
        for header, batch in self.log.batches(start, self.high_watermark):
            yield header.base_offset, bytes(batch)

    # Writing as the leader

    def append(self, records: Iterable[T], epoch: int, now: Now, *, atomic: bool) -> None:
        """Write records; atomic ones go into one batch or, if they do not fit, nowhere."""
        values = [self._codec.encode(record) for record in records]
        for run in (in_one_batch(values),) if atomic and values else in_batches(values):
            self._append_batch(record_batch(run, now.wall_ms), epoch, now)

    def append_control(self, records: list[ControlRecord], epoch: int, now: Now) -> None:
        """Write records of the quorum itself; voters in them are in force at once."""
        offset = self.log.end_offset
        self._append_batch(control_batch(records, now.wall_ms), epoch, now)
        for position, record in enumerate(records):
            self._voters.latest = self._voters.latest.after(record, offset + position)

    def _append_batch(self, batch: bytearray, epoch: int, now: Now) -> None:
        self.log.append(batch, epoch, now)
        self._bytes_since_snapshot += len(batch)

    # Catching up with a leader

    def append_fetched(self, records: memoryview, epoch: int, now: Now) -> bool:
        """Write what the leader of `epoch` gave; False, and nothing is written, when that cannot
        be used."""
        before = self.log.end_offset
        try:
            _require_readable(records, before)
            self.log.append_fetched(records, epoch, now)
        except (CorruptBatch, UnreadableControlRecord):
            return False
        for header, batch in whole_batches(records):
            if before <= header.base_offset < self.log.end_offset:
                self._note(header, batch)
        return True

    def divergence(self, epoch: int, end: int) -> int | None:
        """Where to cut what the leader, where `epoch` ends at `end`, does not have, as far as that
        tells; None when it cannot be that this log goes on differently."""
        own_epoch, own_end = self.log.end_of_epoch(epoch)
        to = min(own_end, end) if own_epoch == epoch else own_end
        if to < 0 or to >= self.log.end_offset:
            return None
        if to < self._high_watermark:
            raise LostCommittedMetadata(
                f"the leader ends epoch {epoch} at offset {end}, but everything below "
                f"{self._high_watermark} was committed: the quorum has lost its log"
            )
        return to if self.log.boundary(to) == to else None

    def truncate(self, to: int, now: Now) -> Lowering | None:
        """Give up what lies from there on; or say what must be run before."""
        lowering = self.log.lowering_for_cut(to)
        if lowering is None:
            self.log.truncate_to(to, now)
            self._load()
        return lowering

    def can_begin_with(self, snapshot: SnapshotId, epoch: int) -> bool:
        """Whether the leader of `epoch` can have a snapshot that this log is to begin with: one
        that reaches further, and holds all that was committed here."""
        reaches_further = LogEnd(snapshot.epoch, snapshot.offset) > self.log.log_end
        return (
            reaches_further
            and snapshot.epoch <= epoch
            and snapshot.offset >= max(self._high_watermark, 1)
        )

    def download(self, snapshot: SnapshotId) -> SnapshotDownload:
        """Begin to fetch a snapshot that the leader named."""
        path, number = self.log.path_of(snapshot), next(self._downloads)
        return SnapshotDownload(self._files, path, snapshot, number)

    def install(self, snapshot: SnapshotId, now: Now) -> None:
        """A fetched snapshot is whole and in place: go on behind it."""
        self.log.install(snapshot, now)
        self._load()
        self._high_watermark = max(self._high_watermark, snapshot.offset)

    # Snapshots

    def snapshot_due(self, now: Now) -> bool:
        """Whether enough was committed, or enough time went by, since the newest snapshot."""
        if self.high_watermark <= self._snapshot_id.offset:
            return False
        if self._voters.latest.written_at >= self.high_watermark:
            return False  # it would hold voters that are not committed
        waited_ms = now.monotonic_ms - self._last_snapshot_ms
        return self._bytes_since_snapshot >= self._rules.bytes_between or (
            0 < self._rules.interval_ms <= waited_ms
        )

    def snapshot_job(self, records: Iterable[T], end_offset: int, now: Now) -> SnapshotJob[T]:
        """The job that writes `records`, the state at the committed `end_offset`, as snapshot."""
        invariant(end_offset <= self.high_watermark, "a snapshot holds committed records only")
        snapshot = SnapshotId(end_offset, self.log.epoch_at(end_offset - 1))
        return SnapshotJob(
            files=self._files,
            path=self.log.path_of(snapshot),
            id=snapshot,
            records=records,
            encode=self._codec.encode,
            kraft_version=self._voters.latest.kraft_version,
            voters=self._voters.latest.voters,
            last_contained_timestamp=self.log.timestamp_before(end_offset),
            timestamp=now.wall_ms,
            covered_bytes=self._bytes_since_snapshot,
        )

    def snapshot_written(self, job: SnapshotJob[T], now: Now) -> None:
        """The job has run: old snapshots, and the log they cover, may go."""
        self.log.snapshot_stored(job.id)
        self._snapshot_id = job.id
        self._bytes_since_snapshot -= job.covered_bytes
        self._last_snapshot_ms = now.monotonic_ms
        self.log.clean(
            now,
            retention_bytes=self._rules.retention_bytes,
            retention_ms=self._rules.retention_ms,
        )


def _require_readable(records: memoryview, end: int) -> None:
    """Fetched batches leave no hole behind `end`, and what they say of the quorum is understood."""
    for header, batch in whole_batches(records):
        if header.base_offset > end:
            raise CorruptBatch(f"a hole in the metadata log, from {end} to {header.base_offset}")
        end = header.next_offset
        if header.is_control:
            for record in records_of(batch):
                read_control_record(record)
