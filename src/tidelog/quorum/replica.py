"""A node's copy of the metadata log, whatever its part in the quorum: reading, catching up with a
leader, and snapshots.

Invariant  Users see committed records only, in order, each once.
Invariant  The high watermark never falls, and nothing below it is ever cut: a leader that wants
           that has lost what was committed, and this node stops rather than believe it (C6).
Invariant  A snapshot holds committed records only; what it holds was committed when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from tidelog.model.errors import DiskError, TidelogError, invariant
from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter, read_control_record
from tidelog.quorum.metadata_log import MetadataLog
from tidelog.quorum.snapshot_file import BOOTSTRAP_ID, SnapshotId
from tidelog.quorum.snapshot_transfer import SnapshotDownload
from tidelog.quorum.snapshots import KAFKA_RULES, SnapshotJob, SnapshotRules
from tidelog.quorum.voter_set import NOT_IN_LOG, VoterSet
from tidelog.records.batch import BatchHeader, CorruptBatch, whole_batches
from tidelog.records.record import records_of
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.leader_epoch_cache import EpochStart
from tidelog.storage.log_place import Lowering
from tidelog.storage.partition_log import PartitionLog

T = TypeVar("T")


class LostCommittedMetadata(TidelogError):
    """The quorum's leader does not have what was committed before."""


