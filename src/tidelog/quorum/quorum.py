"""The quorum: the one log of metadata records that all nodes agree on, and this node's part in it.

Every node has one, whether it votes (a controller) or only follows (a broker). It holds the log on
disk (`log`), what of it is committed (`replica`), who votes by it (`voters`), and the elections
that give this node its role (`state`). What happens goes in with the time it happened at; what is
to be said to others, and when to look again, comes out:

    quorum.start(now)
    quorum.elections.time_passed(now)                     # at quorum.elections.due_ms
    response = quorum.elections.handle_vote(request, now)
    asked = quorum.next_fetch(max_bytes)                  # to the leader, or to who might know it
    after = quorum.handle_fetch_response(asked, response, now)
    response = quorum.handle_fetch(asked, now)            # what this node gives, if it leads
    response = quorum.answer_for(asked)                   # the same to one that still waits for it
    end = quorum.append(records, now)                     # leader only
    job = quorum.sync_job()                               # run() it, in a thread if need be
    quorum.synced(job)                                    # whether the high watermark moved
    quorum.replica.committed_since(applied)               # the records to replay

Invariant  Nothing is committed before a majority of the voters has made it durable: a voter syncs
           before the fetch that tells so (C5). A failed sync stops the node, since the kernel may
           have dropped the very pages that were to be made durable.
Invariant  What is not committed may be in the log, but is shown to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, Generic, NoReturn, TypeVar

from tidelog.model.entropy import Entropy
from tidelog.model.errors import (
    ConfigError,
    DiskError,
    ErrorCode,
    InvariantBroken,
    Refusal,
    invariant,
)
from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter, VoterEndpoint, Voters
from tidelog.quorum.elections import Elections
from tidelog.quorum.fetching import (
    MetadataFetch,
    MetadataFetchResponse,
    SnapshotFetch,
    SnapshotFetchResponse,
    answer_fetch,
    answer_snapshot_fetch,
)
from tidelog.quorum.leader import Leader, Observers, QuorumDescription, QuorumNode
from tidelog.quorum.messages import Address, ReplicaKey
from tidelog.quorum.metadata_log import MetadataLog
from tidelog.quorum.metadata_replica import MetadataReplica, RecordCodec
from tidelog.quorum.quorum_state import QuorumState
from tidelog.quorum.roles import Follower, Role, Unattached
from tidelog.quorum.snapshots import KAFKA_RULES, SnapshotRules
from tidelog.quorum.timeouts import DEFAULT_TIMEOUTS, QuorumTimeouts
from tidelog.quorum.voters import (
    AddVoter,
    QuorumVoters,
    VoterChange,
    VoterSet,
    changed_voters,
    own_endpoints,
)
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


class AfterFetch(Enum):
    """How to go on after the response to a fetch."""

    FETCH_AGAIN = auto()
    """As soon as there is a `next_fetch`."""
    BACK_OFF = auto()
    """The response was of no use; fetch again after a while."""
    DISBELIEVE = auto()
    """The response says what cannot be; nothing of it was used, so fetch again after a while."""
    FETCH_SNAPSHOT = auto()
    """The log does not go back far enough; get the snapshot that the response names."""


class Quorum(Generic[T]):
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
        writes_by_jobs: bool = False,
    ) -> None:
        """`endpoints` are where this node is to be found for the quorum, as far as it was told;
        all members use the one named `listener`. A node that cannot vote only follows. With
        `writes_by_jobs` no election waits for the disk once this has started."""
        self._own = own
        self._can_vote = can_vote
        self._voters = QuorumVoters(own, listener)
        self.log = MetadataLog(files, log, now, may_refetch=not can_vote)
        self.replica = MetadataReplica(
            files=files,
            log=self.log,
            voters=self._voters,
            codec=codec,
            now=now,
            rules=rules,
            static_voters=static_voters,
        )
        self.endpoints = own_endpoints(endpoints, self.voters.by_id(own.id))
        self.state = QuorumState(
            files,
            log.directory,
            self._voters,
            can_vote=can_vote,
            writes_by_jobs=writes_by_jobs,
        )
        self.elections = Elections(
            replica=self.replica,
            voters=self._voters,
            state=self.state,
            endpoints=self.endpoints,
            entropy=entropy,
            timeouts=timeouts,
        )
        self._observers = Observers()
        self._syncing: FlushJob | None = None
        self._lowering: Lowering | None = None
        self._is_lowering = False

    def start(self, now: Now) -> None:
        """Take part; the sole voter leads at once."""
        alone = self.voters.voter_ids == (self._own.id,)
        if alone and self._can_vote and not self._voters.is_voter:
            raise ConfigError(
                f"the only voter is node {self._own.id} with another metadata directory than "
                f"{self.log.directory} ({self._own.directory_id}): start it with the one it was "
                f"formatted with, or format an empty directory for a new cluster"
            )
        self.elections.start(now)

    # What it knows

    @property
    def identity(self) -> ReplicaKey:
        return self._own

    @property
    def role(self) -> Role:
        """What this node is in the current epoch."""
        return self.state.role

    @property
    def epoch(self) -> int:
        """The latest epoch this node has heard of; the leader's is the controller's epoch."""
        return self.state.role.epoch

    @property
    def leader_id(self) -> int:
        """Who leads the quorum; -1 when that is not known."""
        return self.elections.leader_id

    @property
    def leader_address(self) -> Address | None:
        """Where another node, which leads, is found."""
        return self.elections.leader_address

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def is_active(self) -> bool:
        """Whether the controller may act: it leads, and its epoch's first record is committed."""
        return isinstance(self.role, Leader) and self.role.has_committed

    @property
    def leader_high_watermark(self) -> int | None:
        """How far the log is committed, by the word of who leads the current epoch; None unless
        this process has heard it from the leader, or leads and has committed something."""
        match self.role:
            case Follower() as follower:
                return follower.leader_high_watermark
            case Leader() as leader if leader.has_committed:
                return leader.high_watermark
            case _:
                return None

    @property
    def voters(self) -> VoterSet:
        """Who votes, by the newest record in the log."""
        return self._voters.latest

    @property
    def is_described_wrongly(self) -> bool:
        """Whether the log says that this voter listens where it does not."""
        known = self.voters.find(*self._own)
        in_log = self.voters.kraft_version > 0
        return in_log and known is not None and known.endpoints != self.endpoints

    @property
    def may_join(self) -> bool:
        """Whether this node could vote and does not, in a quorum whose log names the voters."""
        in_log = self.voters.kraft_version > 0
        return in_log and self._can_vote and not self._voters.is_voter

    @property
    def nodes(self) -> tuple[QuorumNode, ...]:
        """Where the voters listen."""
        return tuple(
            QuorumNode(node_id=voter.voter_id, endpoints=voter.endpoints)
            for voter in self.voters.voters
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
                leader.describe(voter, self.log.end_offset, now) for voter in self.voters.voters
            ),
            observers=self._observers.progress(now),
            nodes=self.nodes,
        )

    # Following

    def next_fetch(self, max_bytes: int = 1 << 20) -> MetadataFetch | None:
        """What to ask the leader, or anybody who might know it; None while there is no use."""
        if not isinstance(self.role, Follower | Unattached) or self._must_sync:
            return None
        if self.state.awaits_disk or self._lowering is not None:
            return None
        return MetadataFetch(
            replica_id=self._own.id,
            directory_id=self._own.directory_id,
            leader_epoch=self.epoch,
            offset=self.log.end_offset,
            last_epoch=self.log.latest_epoch,
            high_watermark=self.replica.high_watermark,
            max_bytes=max_bytes,
        )

    @property
    def _must_sync(self) -> bool:
        """Whether a fetch would tell of what is not durable yet."""
        if self._syncing is not None:
            return True
        return self._can_vote and self.log.durable_end < self.log.end_offset

    def handle_fetch_response(
        self, asked: MetadataFetch, answer: MetadataFetchResponse[memoryview], now: Now
    ) -> AfterFetch:
        """The answer to `asked`; its records are gone when this returns."""
        if answer.error not in _TELLS_THE_LEADER or answer.leader_epoch < self.epoch:
            return AfterFetch.BACK_OFF
        if self.state.awaits_disk or self._lowering is not None:
            return AfterFetch.FETCH_AGAIN
        before = self.role
        if not self.elections.heard_of(
            answer.leader_epoch, answer.leader_id, answer.leader_address, now, asked=True
        ):
            return AfterFetch.DISBELIEVE
        role = self.role
        if role is not before:
            return AfterFetch.FETCH_AGAIN
        if answer.error or not isinstance(role, Follower) or asked.leader_epoch != role.epoch:
            return AfterFetch.BACK_OFF
        is_late = (asked.offset, asked.last_epoch) != (self.log.end_offset, self.log.latest_epoch)
        after = AfterFetch.FETCH_AGAIN
        if not self._must_sync and not is_late:
            after = self._take(answer, role.epoch, now)
        if after is not AfterFetch.DISBELIEVE:
            self.elections.leader_answered(now)
            if answer.high_watermark >= 0:
                role.leader_high_watermark = answer.high_watermark
        return after

    def _take(self, answer: MetadataFetchResponse[memoryview], epoch: int, now: Now) -> AfterFetch:
        """Use what the leader of `epoch` gives to this very log."""
        if answer.snapshot is not None:
            wanted = self.replica.can_begin_with(answer.snapshot, epoch)
            return AfterFetch.FETCH_SNAPSHOT if wanted else AfterFetch.DISBELIEVE
        if answer.diverging is not None:
            to = self.replica.divergence(*answer.diverging)
            if to is None:
                return AfterFetch.DISBELIEVE
            self._lowering = self.replica.truncate(to, now)
            return AfterFetch.FETCH_AGAIN
        if answer.records is None:
            if answer.high_watermark > self.log.end_offset:  # it has more, and gives nothing
                return AfterFetch.DISBELIEVE
        elif not self.replica.append_fetched(answer.records, epoch, now):
            return AfterFetch.DISBELIEVE
        self.replica.commit_up_to(answer.high_watermark)
        return AfterFetch.FETCH_AGAIN

    # Being followed

    def handle_fetch(self, asked: MetadataFetch, now: Now) -> MetadataFetchResponse[LogSlice]:
        """What another node of the cluster gets of the log, from where it is on; that it asked
        tells how far it is."""
        leader = self.role
        answer = self.answer_for(asked)
        if not isinstance(leader, Leader) or not answer.is_fine:
            return answer
        has_below = self.log.boundary(asked.offset)
        if self.voters.find(asked.replica_id, asked.directory_id) is None:
            replica = ReplicaKey(asked.replica_id, asked.directory_id)
            self._observers.fetched(replica, has_below, self.log.end_offset, now)
        elif leader.fetched(asked.replica_id, has_below, self.log.end_offset, now):
            self.replica.commit_up_to(leader.high_watermark)
            answer = answer._replace(high_watermark=leader.high_watermark)
        return answer

    def answer_for(self, asked: MetadataFetch) -> MetadataFetchResponse[LogSlice]:
        """The same by now for somebody who asked before, which is no sign of life (C8)."""
        leader = self.role if isinstance(self.role, Leader) else None
        answer = answer_fetch(asked, self.log, leader)
        if leader is not None:
            return answer._replace(leader_address=self._voters.address_of(self._own.id))
        if self.state.awaits_disk:
            return answer._replace(leader_epoch=self.state.durable_epoch)
        address = self._voters.address_of(self.leader_id) or self.leader_address
        return answer._replace(
            leader_id=self.leader_id, leader_epoch=self.epoch, leader_address=address
        )

    def handle_snapshot_fetch(self, asked: SnapshotFetch, now: Now) -> SnapshotFetchResponse:
        """Some bytes of a snapshot, for a node that begins with it."""
        leader = self.role if isinstance(self.role, Leader) else None
        response = answer_snapshot_fetch(asked, self.log, leader)
        if (
            leader is not None
            and not response.error
            and self.voters.find(*asked.replica) is not None
        ):
            leader.heard_of(asked.replica.id, now)
        return response

    # Writing

    def append(self, records: Iterable[T], now: Now, *, atomic: bool = True) -> int:
        """Write records at the end of the log; the new end, which is committed once below the
        high watermark. Atomic ones go into one batch or, if they do not fit, nowhere."""
        leader = self.role
        if not isinstance(leader, Leader):
            raise InvariantBroken("only the leader of the quorum writes")
        self.replica.append(records, leader.epoch, now, atomic=atomic)
        return self.log.end_offset

    def change_voters(self, change: VoterChange, now: Now) -> int | Refusal:
        """Add, remove or describe a voter; where the log ends with it. In force at once."""
        leader = self.role
        if not isinstance(leader, Leader):
            return Refusal(ErrorCode.not_leader_or_follower, "Another node leads the quorum.")
        added = ReplicaKey(*change.voter.key) if isinstance(change, AddVoter) else None
        progress = None if added is None else self._observers.find(added)
        voters = changed_voters(self.voters, change, leader, self._voters.listener, progress, now)
        if isinstance(voters, Refusal):
            return voters
        self.replica.append_control([Voters(voters=voters.voters)], leader.epoch, now)
        if added is not None:
            self._observers.forget(added)
        if leader.voters_are(self.voters.voter_ids, self.log.end_offset, now):
            self.replica.commit_up_to(leader.high_watermark)
        return self.log.end_offset

    def sync_job(self) -> FlushJob | None:
        """What must be run before more can be committed; None while one is under way."""
        if self._syncing is None:
            self._syncing = self.log.flush_job()
            return self._syncing
        return None

    def synced(self, job: FlushJob) -> bool:
        """The job has run: whether the high watermark moved. Ask for the next job."""
        invariant(job is self._syncing, "one sync of the metadata log is under way at a time")
        self._syncing = None
        self.log.flushed(job)
        leader = self.role
        if isinstance(leader, Leader) and leader.made_durable(self.log.durable_end):
            return self.replica.commit_up_to(leader.high_watermark)
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

    def sync_failed(self, job: FlushJob, why: str) -> NoReturn:
        """The job failed: what it was to make durable may be gone, so the node must stop."""
        self.log.flush_failed(job, why)
        raise DiskError(f"the metadata log below offset {job.up_to} could not be synced: {why}")
