"""A writer and a reader that wait as stock clients do, and the rule about what that may cost (L21).

The clients of the workload are eager: they try again at once, so that much happens. People's
clients are not. These two are as patient as librdkafka is with its default settings:

- A broker that cannot be reached is tried three times and then when it is needed; each try waits
  longer than the one before, up to ten seconds.
- Who leads is asked when a connection breaks or a leader refuses, and otherwise looked after once
  a second.
- A partition that gets an error rests for half a second, unless the answer names another leader; a
  new leader is asked first where the epochs before it ended, again after half a second.

Invariant  No partition is without an acknowledged write, or the reader without a record of it, for
           longer than the bound, whatever single fault there was, and when leadership goes back
           after it (L21). Judged by the answers that arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from uuid import UUID

from tidelog.client.metadata import read_metadata
from tidelog.model.ids import NO_LEADER, ZERO_UUID
from tidelog.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.records.batch import whole_batches
from tidelog.records.builder import NewRecord, build_batch
from tidelog.simulator.clients.asking import AskingClient, Lost
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.clock import EPOCH_MS
from tidelog.simulator.world.cluster import BROKER_PORT, machine_address

METADATA_VERSION: Final = 12
FETCH_VERSION: Final = 17
PRODUCE_VERSION: Final = 11
EPOCH_VERSION: Final = 4
RECONNECT_FIRST_MS: Final = 100
RECONNECT_MOST_MS: Final = 10_000
TRIES: Final = 3
SCAN_MS: Final = 1_000
ERROR_PAUSE_MS: Final = 500
RETRY_PAUSE_MS: Final = 100
WRITE_EVERY_MS: Final = 20

_SCAN: Final = "scan"
_GO_ON: Final = "go on"


@dataclass(slots=True)
class _Peer:
    """One broker, as a client sees it."""

    connection: int | None = None
    is_open: bool = False
    next_wait_ms: int = RECONNECT_FIRST_MS
    not_before_ms: int = 0
    tries_left: int = 0


@dataclass(slots=True)
class _Partition:
    """One partition, as a client sees it."""

    index: int
    leader: int = NO_LEADER
    epoch: int = -1
    rests_until_ms: int = 0
    under_way: bool = False
    last_sign_ms: int | None = None
    offset: int = 0
    last_epoch: int = -1
    is_validated: bool = True


@dataclass(slots=True)
class Judgement:
    """The bound, and the longest that was seen since it was set."""

    bound_ms: int
    longest_ms: dict[int, int] = field(default_factory=dict)


class StockClient(AskingClient):
    """What writer and reader share: connections, leaders, and the rule."""

    what: str = ""

    def __init__(self, name: str, nodes: tuple[int, ...], topic: str, partitions: int) -> None:
        super().__init__(name)
        self._topic, self._topic_id = topic, ZERO_UUID
        self._peers = {node: _Peer() for node in nodes}
        self._node_of: dict[int, int] = {}
        self._asks_leaders = False
        self.partitions = [_Partition(index) for index in range(partitions)]
        self.judgement: Judgement | None = None

    def judge(self, bound_ms: int) -> Judgement:
        """From now on no partition may be silent for longer."""
        self.judgement = Judgement(bound_ms)
        return self.judgement

    @property
    def has_begun(self) -> bool:
        return all(each.last_sign_ms is not None for each in self.partitions)

    # To be overridden.

    def go_on(self, partition: _Partition, connection: int) -> None:
        """Ask the leader of a partition, which can be reached."""

    def leader_changed(self, partition: _Partition) -> None:
        """Another leader, or the same in another epoch."""

    # Signs of life.

    def sign_of_life(self, partition: _Partition) -> None:
        self._judge(partition)
        partition.last_sign_ms = self.now_ms

    def _judge(self, partition: _Partition) -> None:
        judgement = self.judgement
        if judgement is None or partition.last_sign_ms is None:
            return
        silent_ms = self.now_ms - partition.last_sign_ms
        longest_ms = judgement.longest_ms
        longest_ms[partition.index] = max(silent_ms, longest_ms.get(partition.index, 0))
        if silent_ms > judgement.bound_ms:
            where = f"{self._topic}-{partition.index}"
            raise Violation(
                "L21", f"{self.name} saw no {self.what} {where} for {judgement.bound_ms} ms"
            )

    # From the host.

    def on_started(self) -> None:
        self.set_timer(0, _SCAN)
        self.set_timer(0, _GO_ON)

    def on_timer(self, token: object) -> None:
        if token == _SCAN:
            self.set_timer(SCAN_MS, _SCAN)
            if any(not self._peer_is_up(each.leader) for each in self.partitions):
                self.ask_leaders()
        elif token == _GO_ON:
            self.set_timer(WRITE_EVERY_MS, _GO_ON)
            for node, peer in self._peers.items():
                if peer.tries_left > 0:
                    self._reach(node)
            for partition in self.partitions:
                self._judge(partition)
                self._go_on(partition)

    def on_connected(self, connection: int) -> None:
        peer = self._peers[self._node_of[connection]]
        peer.is_open, peer.tries_left = True, 0

    def on_closed(self, connection: int, reason: str) -> None:
        peer = self._peers[self._node_of.pop(connection)]
        was_open, peer.connection, peer.is_open = peer.is_open, None, False
        if was_open:
            peer.tries_left = TRIES
        else:
            self._wait_longer(peer)
        super().on_closed(connection, reason)
        self.ask_leaders()

    # Connections.

    def _peer_is_up(self, node: int) -> bool:
        return node in self._peers and self._peers[node].is_open

    def _reach(self, node: int) -> int | None:
        peer = self._peers[node]
        if peer.connection is None and self.now_ms >= peer.not_before_ms:
            peer.tries_left -= 1
            self._wait_longer(peer)
            peer.connection = self.connect(machine_address(node), BROKER_PORT)
            self._node_of[peer.connection] = node
        return peer.connection if peer.is_open else None

    def _wait_longer(self, peer: _Peer) -> None:
        """Once for each try, and once more for its failure."""
        if peer.not_before_ms + RECONNECT_MOST_MS < self.now_ms:
            peer.next_wait_ms = RECONNECT_FIRST_MS
        wait_ms = int(peer.next_wait_ms * self.dice.uniform(0.75, 1.5))
        peer.not_before_ms = self.now_ms + min(wait_ms, RECONNECT_MOST_MS)
        peer.next_wait_ms = min(2 * peer.next_wait_ms, RECONNECT_MOST_MS)

    # Leaders.

    def ask_leaders(self) -> None:
        """Ask somebody who is there; nobody is asked twice at a time."""
        if self._asks_leaders:
            return
        up = [node for node, peer in self._peers.items() if peer.is_open]
        if not up:
            for node in self._peers:
                self._reach(node)
            return
        connection = self._peers[self.dice.choice(up)].connection
        assert connection is not None
        self._asks_leaders = True
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self._topic)], allow_auto_topic_creation=False
        )
        self.ask(connection, request, METADATA_VERSION, self._told_leaders)

    def _told_leaders(self, answer: Any) -> None:
        self._asks_leaders = False
        if isinstance(answer, Lost):
            return
        topic = read_metadata(answer).topics[self._topic]
        self._topic_id = topic.topic_id
        for told in topic.partitions:
            self.learn(self.partitions[told.partition], told.leader, told.leader_epoch)

    def learn(self, partition: _Partition, leader: int, epoch: int) -> bool:
        """Somebody says who leads; whether that is news."""
        if epoch < partition.epoch or (leader, epoch) == (partition.leader, partition.epoch):
            return False
        partition.leader, partition.epoch = leader, epoch
        partition.rests_until_ms = 0
        self.leader_changed(partition)
        self._go_on(partition)
        return True

    # Going on.

    def _go_on(self, partition: _Partition) -> None:
        if partition.under_way or partition.leader == NO_LEADER:
            return
        if self.now_ms < partition.rests_until_ms:
            return
        connection = self._reach(partition.leader)
        if connection is not None:
            self.go_on(partition, connection)

    def refused(self, partition: _Partition, hint: tuple[int, int] | None, pause_ms: int) -> None:
        """Follow the hint, or rest and ask."""
        if hint is None or hint[0] == NO_LEADER or not self.learn(partition, *hint):
            partition.rests_until_ms = self.now_ms + pause_ms
            self.ask_leaders()


class StockWriter(StockClient):
    """One record of each partition under way at a time, to be held by all in sync."""

    what = "acknowledged write in"

    def go_on(self, partition: _Partition, connection: int) -> None:
        partition.under_way = True
        batch = build_batch([NewRecord(None, b"x", EPOCH_MS + self.now_ms)])
        topics = [(self._topic, None, [(partition.index, bytes(batch))])]
        then = partial(self._answered, partition)
        self.ask_produce(connection, PRODUCE_VERSION, topics, then, acks=-1)

    def _answered(self, partition: _Partition, answer: Any) -> None:
        partition.under_way = False
        if isinstance(answer, Lost):
            return
        [told] = answer.topics[0].partitions
        if told.error:
            self.refused(partition, told.current_leader, RETRY_PAUSE_MS)
        else:
            self.sign_of_life(partition)


class StockReader(StockClient):
    """Reads each partition from its beginning; asks a new leader where the epochs before ended."""

    what = "record of"

    def leader_changed(self, partition: _Partition) -> None:
        partition.is_validated = partition.last_epoch < 0

    def go_on(self, partition: _Partition, connection: int) -> None:
        partition.under_way = True
        if partition.is_validated:
            self._fetch(partition, connection)
        else:
            self._validate(partition, connection)

    def _fetch(self, partition: _Partition, connection: int) -> None:
        wanted = FetchPartition(partition.index, partition.epoch, partition.offset, -1, -1, 1 << 20)
        request = FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(None, UUID(bytes=self._topic_id.bytes), [wanted])],
            forgotten=[],
            rack_id="",
            cluster_id=None,
        )
        self.ask_fetch(connection, FETCH_VERSION, request, partial(self._fetched, partition))

    def _fetched(self, partition: _Partition, answer: Any) -> None:
        partition.under_way = False
        if isinstance(answer, Lost):
            return
        for told in (each for topic in answer.topics for each in topic.partitions):
            if told.error:
                self.refused(partition, told.current_leader, ERROR_PAUSE_MS)
                return
            if isinstance(told.records, memoryview):
                for header, _ in whole_batches(told.records):
                    partition.offset = header.next_offset
                    partition.last_epoch = header.leader_epoch
                    self.sign_of_life(partition)
        self._go_on(partition)

    def _validate(self, partition: _Partition, connection: int) -> None:
        asked = OffsetForLeaderPartition(
            partition=partition.index,
            current_leader_epoch=partition.epoch,
            leader_epoch=partition.last_epoch,
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=self._topic, partitions=[asked])]
        )
        then = partial(self._told_end, partition, partition.epoch)
        self.ask(connection, request, EPOCH_VERSION, then)

    def _told_end(self, partition: _Partition, epoch: int, answer: Any) -> None:
        partition.under_way = False
        if isinstance(answer, Lost) or partition.epoch != epoch:
            return
        [told] = answer.topics[0].partitions
        if told.error_code:
            self.refused(partition, None, ERROR_PAUSE_MS)
            return
        partition.is_validated = True
        self._go_on(partition)
