"""Fetchers of replicas: one for each leader, for all partitions that follow it.

Invariant  A partition is fetched from the leader of its own known epoch, by one fetcher (D21);
           one whose directory failed is not fetched at all.
Invariant  One fetch of a fetcher is under way at a time; a partition that rests or has failed is
           left out of it and never holds up the others (L12).
Invariant  A partition that is throttled rests until the rate is kept, unless it is in sync.
Invariant  The session with a leader is only ever told what changed; after any doubt it is ended
           and begun anew.
Invariant  A fetch tells of no record that its topic wants on disk and that is not there yet. The
           whole fetch waits for that flush: one without the partition might be parked by the leader
           for `replica.fetch.wait.max.ms`, and the writer that wanted the flush with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.model.time import Now
from tidelog.node.core.checkpointing import lower
from tidelog.node.core.delayed_requests import DelayedRequests
from tidelog.node.core.links import Link, LinkLost
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.departures import Departures
from tidelog.node.quotas.replication_throttle import ReplicationThrottle
from tidelog.node.replicas.fetcher_session import FetcherSession
from tidelog.node.replicas.flushes import Flushes
from tidelog.node.replicas.offset_questions import OffsetQuestion
from tidelog.observe.replication_events import FetcherStuck
from tidelog.protocol.fetch import FetchedPartition, FetchResponse
from tidelog.protocol.parts import part_length
from tidelog.replication.messages import (
    BackOff,
    Dropped,
    Failed,
    FetchState,
    FollowerStep,
    LeaderAnswer,
    MustLower,
    NeedsOffsets,
)
from tidelog.replication.partition import Partition
from tidelog.storage.log_place import Lowering

FETCH_VERSION: Final = 17
LOST_LINK_PAUSE_MS: Final = 20
SESSION_ERRORS: Final = (
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.invalid_fetch_session_epoch,
    ErrorCode.fetch_session_topic_id_error,
)


class FetcherContext(NamedTuple):
    """What fetchers need of the node."""

    runtime: Runtime
    cluster: ClusterView
    flushes: Flushes
    departures: Departures
    delayed_requests: DelayedRequests
    throttle: ReplicationThrottle
    """Of what is fetched."""


class ReplicaFetcher:
    """Fetches from one leader."""

    def __init__(self, context: FetcherContext, leader: int) -> None:
        self._context = context
        self.leader = leader
        self._partitions: dict[TopicPartition, Partition] = {}
        self._changed: dict[TopicPartition, None] = {}
        """Partitions of which the session may have to be told something."""
        self._resting: dict[TopicPartition, int] = {}
        """Partitions that must not be asked for before a time on the monotonic clock."""
        self._asking: dict[TopicPartition, OffsetQuestion] = {}
        """Partitions whose leader is being asked for its offsets."""
        self._held: dict[TopicPartition, object] = {}
        """Partitions whose next fetch waits for the disk."""
        self._session = FetcherSession()
        self._link: Link | None = None
        self._incarnation: tuple[int, tuple[str, int]] | None = None
        """Broker epoch and address of the process at the other end of the link."""
        self._under_way = False
        self._flushing = 0
        self._paused_until_ms = 0

    def __len__(self) -> int:
        return len(self._partitions)

    def follow(self, partition: Partition) -> None:
        """Fetch this partition too, in its new epoch."""
        self.forget(partition.name)
        self._partitions[partition.name] = partition
        self._wait_for_flush(partition)
        self._wait_for_disk(partition)

    def forget(self, name: TopicPartition) -> None:
        """Fetch this partition no more."""
        self._partitions.pop(name, None)
        self._resting.pop(name, None)
        self._asking.pop(name, None)
        self._held.pop(name, None)
        self._changed[name] = None

    def tell(self, name: TopicPartition) -> None:
        """Something about the partition changed, apart from what its leader sent."""
        self._changed[name] = None

    def find_leader(self, now: Now) -> None:
        """The brokers changed: hang up on a process that is gone, call the one that is there."""
        address = self._context.cluster.endpoint(
            self.leader, self._context.cluster.config.inter_broker_name
        )
        found = None
        if address is not None:
            found = (self._context.cluster.image.brokers[self.leader].broker_epoch, address)
        if found != self._incarnation:
            self.close(now, "the leader is another process by now")
            self._incarnation = found
            if found is not None:
                self._link = self._context.runtime.links.to_broker(found[1], "replication")

    def close(self, now: Now, reason: str) -> None:
        """Hang up; what is under way fails, which tells nothing about the leader."""
        self._begin_anew()
        link, self._link = self._link, None
        if link is not None:
            link.close(now, reason)

    # -- asking --------------------------------------------------------------------------------

    def fetch(self, now: Now) -> None:
        """Ask for everything that may be asked for, unless a fetch is under way."""
        link, session = self._link, self._session
        if self._under_way or self._flushing or link is None:
            return
        if now.monotonic_ms < self._paused_until_ms:
            return
        changed, self._changed = self._changed, {}
        for name in changed:
            self._tell_session(name, now)
        if not (session.has_partitions or session.is_open):
            return
        config = self._context.cluster.config
        request = session.request(
            replica_id=self._context.cluster.node_id,
            replica_epoch=self._context.cluster.broker_epoch,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            partition_max_bytes=config.replica_fetch_max_bytes,
        )
        self._under_way = True
        link.ask_fetch(
            now, FETCH_VERSION, request, self._answered, timeout_ms=config.replica_socket_timeout_ms
        )

    def _tell_session(self, name: TopicPartition, now: Now) -> None:
        partition = self._partitions.get(name)
        follower = None if partition is None else partition.following
        if (
            partition is None
            or follower is None
            or not follower.may_fetch
            or name in self._asking
            or name in self._held
            or self._resting.get(name, 0) > now.monotonic_ms
            or (self._context.throttle.is_set and self._is_held_up(name, now))
        ):
            self._session.leave(name)
        else:
            state = follower.fetch_state
            if self._context.runtime.watch.magnified:
                self._seen(name, state, now)
            self._session.want(name, partition.log.topic_id, state)

    def _is_held_up(self, name: TopicPartition, now: Now) -> bool:
        """Whether a throttled partition has to rest; it does so from now on."""
        throttle = self._context.throttle
        if not (throttle.covers(name) and throttle.is_exceeded()):
            return False
        known = self._context.cluster.image.partition(*name)
        if known is not None and self._context.cluster.node_id in known.isr:
            return False
        pause_ms = throttle.wait_ms(self._context.cluster.config.replica_fetch_backoff_ms)
        self._rest(name, now.monotonic_ms + pause_ms)
        return True

    def _seen(self, name: TopicPartition, state: FetchState, now: Now) -> None:
        """For those who look."""
        self._context.runtime.watch.see(
            name,
            now,
            "fetch_sent",
            leader=self.leader,
            fetch_offset=state.fetch_offset,
            leader_epoch=state.leader_epoch,
            last_fetched_epoch=state.last_fetched_epoch,
        )

    # -- hearing -------------------------------------------------------------------------------

    def _answered(self, answer: FetchResponse | LinkLost, now: Now) -> None:
        self._under_way = False
        if isinstance(answer, LinkLost):
            if self._session.is_open:
                self._context.departures.connection_lost(self.leader, now)
            self._begin_anew()
            self._pause(now, LOST_LINK_PAUSE_MS)
            return
        if answer.error:
            self._begin_anew()
            if answer.error not in SESSION_ERRORS:
                self._pause(now, self._context.cluster.config.replica_fetch_backoff_ms)
                return
        else:
            for topic in answer.topics:
                for fetched in topic.partitions:
                    self._apply(topic.topic_id, fetched, now)
            if answer.session_id:
                if not self._session.is_open:
                    self._context.departures.heard_from(self.leader)
                    self._context.delayed_requests.look_again()
                self._session.answered(answer.session_id)
            else:
                self._begin_anew()
        self.fetch(now)

    def _begin_anew(self) -> None:
        self._session.reset()
        self._changed = dict.fromkeys(self._partitions)

    def _apply(self, topic_id: UUID | None, fetched: FetchedPartition, now: Now) -> None:
        topic = None if topic_id is None else self._context.cluster.topic_name(topic_id)
        if topic is None:
            return
        name = TopicPartition(topic, fetched.index)
        partition, told = self._partitions.get(name), self._session.told(name)
        if partition is None or told is None or told.topic_id != topic_id:
            return
        state, records = told.state, fetched.records
        answer = LeaderAnswer(
            sent=state,
            error=fetched.error,
            high_watermark=fetched.high_watermark,
            log_start_offset=fetched.log_start_offset,
            records=records if isinstance(records, memoryview) else None,
            diverging_epoch=fetched.diverging_epoch,
        )
        follower = partition.following
        step = Dropped() if follower is None else follower.fetched(answer, now)
        throttle = self._context.throttle
        if throttle.is_set and records is not None and throttle.covers(name):
            throttle.record(part_length(records))
        self._after(partition, state, step, now)

    def _after(self, partition: Partition, state: FetchState, step: FollowerStep, now: Now) -> None:
        name = partition.name
        self._changed[name] = None
        if partition.owed_flush is not None:
            self._context.flushes.begin_owed(partition)
            self._wait_for_flush(partition)
        if isinstance(step, BackOff):
            self._rest(name, now.monotonic_ms + step.pause_ms)
            if step.pause_ms >= self._context.cluster.config.replica_fetch_backoff_ms:
                self._announce_stuck(partition, step.why)
        elif isinstance(step, Failed):
            self._announce_stuck(partition, step.why)
        elif isinstance(step, MustLower):
            self._lower(partition, step.lowering)
        elif isinstance(step, NeedsOffsets) and self._link is not None:
            question = OffsetQuestion(self._context.cluster, partition, state, self._offsets_known)
            self._asking[name] = question
            question.ask(self._link, now)
        else:
            self._wait_for_disk(partition)

    def _offsets_known(self, question: OffsetQuestion, step: FollowerStep, now: Now) -> None:
        name = question.partition.name
        if self._asking.get(name) is question:
            del self._asking[name]
            self._after(question.partition, question.state, step, now)
            self.fetch(now)

    # -- pausing -------------------------------------------------------------------------------

    def _rest(self, name: TopicPartition, until_ms: int) -> None:
        def rested(now: Now) -> None:
            self._changed[name] = None
            self.fetch(now)

        self._resting[name] = until_ms
        self._context.runtime.deadlines.at(until_ms, rested)

    def _pause(self, now: Now, pause_ms: int) -> None:
        self._paused_until_ms = now.monotonic_ms + pause_ms
        self._context.runtime.deadlines.at(self._paused_until_ms, self.fetch)

    def _wait_for_flush(self, partition: Partition) -> None:
        """Fetch nothing before it is over; the tick that ends it goes on."""
        if partition.flushes_under_way:
            self._flushing += 1
            self._context.flushes.after_owed(partition).then(self._flushed)

    def _flushed(self, error: str | None) -> None:
        self._flushing -= 1

    def _wait_for_disk(self, partition: Partition) -> None:
        """See to what the disk has to know before this partition can be fetched."""
        follower = partition.following
        if follower is not None and follower.unprepared is not None:
            self._lower(partition, follower.unprepared.lowering)
        elif follower is not None and not partition.log.flushes.is_settled:
            self._hold(partition, lambda then: self._context.flushes.settle(partition.log, then))

    def _lower(self, partition: Partition, lowering: Lowering) -> None:
        self._hold(partition, lambda then: lower(self._context.runtime.jobs, lowering, then))

    def _hold(self, partition: Partition, begin: Callable[[Callable[[Now], None]], None]) -> None:
        name, reason = partition.name, object()

        def go_on(now: Now) -> None:
            if self._held.get(name) is not reason:
                return
            del self._held[name]
            self._changed[name] = None
            follower = partition.following
            if follower is not None and follower.unprepared is not None:
                follower.prepare(now)
            self._wait_for_disk(partition)

        self._held[name] = reason
        self._changed[name] = None
        begin(go_on)

    def _announce_stuck(self, partition: Partition, why: str) -> None:
        self._context.runtime.announce(
            FetcherStuck(partition=partition.name, leader=self.leader, cause=why)
        )


class ReplicaFetchers:
    """The fetchers of a node, by leader."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._by_leader: dict[int, ReplicaFetcher] = {}
        self._leader_of: dict[TopicPartition, int] = {}

    def role_changed(self, partition: Partition, now: Now) -> None:
        """A leader epoch began: fetch from its leader, or not at all when that is us or nobody."""
        self.forget(partition.name)
        follower = partition.following
        if follower is None or follower.leader == NO_LEADER:
            return
        if partition.log.health.offline_reason is not None:
            return
        leader = follower.leader
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            fetcher = self._by_leader[leader] = ReplicaFetcher(self._context, leader)
            fetcher.find_leader(now)
        fetcher.follow(partition)
        self._leader_of[partition.name] = leader

    def leader_of(self, name: TopicPartition) -> int:
        """From whom a partition is fetched; -1 when it is not."""
        return self._leader_of.get(name, NO_LEADER)

    def forget(self, name: TopicPartition) -> None:
        """Fetch a partition no more."""
        leader = self._leader_of.pop(name, None)
        if leader is not None:
            self._by_leader[leader].forget(name)

    def tell(self, name: TopicPartition) -> None:
        """Something about a partition changed, apart from what its leader sent."""
        leader = self._leader_of.get(name)
        if leader is not None:
            self._by_leader[leader].tell(name)

    def brokers_changed(self, now: Now) -> None:
        """Brokers came, went, or moved."""
        for fetcher in self._by_leader.values():
            fetcher.find_leader(now)

    def fetch(self, now: Now) -> None:
        """Keep every fetcher at work; called at the end of every tick."""
        idle = None
        for fetcher in self._by_leader.values():
            if len(fetcher):
                fetcher.fetch(now)
            else:
                idle = fetcher
        if idle is not None:
            del self._by_leader[idle.leader]
            idle.close(now, "nothing is fetched from there any more")
