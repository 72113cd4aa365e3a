"""The quorum: the one log of metadata records that all nodes agree on, and this node's part in it.

Every node has one, whether it votes (a controller) or only follows (a broker). What happens goes
in with the time it happened at; what is to be said to others, and when to look again, comes out:

    quorum.start(now)
    quorum.time_passed(now)                          # at quorum.due_ms
    answer = quorum.vote_asked(question, now)        # and epoch_begun, epoch_ended
    for letter in quorum.take_letters(): ...         # then answered(letter, ...), unanswered
    asked = quorum.wants(max_bytes)                  # to the leader, or to who might know it
    step = quorum.fetched(asked, answer, now)        # what came back
    answer = quorum.fetch(asked, now)                # what this node, if it leads, gives others
    answer = quorum.answer_for(asked)                # the same to one that still waits for it
    end = quorum.append(records, now)                # leader only
    job = quorum.sync_job()                          # run() it, in a thread if need be
    quorum.synced(job)                               # whether the high watermark moved
    quorum.committed_since(applied)                  # the records to replay

Invariant  Nothing is committed before a majority of the voters has made it durable: a voter syncs
           before the fetch that tells so (C5). A failed sync stops the node, since the kernel may
           have dropped the very pages that were to be made durable.
Invariant  What is not committed may be in the log, but is shown to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, NoReturn, TypeVar

from tidelog.model.entropy import Entropy
from tidelog.model.errors import DiskError, ErrorCode, InvariantBroken, Refusal, invariant
from tidelog.model.time import Now
from tidelog.quorum.batches import control_batch, in_batches, in_one_batch, record_batch
from tidelog.quorum.control_records import ControlRecord, Voter, VoterEndpoint, Voters
from tidelog.quorum.description import QuorumDescription, QuorumNode
from tidelog.quorum.epoch_opening import opening_records
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.observers import Observers
from tidelog.quorum.own_endpoints import own_endpoints
from tidelog.quorum.replica import RecordCodec
from tidelog.quorum.roles import Follower, Unattached
from tidelog.quorum.serving import MetadataFetch, MetadataFetched, read_for
from tidelog.quorum.snapshot_file import SnapshotId
from tidelog.quorum.snapshot_transfer import SnapshotAsked, SnapshotPiece, snapshot_piece
from tidelog.quorum.snapshots import KAFKA_RULES, SnapshotRules
from tidelog.quorum.timeouts import DEFAULT_TIMEOUTS, QuorumTimeouts
from tidelog.quorum.voter_changes import AddVoter, VoterChange, changed_voters
from tidelog.quorum.voter_set import VoterSet
from tidelog.quorum.voting_replica import VotingReplica
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.flush import FlushJob
from tidelog.storage.log_place import Lowering
from tidelog.storage.log_values import LogSlice
from tidelog.storage.partition_log import PartitionLog

T = TypeVar("T")
_TELLS_THE_LEADER: Final = frozenset(
    {
        ErrorCode.none,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_leader_or_follower,
    }
)


class Step(Enum):
    """How to go on after the answer to a fetch."""

    AGAIN = auto()
    """Ask again as soon as `wants` says so."""
    REST = auto()
    """The answer was of no use; ask again after a while."""
    SNAPSHOT = auto()
    """The log does not go back far enough; get the snapshot that the answer names."""


class Quorum(VotingReplica[T]):
    """This node's part in the quorum."""

    def __init__(
        self,
        *,
        files: FileSystem,
        log: PartitionLog,
        own: ReplicaKey,
        endpoints: tuple[VoterEndpoint, ...],
        listener: str,
        codec: RecordCodec[T],
        entropy: Entropy,
        now: Now,
        rules: SnapshotRules = KAFKA_RULES,
        static_voters: tuple[Voter, ...] = (),
        timeouts: QuorumTimeouts = DEFAULT_TIMEOUTS,
        can_vote: bool = True,
        promises_by_jobs: bool = False,
    ) -> None:
        """`endpoints` are where this node is to be found for the quorum, as far as it was told;
        all members use the one named `listener`. A node that cannot vote only follows."""
        super().__init__(
            files=files,
            log=log,
            own=own,
            listener=listener,
            codec=codec,
            entropy=entropy,
            now=now,
            rules=rules,
            static_voters=static_voters,
            timeouts=timeouts,
            can_vote=can_vote,
            promises_by_jobs=promises_by_jobs,
        )
        self.endpoints = own_endpoints(endpoints, self._voters.by_id(own.id))
        self._observers = Observers()
        self._syncing: FlushJob | None = None
        self._lowering: Lowering | None = None
        self._is_lowering = False

    def _lead(self, epoch: int, granting: tuple[int, ...], now: Now) -> Leader:
        """Elected: the first records of the epoch say so, and commit what came before them."""
        leader = Leader(
            epoch=epoch,
            leader_id=self._own.id,
            epoch_start_offset=self._log.end_offset,
            voter_ids=self._voters.voter_ids,
            high_watermark=self._mark,
            timeouts=self._timeouts,
            now=now,
        )
        opening = opening_records(self._voters, self._own, self.endpoints, granting)
        self._append_control(opening, epoch, now)
        return leader

    # What it knows

    @property
    def voters(self) -> VoterSet:
        """Who votes, by the newest record in the log."""
        return self._voters

    @property
    def is_described_wrongly(self) -> bool:
        """Whether the log says that this voter listens where it does not."""
        known = self._voters.find(*self._own)
        in_log = self._voters.kraft_version > 0
        return in_log and known is not None and known.endpoints != self.endpoints

    @property
    def may_join(self) -> bool:
        """Whether this node could vote and does not, in a quorum whose log names the voters."""
        in_log = self._voters.kraft_version > 0
        return in_log and self._can_vote and not self._members.is_voter

    @property
    def nodes(self) -> tuple[QuorumNode, ...]:
        """Where the voters listen."""
        return tuple(
            QuorumNode(node_id=voter.voter_id, endpoints=voter.endpoints)
            for voter in self._voters.voters
        )

    def describe(self, now: Now) -> QuorumDescription | None:
        """The quorum for DescribeQuorum; None unless this node leads."""
        leader = self.role
        if not isinstance(leader, Leader):
            return None
        return QuorumDescription(
            leader_id=self._own.id,
            leader_epoch=leader.epoch,
            high_watermark=leader.high_watermark,
            voters=tuple(
                leader.describe(voter, self._log.end_offset, now) for voter in self._voters.voters
            ),
            observers=self._observers.progress(now),
            nodes=self.nodes,
        )

    # Following

    def wants(self, max_bytes: int = 1 << 20) -> MetadataFetch | None:
        """What to ask the leader, or anybody who might know it; None while there is no use."""
        if not isinstance(self.role, Follower | Unattached) or self._must_sync:
            return None
        if self.owes_promise or self._lowering is not None:
            return None
        return MetadataFetch(
            replica_id=self._own.id,
            directory_id=self._own.directory_id,
            leader_epoch=self.epoch,
            offset=self._log.end_offset,
            last_epoch=self._log.latest_epoch,
            high_watermark=self._mark,
            max_bytes=max_bytes,
        )

    @property
    def _must_sync(self) -> bool:
        """Whether a fetch would promise what is not durable yet."""
        if self._syncing is not None:
            return True
        return self._can_vote and self._log.durable_end < self._log.end_offset

    def fetched(self, asked: MetadataFetch, answer: MetadataFetched[memoryview], now: Now) -> Step:
        """The answer to `asked`; its records are gone when this returns."""
        if answer.error not in _TELLS_THE_LEADER or answer.leader_epoch < self.epoch:
            return Step.REST
        if self.owes_promise or self._lowering is not None:
            return Step.AGAIN
        before = self.role
        self._elections.heard_of(answer.leader_epoch, answer.leader_id, answer.leader_address, now)
        role = self.role
        if role is not before:
            return Step.AGAIN
        if answer.error or not isinstance(role, Follower) or asked.leader_epoch != role.epoch:
            return Step.REST
        self._elections.leader_answered(now)
        if self._must_sync or (asked.offset, asked.last_epoch) != (
            self._log.end_offset,
            self._log.latest_epoch,
        ):
            return Step.AGAIN
        if answer.snapshot is not None:
            return Step.SNAPSHOT
        if answer.diverging is not None:
            self._lowering = self._truncate(*answer.diverging, now)
            return Step.AGAIN
        if answer.records is not None and not self._append_fetched(answer.records, role.epoch, now):
            return Step.REST
        self._committed_up_to(answer.high_watermark)
        return Step.AGAIN

    # Being followed

    def fetch(self, asked: MetadataFetch, now: Now) -> MetadataFetched[LogSlice]:
        """What another node of the cluster gets of the log, from where it is on; that it asked
        tells how far it is."""
        leader = self.role
        answer = self.answer_for(asked)
        if not isinstance(leader, Leader) or not answer.is_fine:
            return answer
        if self._voters.find(asked.replica_id, asked.directory_id) is None:
            replica = ReplicaKey(asked.replica_id, asked.directory_id)
            self._observers.fetched(replica, asked.offset, self._log.end_offset, now)
        elif leader.fetched(asked.replica_id, asked.offset, self._log.end_offset, now):
            self._committed_up_to(leader.high_watermark)
            answer = answer._replace(high_watermark=leader.high_watermark)
        return answer

    def answer_for(self, asked: MetadataFetch) -> MetadataFetched[LogSlice]:
        """The same by now for somebody who asked before, which is no sign of life (C8)."""
        leader = self.role if isinstance(self.role, Leader) else None
        answer = read_for(asked, self._log, leader)
        if leader is not None:
            return answer._replace(leader_address=self._members.address_of(self._own.id))
        if self.owes_promise:
            return answer._replace(leader_epoch=self._kept.epoch)
        address = self._members.address_of(self.leader_id) or self.leader_address
        return answer._replace(
            leader_id=self.leader_id, leader_epoch=self.epoch, leader_address=address
        )

    def snapshot_piece(self, asked: SnapshotAsked, now: Now) -> SnapshotPiece:
        """Some bytes of a snapshot, for a node that begins with it."""
        leader = self.role if isinstance(self.role, Leader) else None
        piece = snapshot_piece(self._log, leader, asked)
        if leader is not None and not piece.error and self._voters.find(*asked.replica) is not None:
            leader.heard_of(asked.replica.id, now)
        return piece

    # Writing

    def append(self, records: Iterable[T], now: Now, *, atomic: bool = True) -> int:
        """Write records at the end of the log; the new end, which is committed once below the
        high watermark. Atomic ones go into one batch or, if they do not fit, nowhere."""
        leader = self.role
        if not isinstance(leader, Leader):
            raise InvariantBroken("only the leader of the quorum writes")
        values = [self._codec.encode(record) for record in records]
        for run in (in_one_batch(values),) if atomic and values else in_batches(values):
            self._append(record_batch(run, now.wall_ms), leader.epoch, now)
        return self._log.end_offset

    def change_voters(self, change: VoterChange, now: Now) -> int | Refusal:
        """Add, remove or describe a voter; where the log ends with it. In force at once."""
        leader = self.role
        if not isinstance(leader, Leader):
            return Refusal(ErrorCode.not_leader_or_follower, "Another node leads the quorum.")
        added = ReplicaKey(*change.voter.key) if isinstance(change, AddVoter) else None
        progress = None if added is None else self._observers.find(added)
        voters = changed_voters(self._voters, change, leader, self._members.listener, progress, now)
        if isinstance(voters, Refusal):
            return voters
        self._append_control([Voters(voters=voters.voters)], leader.epoch, now)
        if added is not None:
            self._observers.forget(added)
        if leader.voters_are(self._voters.voter_ids, self._log.end_offset, now):
            self._committed_up_to(leader.high_watermark)
        return self._log.end_offset

    def _append_control(self, records: list[ControlRecord], epoch: int, now: Now) -> None:
        offset = self._log.end_offset
        self._append(control_batch(records, now.wall_ms), epoch, now)
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
        leader = self.role
        if isinstance(leader, Leader) and leader.made_durable(self._log.durable_end):
            return self._committed_up_to(leader.high_watermark)
        return False

    # Making room

    def lowering(self) -> Lowering | None:
        """What must be run before the log can be cut; None while that is under way."""
        if self._is_lowering or self._lowering is None:
            return None
        self._is_lowering = True
        return self._lowering

    def lowered(self) -> None:
        """It was run to its end: the next answer of the leader cuts the log."""
        self._lowering = None
        self._is_lowering = False

    def lowering_for_snapshot(self, snapshot: SnapshotId) -> Lowering | None:
        """What must be run before `install`."""
        return self._log.lowering_for_snapshot(snapshot)

    def sync_failed(self, job: FlushJob, why: str) -> NoReturn:
        """The job failed: what it was to make durable may be gone, so the node must stop."""
        self._log.flush_failed(job, why)
        raise DiskError(f"the metadata log below offset {job.up_to} could not be synced: {why}")
