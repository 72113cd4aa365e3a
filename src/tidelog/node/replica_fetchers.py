"""Fetchers of replicas: one for each leader, for all partitions that follow it.

Invariant  A partition is fetched from the leader of its own known epoch, by one fetcher (D21).
Invariant  One fetch of a fetcher is under way at a time; a partition that rests or has failed is
           left out of it and never holds up the others (L12).
Invariant  The session with a leader is only ever told what changed; after any doubt it is ended
           and begun anew.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.fetcher_session import FetcherSession
from tidelog.node.links import Link, LinkLost
from tidelog.node.offset_questions import OffsetQuestion
from tidelog.observe.replication_events import FetcherStuck
from tidelog.replication.messages import (
    BackOff,
    Failed,
    FetchState,
    FollowerStep,
    LeaderAnswer,
    NeedsOffsets,
)
from tidelog.replication.partition import Partition
from tidelog.wire.fetch import FetchedPartition, FetchResponse

FETCH_VERSION: Final = 17
LOST_LINK_PAUSE_MS: Final = 20


class ReplicaFetcher:
    """Fetches from one leader."""

    def __init__(self, broker: BrokerState, leader: int) -> None:
        self._broker = broker
        self.leader = leader
        self._partitions: dict[TopicPartition, Partition] = {}
        self._resting: dict[TopicPartition, int] = {}
        """Partitions that must not be asked for before a time on the monotonic clock."""
        self._asking: set[TopicPartition] = set()
        """Partitions whose leader is being asked for its offsets."""
        self._session = FetcherSession()
        self._sent: dict[TopicPartition, FetchState] = {}
        self._under_way = False
        self._paused_until_ms = 0

    def __len__(self) -> int:
        return len(self._partitions)

    def follow(self, partition: Partition) -> None:
        """Fetch this partition too, in its new epoch."""
        self._partitions[partition.name] = partition
        self._resting.pop(partition.name, None)

    def forget(self, name: TopicPartition) -> None:
        """Fetch this partition no more."""
        self._partitions.pop(name, None)
        self._resting.pop(name, None)

    def close(self, now: Now) -> None:
        """The leader is not needed any more, or is at another address."""
        self._partitions.clear()
        link = self._link()
        if link is not None:
            link.close(now, reason="nothing is fetched from there any more")

    # -- asking --------------------------------------------------------------------------------

    def fetch(self, now: Now) -> None:
        """Ask for everything that may be asked for, unless a fetch is under way."""
        if self._under_way or not self._partitions or now.monotonic_ms < self._paused_until_ms:
            return
        link = self._link()
        wanted = self._wanted(now)
        if link is None or not (wanted or self._session.is_open):
            return
        config = self._broker.config
        request = self._session.request(
            wanted,
            replica_id=self._broker.node_id,
            replica_epoch=self._broker.broker_epoch,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            partition_max_bytes=config.replica_fetch_max_bytes,
        )
        self._sent = {name: state for name, (_, state) in wanted.items()}
        self._under_way = True
        link.ask_fetch(
            now, FETCH_VERSION, request, self._answered, timeout_ms=config.replica_socket_timeout_ms
        )

    def _link(self) -> Link | None:
        point = self._broker.endpoint(self.leader, self._broker.config.inter_broker_name)
        return None if point is None else self._broker.links.to(point, "replication")

    def _wanted(self, now: Now) -> dict[TopicPartition, tuple[Partition, FetchState]]:
        wanted = {}
        for name, partition in self._partitions.items():
            follower = partition.follower
            if follower is None or not follower.may_fetch or name in self._asking:
                continue
            if self._resting.get(name, 0) > now.monotonic_ms:
                continue
            wanted[name] = (partition, follower.fetch_state)
        return wanted

    # -- hearing -------------------------------------------------------------------------------

    def _answered(self, answer: FetchResponse | LinkLost, now: Now) -> None:
        self._under_way = False
        if isinstance(answer, LinkLost):
            self._session.reset()
            self._pause(now, LOST_LINK_PAUSE_MS)
            return
        if answer.error:
            self._session.reset()
            if answer.error not in SESSION_ERRORS:
                self._pause(now, self._broker.config.replica_fetch_backoff_ms)
                return
        else:
            self._session.answered(answer.session_id)
            for topic in answer.topics:
                for fetched in topic.partitions:
                    self._apply(topic.topic_id, fetched, now)
        self.fetch(now)

    def _apply(self, topic_id: UUID | None, fetched: FetchedPartition, now: Now) -> None:
        topic = None if topic_id is None else self._broker.topic_name(topic_id)
        name = None if topic is None else TopicPartition(topic, fetched.index)
        partition = None if name is None else self._partitions.get(name)
        if name is None or partition is None:
            return
        state = self._sent.get(name)
        if state is None:
            return
        records = fetched.records
        step = partition.fetched(
            LeaderAnswer(
                sent_offset=state.fetch_offset,
                sent_leader_epoch=state.leader_epoch,
                error=fetched.error,
                high_watermark=fetched.high_watermark,
                log_start_offset=fetched.log_start_offset,
                records=records if isinstance(records, memoryview) else None,
                diverging_epoch=fetched.diverging_epoch,
            ),
            now,
        )
        if partition.owed_flush is not None:
            self._broker.flushes.begin_owed(partition)
        self._after(partition, state, step, now)

    def _after(self, partition: Partition, state: FetchState, step: FollowerStep, now: Now) -> None:
        name = partition.name
        if isinstance(step, BackOff):
            self._resting[name] = now.monotonic_ms + step.pause_ms
            self._broker.deadlines.at(now.monotonic_ms + step.pause_ms, self.fetch)
            self._announce_stuck(partition, step.why)
        elif isinstance(step, Failed):
            self._announce_stuck(partition, step.why)
        elif isinstance(step, NeedsOffsets):
            link = self._link()
            if link is not None:
                self._asking.add(name)
                OffsetQuestion(self._broker, link, partition, state, self._offsets_known).ask(now)

    def _offsets_known(
        self, partition: Partition, state: FetchState, step: FollowerStep, now: Now
    ) -> None:
        self._asking.discard(partition.name)
        self._after(partition, state, step, now)
        self.fetch(now)

    def _announce_stuck(self, partition: Partition, why: str) -> None:
        self._broker.announce(FetcherStuck(partition=partition.name, leader=self.leader, cause=why))

    def _pause(self, now: Now, pause_ms: int) -> None:
        self._paused_until_ms = now.monotonic_ms + pause_ms
        self._broker.deadlines.at(self._paused_until_ms, self.fetch)


SESSION_ERRORS: Final = (
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.invalid_fetch_session_epoch,
    ErrorCode.fetch_session_topic_id_error,
)


class ReplicaFetchers:
    """The fetchers of a node, by leader."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker
        self._by_leader: dict[int, ReplicaFetcher] = {}
        self._leader_of: dict[TopicPartition, int] = {}

    def role_changed(self, partition: Partition) -> None:
        """A leader epoch began: fetch from its leader, or not at all when that is us or nobody."""
        self.forget(partition.name)
        follower = partition.follower
        if follower is None or follower.leader == NO_LEADER:
            return
        leader = follower.leader
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            fetcher = self._by_leader[leader] = ReplicaFetcher(self._broker, leader)
        fetcher.follow(partition)
        self._leader_of[partition.name] = leader

    def forget(self, name: TopicPartition) -> None:
        """Fetch a partition no more."""
        leader = self._leader_of.pop(name, None)
        if leader is not None:
            self._by_leader[leader].forget(name)

    def fetch(self, now: Now) -> None:
        """Keep every fetcher at work."""
        for leader, fetcher in list(self._by_leader.items()):
            if len(fetcher):
                fetcher.fetch(now)
            else:
                fetcher.close(now)
                del self._by_leader[leader]
