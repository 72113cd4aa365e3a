"""Three replicas of one partition on disks in memory, wired by hand."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from tests.replication.controller import UNREGISTERED, Controller

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.observe.events import Event
from tidelog.records.batch import BatchHeader, whole_batches
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.validation import BatchRules, RejectedBatch
from tidelog.replication.follower import FollowerReplica
from tidelog.replication.leader import LeaderReplica
from tidelog.replication.messages import (
    Dropped,
    FetchState,
    FollowerFetch,
    FollowerStep,
    LeaderAnswer,
    LeaderOffsets,
    NeedsOffsets,
    Progress,
    ProposalFate,
    ProposeInSyncReplicas,
)
from tidelog.replication.partition import Partition
from tidelog.replication.replica_context import BrokerEligibility, Proposer, ReplicaContext
from tidelog.simulator.disk.crash import DataFate, after_crash, data_kept
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_place import DirectoryHealth, LogPlace
from tidelog.storage.log_values import Appended
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.recovery import create_log, load_log

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=9)
DIRECTORY = "/data/orders-0"
START = Now(0, 1_700_000_000_000)
LAG_MAX_MS = 30_000


def leader_of(partition: Partition) -> LeaderReplica:
    assert partition.leading is not None
    return partition.leading


def follower_of(partition: Partition) -> FollowerReplica:
    assert partition.following is not None
    return partition.following


class SeededEntropy:
    def __init__(self) -> None:
        self._random = Random(1)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class Question(NamedTuple):
    """A fetch on its way to a leader."""

    sender: int
    broker_epoch: int
    leader: int
    state: FetchState


class Batch(NamedTuple):
    """What one batch of a log is, for comparing logs."""

    header: BatchHeader
    data: bytes


class Broker:
    """One broker: its disk, its replica, and what it knows of the metadata."""

    def __init__(self, broker_id: int, min_in_sync: int, **settings: Any) -> None:
        self.broker_id = broker_id
        self.files = MemoryFileSystem(record_trace=False)
        self.files.make_directory("/data")
        self.health = DirectoryHealth()
        self.broker_epoch = -1
        self.events: list[Event] = []
        self.proposals: list[ProposeInSyncReplicas] = []
        self._proposers: dict[int, tuple[Proposer, ProposeInSyncReplicas]] = {}
        self.knows: dict[int, BrokerEligibility] = {}
        self.known = 0
        """How much of the controller's history it has seen."""
        self._min_in_sync = min_in_sync
        self._config = LogConfig(**settings)
        log = create_log(ORDERS, TOPIC_ID, self._config, self._place(), START)
        self.partition = self._host(log, 0)
        self.is_running = True

    def of(self, broker_id: int) -> BrokerEligibility:
        """Who is live, by the metadata this broker knows."""
        return self.knows.get(broker_id, UNREGISTERED)

    @property
    def log(self) -> PartitionLog:
        return self.partition.log

    @property
    def leader(self) -> LeaderReplica:
        return leader_of(self.partition)

    @property
    def follower(self) -> FollowerReplica:
        return follower_of(self.partition)

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark.offset

    def crash(self, data: DataFate = data_kept) -> None:
        """The process ends here; of unsynced bytes survives what `data` says."""
        self.is_running = False
        self.files = after_crash(self.files, data)
        self.health = DirectoryHealth()

    def start(
        self, checkpointed_high_watermark: int, now: Now, recovery_point: int | None = None
    ) -> None:
        """Load the log again, without a role."""
        log = load_log(
            ORDERS,
            TOPIC_ID,
            self._config,
            self._place(),
            now,
            clean=False,
            recovery_point=recovery_point,
            log_start=None,
        )
        self.proposals.clear()
        self.partition = self._host(log, checkpointed_high_watermark)
        self.is_running = True

    def _propose(self, leader: Proposer, proposal: ProposeInSyncReplicas) -> None:
        self.proposals.append(proposal)
        self._proposers[id(proposal)] = (leader, proposal)

    def proposer_of(self, proposal: ProposeInSyncReplicas) -> Proposer:
        """The leader that asked for it, even if its epoch is over."""
        return self._proposers[id(proposal)][0]

    def batches(self) -> Iterator[Batch]:
        """Everything in the log."""
        offset, log = self.log.start_offset, self.log
        while offset < log.end_offset:
            found = log.read(offset, 1 << 20, log.end_offset)
            assert found is not None
            for header, data in whole_batches(memoryview(found.read())):
                yield Batch(header, bytes(data))
                offset = header.next_offset

    def _place(self) -> LogPlace:
        return LogPlace(
            files=self.files,
            directory=DIRECTORY,
            entropy=SeededEntropy(),
            health=self.health,
            lowered=lambda: None,
            lowering=lambda _lower: None,
        )

    def _host(self, log: PartitionLog, high_watermark: int) -> Partition:
        context = ReplicaContext(
            eligibility=self,
            propose=self._propose,
            announce=self.events.append,
            lag_max_ms=LAG_MAX_MS,
        )
        rules, wanted = BatchRules(), self._min_in_sync
        return Partition(log, self.broker_id, high_watermark, rules, wanted, context)


