"""One partition of an internal topic while this node leads it: its coordinator at work.

    loading   the log is replayed, a piece at a time; commands get COORDINATOR_LOAD_IN_PROGRESS
    active    commands are decided, appended, replayed, and answered once committed
    ended     the epoch is over; commands, and all who wait, get NOT_COORDINATOR

Invariant  What is appended is replayed at once, what could not be appended never.
Invariant  A reply waits until everything that the coordinator had written when it was decided is
           below the high watermark, even a reply without records: it may tell of them.
Invariant  A coordinator lives in one leader epoch. The next one, even on the same node, begins
           with the log.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.coordinator.internal_topics import InternalTopic
from tidelog.coordinator.result import CoordinatorResult, LateReply, ProducerIdAndEpoch
from tidelog.coordinator.shard import CoordinatorShard, Marker
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.coordination.shard_log import ReplayedLog
from tidelog.node.coordination.shard_timers import Command, ShardTimers
from tidelog.node.core.runtime import Runtime
from tidelog.node.replicas.flushes import Flushes
from tidelog.observe.coordinator_events import CoordinatorLoaded, CoordinatorUnloaded
from tidelog.protocol.struct_writer import Unwritable
from tidelog.records.builder import NewRecord, build_batch
from tidelog.replication.partition import Partition
from tidelog.replication.written_ends import TransactionEnd
from tidelog.storage.log_values import Appended

ShardT = TypeVar("ShardT")
RecordT = TypeVar("RecordT")
R = TypeVar("R")

LOADING: Final = Refusal(ErrorCode.coordinator_load_in_progress, "the coordinator is loading")
NOT_OURS: Final = Refusal(ErrorCode.not_coordinator, "another broker is the coordinator")
NEXT_PIECE_MS: Final = 1
NO_PRODUCER: Final = ProducerIdAndEpoch(-1, -1)
_AS_COORDINATOR: Final = {
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}
"""What a refused append means to a client of the coordinator."""


class State(Enum):
    """How far a coordinator is."""

    LOADING = "loading"
    ACTIVE = "active"
    ENDED = "ended"


class HostedShard(NamedTuple, Generic[ShardT, RecordT]):
    """One shard as those see it who command it, and as its log does."""

    asked: ShardT
    replayed: CoordinatorShard[RecordT]


class CoordinatedPartition(Generic[ShardT, RecordT]):
    """Runs one shard over one partition, for one leader epoch."""

    def __init__(
        self,
        runtime: Runtime,
        flushes: Flushes,
        topic: InternalTopic,
        partition: Partition,
        make_shard: Callable[[Partition, ShardTimers[RecordT]], HostedShard[ShardT, RecordT]],
    ) -> None:
        self._runtime = runtime
        self._flushes = flushes
        self._topic = topic
        self._partition = partition
        self.leader_epoch = partition.leader_epoch
        self._timers = ShardTimers(runtime.deadlines, self._run_timer)
        self.shard, self._replayed = make_shard(partition, self._timers)
        self._log = ReplayedLog(partition.log, self._replayed, topic.load_bytes)
        self.state = State.LOADING

    # -- coming and going ----------------------------------------------------------------------

    def load(self, now: Now) -> None:
        """Replay the next piece of the log; the rest follows."""
        if self.state is not State.LOADING:
            return
        if not self._log.replay_piece():
            self._runtime.deadlines.at(now.monotonic_ms + NEXT_PIECE_MS, self.load)
            return
        if self._log.damage is not None:
            self.end(self._log.damage)
            return
        self.state = State.ACTIVE
        if self._log.records:
            self._runtime.announce(
                CoordinatorLoaded(
                    partition=self._partition.name,
                    leader_epoch=self.leader_epoch,
                    records=self._log.records,
                    cause="this broker leads the partition",
                )
            )
        self._carry_out(now, self._replayed.loaded(now), _ignore)

    def end(self, cause: str) -> None:
        """This node no longer leads, or cannot read what it leads."""
        if self.state is State.ENDED:
            return
        self.state = State.ENDED
        self._timers.cancel_all()
        self._replayed.unloaded(NOT_OURS)
        if self._partition.log.end_offset > self._partition.log.start_offset:
            self._runtime.announce(
                CoordinatorUnloaded(
                    partition=self._partition.name, leader_epoch=self.leader_epoch, cause=cause
                )
            )

    # -- commands ------------------------------------------------------------------------------

    def ask(
        self,
        now: Now,
        command: Callable[[ShardT], CoordinatorResult[RecordT, R] | Refusal],
        then: Callable[[R | Refusal], None],
    ) -> None:
        """Decide, write, and call `then` with the reply once it is true, or with a refusal."""
        if self.state is not State.ACTIVE:
            then(LOADING if self.state is State.LOADING else NOT_OURS)
            return
        decision = command(self.shard)
        if isinstance(decision, Refusal):
            then(decision)
            return
        self._carry_out(now, decision, then)

    def write_marker(
        self,
        now: Now,
        end: TransactionEnd,
        then: Callable[[Refusal | None], None],
    ) -> None:
        """End a producer's transaction in this partition."""
        if self.state is not State.ACTIVE:
            then(LOADING if self.state is State.LOADING else NOT_OURS)
            return
        leader = self._partition.leader()
        appended = leader if isinstance(leader, Refusal) else leader.append_end(end, now)
        if isinstance(appended, Refusal):
            then(_as_coordinator(appended))
            return
        if not appended.duplicate:
            self._begin_owed_flush()
            producer = ProducerIdAndEpoch(end.producer_id, end.producer_epoch)
            self._replayed.replay_marker(Marker(producer, end.committed))
        self._once_committed(now, appended, then)

    def _run_timer(self, now: Now, command: Command[RecordT]) -> bool:
        """Whether what a timer decided is written."""
        if self.state is not State.ACTIVE:
            return True
        return self._carry_out(now, command(now), _ignore)

    def _carry_out(
        self, now: Now, decision: CoordinatorResult[RecordT, R], then: Callable[[R | Refusal], None]
    ) -> bool:
        """Write, replay, and reply when that is committed; False when it cannot be written."""
        appended = self._append(now, decision) if decision.records else None
        if isinstance(appended, Refusal):
            refusal = _as_coordinator(appended)
            then(refusal)
            _give(decision.late, refusal)
            return False

        def known(refused: Refusal | None) -> None:
            then(decision.reply if refused is None else refused)
            _give(decision.late, refused)

        self._once_committed(now, appended, known)
        return True

    def _append(self, now: Now, decision: CoordinatorResult[RecordT, R]) -> Appended | Refusal:
        producer = decision.producer or NO_PRODUCER
        try:
            encoded = [self._replayed.encode(record) for record in decision.records]
        except Unwritable as error:  # a client may say more than a record can hold
            return Refusal(ErrorCode.unknown_server_error, str(error))
        batch = build_batch(
            [NewRecord(key, value, now.wall_ms) for key, value in encoded],
            codec=self._topic.codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transactional=decision.producer is not None,
        )
        leader = self._partition.leader()
        if isinstance(leader, Refusal):
            return leader
        appended = leader.append_as_coordinator(batch, now)
        if isinstance(appended, Appended):
            self._begin_owed_flush()
            for record in decision.records:
                self._replayed.replay(record, decision.producer)
        return appended

    def _begin_owed_flush(self) -> None:
        if self._partition.owed_flush is not None:
            self._flushes.begin_owed(self._partition)

    # -- waiting for the high watermark --------------------------------------------------------

    def _once_committed(
        self, now: Now, appended: Appended | None, then: Callable[[Refusal | None], None]
    ) -> None:
        """Call `then` once everything written so far is committed; with why not otherwise."""
        leader = self._partition.leader(self.leader_epoch)
        if isinstance(leader, Refusal):
            then(NOT_OURS)
            return
        end_offset = self._partition.log.end_offset
        code = leader.acknowledgement(end_offset)
        if code is not None:
            then(_failure(code, appended))
            return

        def settled(code: ErrorCode) -> None:
            deadline.cancel()
            then(_failure(code, appended))

        parked = leader.wait_for(end_offset, settled)
        deadline = self._runtime.deadlines.at(
            now.monotonic_ms + self._topic.write_timeout_ms, lambda later: parked.time_out()
        )


def _failure(code: ErrorCode, appended: Appended | None) -> Refusal | None:
    """Why a reply cannot be given. Too few replicas are nothing to somebody who wrote nothing."""
    if code is ErrorCode.none:
        return None
    if appended is None and code is ErrorCode.not_enough_replicas_after_append:
        return None
    return _as_coordinator(Refusal(code, "the coordinator's records could not be committed"))


def _as_coordinator(refusal: Refusal) -> Refusal:
    return Refusal(_AS_COORDINATOR.get(refusal.code, refusal.code), refusal.why)


def _give(late: tuple[LateReply, ...], refused: Refusal | None) -> None:
    for each in late:
        each.give(refused)


def _ignore(_: object) -> None:
    """Nobody asked."""