class RecordCodec(NamedTuple, Generic[T]):
    """How the users' records become bytes and back; reading may raise, which stops the node."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


class Committed(NamedTuple, Generic[T]):
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
    """The log, its snapshots, and who votes as far as they say."""

    def __init__(
        self,
        *,
        files: FileSystem,
        log: PartitionLog,
        codec: RecordCodec[T],
        now: Now,
        rules: SnapshotRules = KAFKA_RULES,
        static_voters: tuple[Voter, ...] = (),
        may_refetch: bool = False,
    ) -> None:
        """`may_refetch`: nobody counts on what this node has, so that it may begin anew where its
        log is damaged."""
        self._files = files
        self._log = MetadataLog(files, log, now, may_refetch=may_refetch)
        self._codec = codec
        self._rules = rules
        self._static_voters = static_voters
        self._downloads = count(1)
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = now.monotonic_ms
        self._load()
        self._mark = self._snapshot_id.offset

    def _load(self) -> None:
        """Read the voters and the newest snapshot; what is in a snapshot was committed."""
        content = self._log.read_newest()
        self._voters = VoterSet(voters=self._static_voters)
        self._snapshot_id = self._log.newest_snapshot or BOOTSTRAP_ID
        self._bytes_since_snapshot = 0
        if content is not None and content.kraft_version > 0:
            first = self._snapshot_id == BOOTSTRAP_ID
            written_at = NOT_IN_LOG if first else self._snapshot_id.offset
            self._voters = VoterSet(content.kraft_version, content.voters, written_at)
        for header, batch in self._log.batches(self._snapshot_id.offset, self._log.end_offset):
            self._note(header, batch)

    def _note(self, header: BatchHeader, batch: memoryview) -> None:
        """A batch stands in the log: it counts for the next snapshot, and may name voters."""
        self._bytes_since_snapshot += header.size
        if header.is_control:
            for record in records_of(batch):
                self._voters = self._voters.after(read_control_record(record), record.offset)

    @property
    def high_watermark(self) -> int:
        """Exclusive end of what is committed, as far as this node knows."""
        return self._mark

    def _committed_up_to(self, offset: int) -> bool:
        """Everything below is committed, as far as it is here; whether that is news."""
        mark = min(offset, self._log.end_offset)
        if mark <= self._mark:
            return False
        self._mark = mark
        return True

    @property
    def start_offset(self) -> int:
        """Where the log begins; what came before stands in a snapshot."""
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        """Where the next record will stand."""
        return self._log.end_offset

    @property
    def durable_end(self) -> int:
        """Exclusive end of what a loss of power cannot take from this node."""
        return self._log.durable_end

    @property
    def epochs(self) -> Sequence[EpochStart]:
        """Where each epoch of the log begins; another sequence after each change."""
        return self._log.epochs

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        """The snapshot that the log continues, if it does not begin with the first record."""
        return self._log.oldest_snapshot

    # Reading

    def latest_snapshot(self) -> LoadedSnapshot[T] | None:
        """The records of the newest snapshot; None when everything stands in the log."""
        content = self._log.read_newest()
        if content is None or self._snapshot_id == BOOTSTRAP_ID:
            return None
        offset, epoch = self._snapshot_id
        return LoadedSnapshot(offset, epoch, map(self._codec.decode, content.values))

    def committed_since(self, offset: int) -> Iterator[Committed[T]]:
        """The committed records from `offset` on; the quorum's own records are left out."""
        invariant(offset >= self._log.start_offset, "the snapshot comes before the log")
        high_watermark = self.high_watermark
        for header, batch in self._log.batches(offset, high_watermark):
            if header.is_control:
                continue
            for record in records_of(batch):
                if record.value is None:
                    raise DiskError(f"the metadata record at offset {record.offset} has no value")
                if record.offset >= offset:
                    decoded = self._codec.decode(record.value)
                    yield Committed(record.offset, header.leader_epoch, decoded)

    def committed_batches(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """The committed batches from `offset` on that are still in the log, as they lie there."""
        start = max(offset, self._log.start_offset)
        for header, batch in self._log.batches(start, self.high_watermark):
            yield header.base_offset, bytes(batch)

    # Catching up with a leader

    def _append_fetched(self, records: memoryview, epoch: int, now: Now) -> bool:
        """Write what the leader of `epoch` gave; False when that cannot be used."""
        before = self._log.end_offset
        try:
            self._log.append_fetched(records, epoch, now)
        except CorruptBatch:
            return False
        for header, batch in whole_batches(records):
            if before <= header.base_offset < self._log.end_offset:
                self._note(header, batch)
        return True

    def _truncate(self, epoch: int, end: int, now: Now) -> Lowering | None:
        """Cut what the leader, where `epoch` ends at `end`, does not have, as far as that tells;
        or say what must be run before."""
        own_epoch, own_end = self._log.end_of_epoch(epoch)
        to = min(own_end, end) if own_epoch == epoch else own_end
        if to < self._mark:
            raise LostCommittedMetadata(
                f"the leader ends epoch {epoch} at offset {end}, but everything below "
                f"{self._mark} was committed: the quorum has lost its log"
            )
        lowering = self._log.lowering_for_cut(to)
        if lowering is None:
            self._log.truncate_to(to, now)
            self._load()
        return lowering

    def download(self, snapshot: SnapshotId) -> SnapshotDownload:
        """Begin to fetch a snapshot that the leader named."""
        path, number = self._log.path_of(snapshot), next(self._downloads)
        return SnapshotDownload(self._files, path, snapshot, number)

    def install(self, snapshot: SnapshotId, now: Now) -> None:
        """A fetched snapshot is whole and in place: go on behind it."""
        self._log.install(snapshot, now)
        self._load()
        self._mark = max(self._mark, snapshot.offset)

    # Snapshots

    def snapshot_due(self, now: Now) -> bool:
        """Whether enough was committed, or enough time went by, since the newest snapshot."""
        if self.high_watermark <= self._snapshot_id.offset:
            return False
        if self._voters.written_at >= self.high_watermark:
            return False  # it would hold voters that are not committed
        waited_ms = now.monotonic_ms - self._last_snapshot_ms
        return self._bytes_since_snapshot >= self._rules.bytes_between or (
            0 < self._rules.interval_ms <= waited_ms
        )

    def snapshot_job(self, records: Iterable[T], end_offset: int, now: Now) -> SnapshotJob[T]:
        """The job that writes `records`, the state at the committed `end_offset`, as snapshot."""
        invariant(end_offset <= self.high_watermark, "a snapshot holds committed records only")
        snapshot = SnapshotId(end_offset, self._log.epoch_at(end_offset - 1))
        return SnapshotJob(
            files=self._files,
            path=self._log.path_of(snapshot),
            id=snapshot,
            records=records,
            encode=self._codec.encode,
            voters=self._voters,
            last_contained_timestamp=self._log.timestamp_before(end_offset),
            timestamp=now.wall_ms,
            covered_bytes=self._bytes_since_snapshot,
        )

    def snapshot_written(self, job: SnapshotJob[T], now: Now) -> None:
        """The job has run: old snapshots, and the log they cover, may go."""
        self._log.snapshot_stored(job.id)
        self._snapshot_id = job.id
        self._bytes_since_snapshot -= job.covered_bytes
        self._last_snapshot_ms = now.monotonic_ms
        self._log.clean(
            now,
            retention_bytes=self._rules.retention_bytes,
            retention_ms=self._rules.retention_ms,
        )