class Cluster:
    """Brokers 100, 101 and 102, a controller, and the wires between them."""

    def __init__(self, *broker_ids: int, min_in_sync: int = 1, **settings: Any) -> None:
        ids = broker_ids or (100, 101, 102)
        self.now = START
        self.controller = Controller(ids, min_in_sync)
        self.brokers = {broker_id: Broker(broker_id, min_in_sync, **settings) for broker_id in ids}
        for broker in self.brokers.values():
            broker.broker_epoch = self.controller.standing(broker.broker_id).broker_epoch

    def __getitem__(self, broker_id: int) -> Broker:
        return self.brokers[broker_id]

    def epoch_of(self, broker_id: int) -> int:
        """The broker epoch that the controller knows."""
        return self.controller.standing(broker_id).broker_epoch

    def pass_ms(self, milliseconds: int) -> None:
        self.now = Now(self.now.monotonic_ms + milliseconds, self.now.wall_ms + milliseconds)

    # Metadata

    def lead(self, leader: int, in_sync: tuple[int, ...] | None = None, *tell: int) -> None:
        """Begin an epoch and tell everyone, or only some, of it."""
        self.controller.lead(leader, in_sync)
        self.tell(*tell)

    def tell(self, *broker_ids: int) -> None:
        """Let brokers, or all of them, see the newest metadata."""
        for broker_id in broker_ids or self.brokers:
            if self.brokers[broker_id].is_running:
                self.tell_up_to(broker_id, len(self.controller.history))

    def tell_up_to(self, broker_id: int, known: int) -> None:
        """Let a broker see the history up to there, at once."""
        broker = self.brokers[broker_id]
        metadata = self.controller.history[known - 1]
        broker.known = known
        broker.knows = metadata.brokers
        broker.partition.apply(metadata.leadership, self.now)

    # Appending and fetching

    def append(self, leader: int, *values: bytes, acks: int = 1, **more: Any) -> Appended:
        appended = self.produce(leader, *values, acks=acks, **more)
        assert isinstance(appended, Appended), appended
        return appended

    def produce(
        self, leader: int, *values: bytes, acks: int = 1, **more: Any
    ) -> Appended | RejectedBatch:
        records = [NewRecord(b"key", value, self.now.wall_ms) for value in values]
        batch = memoryview(build_batch(records, **more))
        return self.brokers[leader].leader.append(batch, self.now, 9, acks)

    def disk_settles(self, follower: int) -> None:
        """What was cut is gone for good."""
        log = self.brokers[follower].partition.log
        job = log.settling_job()
        if job is not None:
            job.run()
            log.flushed(job)

    def ask(self, follower: int) -> Question:
        """What a follower would send now, its disk knowing what was cut."""
        self.disk_settles(follower)
        broker = self.brokers[follower]
        replica = broker.partition.following
        assert replica is not None and replica.may_fetch
        return Question(follower, broker.broker_epoch, replica.leader, replica.fetch_state)

    def serve(self, asked: Question) -> LeaderAnswer:
        """What the broker asked answers, in the order of checks that a fetch goes through."""
        state, partition = asked.state, self.brokers[asked.leader].partition
        answer = LeaderAnswer(state)
        fenced = partition.fence(state.leader_epoch)
        if fenced is not None:
            return answer._replace(error=fenced.code)
        if not partition.is_leader:
            return answer._replace(error=ErrorCode.not_leader_or_follower)
        log, offset = partition.log, state.fetch_offset
        out_of_range = answer._replace(error=ErrorCode.offset_out_of_range)
        if offset < log.start_offset:
            return out_of_range
        if state.last_fetched_epoch >= 0:
            diverging = partition.divergence(state.last_fetched_epoch, offset)
            if diverging == (-1, -1):
                return out_of_range
            if diverging is not None:
                high_watermark = partition.high_watermark.offset
                return answer._replace(
                    diverging_epoch=diverging,
                    high_watermark=high_watermark,
                    log_start_offset=log.start_offset,
                )
        if offset > log.end_offset:
            return out_of_range
        refused = self.brokers[asked.leader].leader.follower_fetched(
            FollowerFetch(
                asked.sender, asked.broker_epoch, offset, state.log_start_offset, log.end_offset
            ),
            self.now,
        )
        if refused is not None:
            return answer._replace(error=refused.code)
        found = log.read(offset, 1 << 16, log.end_offset) if offset < log.end_offset else None
        return answer._replace(
            high_watermark=partition.high_watermark.offset,
            log_start_offset=log.start_offset,
            records=None if found is None else memoryview(bytearray(found.read())),
        )

    def hear(self, follower: int, answer: LeaderAnswer) -> FollowerStep:
        """Let the answer reach the follower, and settle where the leader's log lies if asked."""
        replica = self.brokers[follower].partition.following
        if replica is None:
            return Dropped()
        step = replica.fetched(answer, self.now)
        if isinstance(step, NeedsOffsets):
            leader = self.brokers[replica.leader].log
            state = replica.fetch_state
            offsets = LeaderOffsets(state, leader.start_offset, leader.end_offset)
            step = replica.offsets_told(offsets, self.now)
        return step

    def fetch(self, follower: int) -> FollowerStep:
        """One whole round trip."""
        return self.hear(follower, self.serve(self.ask(follower)))

    def fetch_well(self, *followers: int) -> None:
        """Round trips that must make progress."""
        for follower in followers:
            step = self.fetch(follower)
            assert isinstance(step, Progress), step

    def settle(self, *followers: int) -> None:
        """Fetch until nothing moves any more."""
        for _ in range(4):
            self.fetch_well(*followers)

    # Proposals

    def decide(self, leader: int) -> ProposalFate:
        """The controller answers the oldest proposal, and everyone hears of it."""
        broker = self.brokers[leader]
        proposal = broker.proposals.pop(0)
        outcome = self.controller.decide(leader, proposal)
        fate = broker.proposer_of(proposal).proposal_answered(proposal, outcome, self.now)
        self.tell()
        return fate
