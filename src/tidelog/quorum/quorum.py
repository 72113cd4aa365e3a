"""The quorum: the one log of metadata records that all nodes agree on.

A node starts it, replays the newest snapshot, and from then on replays what is committed:

    quorum = Quorum(...)
    loaded = quorum.latest_snapshot()          # records and the offset they reach
    quorum.start(now)                          # sole voter: leads a new epoch
    end = quorum.append(records, now)          # leader only
    job = quorum.sync_job()                    # run() it, in a thread if need be
    quorum.synced(job)                         # True: the high watermark moved
    quorum.committed_since(applied)            # the records to replay

This node is the only voter: it elects itself at once and commits what its own disk holds. The
rules of epochs, voters and commitment are those of a larger quorum.

Invariant  The epoch is durable in `quorum-state` before a record of it is written.
Invariant  Nothing is committed before it is durable; a failed sync stops the node, since the
           kernel may have dropped the very pages that were to be made durable.
Invariant  Users see committed records only, in order, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, NoReturn, TypeVar
from uuid import UUID

from tidelog.model.errors import ConfigError, DiskError, InvariantBroken, invariant
from tidelog.model.time import Now
from tidelog.quorum.batches import control_batch, in_batches, in_one_batch, record_batch
from tidelog.quorum.control_records import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    LeaderVoter,
    Voter,
    VoterEndpoint,
    Voters,
    read_control_record,
)
from tidelog.quorum.description import QuorumDescription, QuorumNode, ReplicaProgress
from tidelog.quorum.election_state import (
    ElectionState,
    read_election_state,
    write_election_state,
)
from tidelog.quorum.leader import Leader
from tidelog.quorum.metadata_log import MetadataLog
from tidelog.quorum.snapshot_file import BOOTSTRAP_ID, SnapshotId
from tidelog.quorum.snapshots import KAFKA_RULES, SnapshotJob, SnapshotRules
from tidelog.quorum.voter_set import NOT_IN_LOG, VoterSet
from tidelog.records.record import records_of
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.flush import FlushJob
from tidelog.storage.partition_log import PartitionLog

T = TypeVar("T")


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


class Quorum(Generic[T]):
    """This node's part in the quorum."""

    def __init__(
        self,
        *,
        files: FileSystem,
        log: PartitionLog,
        node_id: int,
        directory_id: UUID,
        endpoints: tuple[VoterEndpoint, ...],
        codec: RecordCodec[T],
        now: Now,
        rules: SnapshotRules = KAFKA_RULES,
        static_voters: tuple[Voter, ...] = (),
    ) -> None:
        self._files = files
        self._log = MetadataLog(files, log, now)
        self._node_id = node_id
        self._directory_id = directory_id
        self._endpoints = endpoints
        self._codec = codec
        self._rules = rules
        self._voters = VoterSet(voters=static_voters)
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = now.monotonic_ms
        self._leader: Leader | None = None
        self._syncing: FlushJob | None = None
        self._load()

    def _load(self) -> None:
        """Read the voters and the newest snapshot; what is in a snapshot was committed."""
        content = self._log.read_newest()
        self._snapshot_id = self._log.newest_snapshot or BOOTSTRAP_ID
        if content is not None and content.kraft_version > 0:
            first = self._snapshot_id == BOOTSTRAP_ID
            written_at = NOT_IN_LOG if first else self._snapshot_id.offset
            self._voters = VoterSet(content.kraft_version, content.voters, written_at)
        for header, batch in self._log.batches(self._snapshot_id.offset, self._log.end_offset):
            self._bytes_since_snapshot += header.size
            if header.is_control:
                for record in records_of(batch):
                    self._voters = self._voters.after(read_control_record(record), record.offset)

    def start(self, now: Now) -> None:
        """Become leader of a new epoch; nothing is committed before its first sync."""
        me = self._own_voter()
        promised = read_election_state(self._files, self._log.directory)
        epoch = 1 + max(promised.epoch, self._log.latest_epoch, self._snapshot_id.epoch)
        write_election_state(
            self._files,
            self._log.directory,
            ElectionState(epoch=epoch, leader_id=self._node_id),
            kraft_version=self._voters.kraft_version,
            voter_ids=self._voters.voter_ids,
        )
        self._leader = Leader(
            epoch=epoch,
            epoch_start_offset=self._log.end_offset,
            voter_ids=self._voters.voter_ids,
            high_watermark=self._snapshot_id.offset,
        )
        voters = tuple(LeaderVoter(voter_id=voter_id) for voter_id in self._voters.voter_ids)
        opening: list[ControlRecord] = [
            LeaderChange(leader_id=self._node_id, voters=voters, granting_voters=voters)
        ]
        if self._voters.kraft_version > 0 and (
            self._voters.written_at == NOT_IN_LOG or me.endpoints != self._endpoints
        ):
            described = self._voters.with_voter(
                Voter(
                    voter_id=self._node_id,
                    voter_directory_id=self._directory_id,
                    endpoints=self._endpoints,
                )
            )
            opening += [
                KRaftVersion(kraft_version=described.kraft_version),
                Voters(voters=described.voters),
            ]
        self._append_control(opening, now)

    def _own_voter(self) -> Voter:
        """This node among the voters, of which it must be the only one."""
        me = self._voters.find(self._node_id, self._directory_id)
        if me is None:
            raise ConfigError(
                f"node {self._node_id} with metadata directory {self._directory_id} is not among "
                f"the voters {list(self._voters.voter_ids)} of {self._log.directory}: start the "
                f"node that formatted this directory, or format an empty directory for this one"
            )
        if len(self._voters.voters) != 1:
            raise ConfigError(
                f"the quorum of {self._log.directory} has the voters "
                f"{list(self._voters.voter_ids)}; only a quorum of one is supported"
            )
        return me

    # What it is

    @property
    def leader_id(self) -> int:
        """Who leads the quorum; -1 before the start."""
        return -1 if self._leader is None else self._node_id

    @property
    def epoch(self) -> int:
        """The epoch of the leader, which is the controller's epoch."""
        return self._leading().epoch

    @property
    def is_active(self) -> bool:
        """Whether the controller may act: it leads, and its epoch's first record is committed."""
        return self._leader is not None and self._leader.has_committed

    @property
    def high_watermark(self) -> int:
        """Exclusive end of what is committed."""
        return self._snapshot_id.offset if self._leader is None else self._leader.high_watermark

    @property
    def end_offset(self) -> int:
        """Where the next record will stand."""
        return self._log.end_offset

    def describe(self, now: Now) -> QuorumDescription:
        """The quorum for DescribeQuorum; the leader is always up to date with itself."""
        leader = self._leading()
        return QuorumDescription(
            leader_id=self._node_id,
            leader_epoch=leader.epoch,
            high_watermark=leader.high_watermark,
            voters=tuple(
                ReplicaProgress(
                    replica_id=voter.voter_id,
                    directory_id=voter.voter_directory_id,
                    log_end_offset=self._end_offset_of(voter.voter_id),
                    last_fetch_ms=now.wall_ms,
                    last_caught_up_ms=now.wall_ms,
                )
                for voter in self._voters.voters
            ),
            observers=(),
            nodes=tuple(
                QuorumNode(node_id=voter.voter_id, endpoints=voter.endpoints)
                for voter in self._voters.voters
            ),
        )

    def _end_offset_of(self, voter_id: int) -> int:
        if voter_id == self._node_id:
            return self._log.end_offset
        return self._leading().end_offset_of(voter_id)

    def _leading(self) -> Leader:
        if self._leader is None:
            raise InvariantBroken("only the leader of the quorum is asked for this")
        return self._leader

    # Writing

    def append(self, records: Iterable[T], now: Now, *, atomic: bool = True) -> int:
        """Write records at the end of the log; the new end, which is committed once below the
        high watermark. Atomic ones go into one batch or, if they do not fit, nowhere."""
        leader = self._leading()
        values = [self._codec.encode(record) for record in records]
        for run in (in_one_batch(values),) if atomic and values else in_batches(values):
            self._append(record_batch(run, now.wall_ms), leader.epoch, now)
        return self._log.end_offset

    def _append_control(self, records: list[ControlRecord], now: Now) -> None:
        offset = self._log.end_offset
        self._append(control_batch(records, now.wall_ms), self._leading().epoch, now)
        for position, record in enumerate(records):
            self._voters = self._voters.after(record, offset + position)

    def _append(self, batch: bytearray, epoch: int, now: Now) -> None:
        self._log.append(batch, epoch, now)
        self._bytes_since_snapshot += len(batch)

    def sync_job(self) -> FlushJob | None:
        """What must be run before more can be committed; None while one is under way."""
        if self._syncing is None:
            self._syncing = self._log.flush_job()
            return self._syncing
        return None

    def synced(self, job: FlushJob) -> bool:
        """The job has run: whether the high watermark moved. Ask for the next job."""
        invariant(job is self._syncing, "one sync of the metadata log is under way at a time")
        self._syncing = None
        self._log.flushed(job)
        return self._leading().note_durable(self._node_id, self._log.durable_end)

    def sync_failed(self, job: FlushJob, why: str) -> NoReturn:
        """The job failed: what it was to make durable may be gone, so the node must stop."""
        self._log.flush_failed(job, why)
        raise DiskError(f"the metadata log below offset {job.up_to} could not be synced: {why}")

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

    # Snapshots

    def snapshot_due(self, now: Now) -> bool:
        """Whether enough was committed, or enough time went by, since the newest snapshot."""
        if self.high_watermark <= self._snapshot_id.offset:
            return False
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
