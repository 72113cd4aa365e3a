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
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn, TypeVar
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
)
from tidelog.quorum.description import QuorumDescription, QuorumNode, ReplicaProgress
from tidelog.quorum.election_state import (
    ElectionState,
    read_election_state,
    write_election_state,
)
from tidelog.quorum.leader import Leader
from tidelog.quorum.observers import Observers
from tidelog.quorum.replica import MetadataReplica, RecordCodec
from tidelog.quorum.serving import MetadataFetch, MetadataFetched, read_for
from tidelog.quorum.snapshot_file import SnapshotId
from tidelog.quorum.snapshot_transfer import SnapshotPiece, snapshot_piece
from tidelog.quorum.snapshots import KAFKA_RULES, SnapshotRules
from tidelog.quorum.voter_set import NOT_IN_LOG
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.flush import FlushJob
from tidelog.storage.log_values import LogSlice
from tidelog.storage.partition_log import PartitionLog

T = TypeVar("T")


class Quorum(MetadataReplica[T]):
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
        super().__init__(
            files=files, log=log, codec=codec, now=now, rules=rules, static_voters=static_voters
        )
        self._node_id = node_id
        self._directory_id = directory_id
        self._endpoints = endpoints
        self._leader: Leader | None = None
        self._observers = Observers()
        self._syncing: FlushJob | None = None

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
            observers=self._observers.progress(now),
            nodes=self.nodes,
        )

    @property
    def nodes(self) -> tuple[QuorumNode, ...]:
        """Where the voters listen."""
        return tuple(
            QuorumNode(node_id=voter.voter_id, endpoints=voter.endpoints)
            for voter in self._voters.voters
        )

    def _end_offset_of(self, voter_id: int) -> int:
        if voter_id == self._node_id:
            return self._log.end_offset
        return self._leading().end_offset_of(voter_id)

    def fetch(self, asked: MetadataFetch, now: Now) -> MetadataFetched[LogSlice]:
        """What another node of the cluster gets of the log, from where it is on."""
        answer = read_for(asked, self._log, self._leader, self._node_id)
        if answer.is_fine and asked.replica_id not in self._voters.voter_ids:
            self._observers.fetched(asked, self._log.end_offset, now)
        return answer

    def snapshot_piece(
        self, snapshot: SnapshotId, leader_epoch: int, position: int, max_bytes: int
    ) -> SnapshotPiece:
        """Some bytes of a snapshot, for a node that begins with it."""
        return snapshot_piece(self._log, self._leader, leader_epoch, snapshot, position, max_bytes)

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
