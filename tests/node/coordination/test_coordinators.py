"""Coordinators over a replicated partition: what they wait for, when they load and let go."""

from __future__ import annotations

from typing import Any

import pytest
from tests.node.peer import Peer
from tests.node.replicated_bench import Follower, ReplicatedBench
from tests.protocol.kio_messages.entity_messages import decode_response

from tidelog.coordinator.internal_topics import OFFSETS_TOPIC, java_hash, partition_of
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.coordination.shard_log import PIECE_BYTES
from tidelog.observe.coordinator_events import CoordinatorLoaded, CoordinatorUnloaded
from tidelog.protocol.apis import ApiKey
from tidelog.records.builder import NewRecord, build_batch
from tidelog.replication.messages import LeaderAndIsr
from tidelog.replication.written_ends import TransactionEnd

COMMIT_VERSION = 7
FETCH_VERSION = 5
TIMEOUT_MS = 5000


class Groups:
    """The one partition of the offsets topic, led by the node, followed by 101."""

    def __init__(self, **configs: str) -> None:
        self.bench = ReplicatedBench({"replica.lag.time.max.ms": "100000"})
        self.bench.start()
        self.bench.register(101)
        self.bench.create_topic("orders")
        topic_id = self.bench.place_topic(OFFSETS_TOPIC, [100, 101], **configs)
        self.partition = self.bench.partition(OFFSETS_TOPIC)
        self.follower = Follower(self.bench, 101, topic_id)
        self.peer: Peer = self.bench.connect()

    def send_commit(self, offset: int) -> None:
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": 0,
            "committed_metadata": "",
        }
        self.peer.send(
            ApiKey.OFFSET_COMMIT,
            COMMIT_VERSION,
            group_id="group",
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": "orders", "partitions": [partition]}],
        )
        self.bench.end_tick()

    def commit_results(self) -> list[int]:
        """Errors of every answer to a commit since the last look."""
        found = []
        while self.peer.frames:
            frame = self.peer.frames.pop(0)
            _, answer = decode_response(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, frame)
            found += [each.error_code for topic in answer.topics for each in topic.partitions]
        return found

    def send_fetch(self) -> Peer:
        """Ask for the committed offset on a connection of its own."""
        peer = self.bench.connect()
        topics = [{"name": "orders", "partition_indexes": [0]}]
        peer.send(ApiKey.OFFSET_FETCH, FETCH_VERSION, group_id="group", topics=topics)
        self.bench.end_tick()
        return peer

    def fetched(self, peer: Peer) -> tuple[int, int]:
        """Error and offset of the answer."""
        answer: Any = decode_response(ApiKey.OFFSET_FETCH, FETCH_VERSION, peer.answer())[1]
        if answer.error_code:
            return answer.error_code, -1
        return 0, answer.topics[0].partitions[0].committed_offset

    def lead(self, leader: int, epoch: int) -> None:
        """What the metadata would say after an election."""
        now = self.partition.leadership
        changed = now._replace(
            leader=leader, leader_epoch=epoch, partition_epoch=now.partition_epoch + 1
        )
        self.partition.apply(LeaderAndIsr(*changed), self.bench.now)
        rooms = self.bench.node.rooms
        rooms.replicas.hosting.role_changed.tell(self.partition, self.bench.now)
        self.bench.end_tick()

    def append(self, record: NewRecord) -> None:
        """Write into the coordinator's partition behind its back."""
        leader = self.partition.leading
        assert leader is not None
        leader.append_as_coordinator(build_batch([record]), self.bench.now)

    def replicate(self) -> None:
        """Let the follower have everything."""
        self.follower.leader_epoch = self.partition.leader_epoch
        assert self.follower.fetch(self.partition.log.end_offset).error == 0
        self.bench.end_tick()


@pytest.fixture
def groups() -> Groups:
    return Groups()


def test_a_commit_is_answered_once_every_in_sync_replica_has_it(groups: Groups) -> None:
    groups.send_commit(7)
    assert groups.commit_results() == []
    groups.replicate()
    assert groups.commit_results() == [ErrorCode.none]


def test_an_answer_without_records_waits_for_those_it_may_tell_of(groups: Groups) -> None:
    groups.send_commit(7)
    asking = groups.send_fetch()
    assert not asking.frames
    groups.replicate()
    assert groups.fetched(asking) == (0, 7)


def test_an_answer_that_waits_too_long_says_that_the_coordinator_is_not_available(
    groups: Groups,
) -> None:
    groups.send_commit(7)
    groups.bench.wait(TIMEOUT_MS)
    assert groups.commit_results() == [ErrorCode.coordinator_not_available]


def test_with_too_few_in_sync_nothing_is_written_and_reading_goes_on() -> None:
    groups = Groups(min_insync_replicas="2")
    now = groups.partition.leadership
    alone = now._replace(in_sync=(100,), partition_epoch=now.partition_epoch + 1)
    groups.partition.apply(alone, groups.bench.now)
    groups.send_commit(7)
    assert groups.commit_results() == [ErrorCode.coordinator_not_available]
    assert groups.partition.log.end_offset == 0
    assert groups.fetched(groups.send_fetch()) == (0, -1)


def test_whoever_waits_is_told_when_the_leadership_ends(groups: Groups) -> None:
    groups.send_commit(7)
    groups.lead(101, 1)
    assert groups.commit_results() == [ErrorCode.not_coordinator]
    [unloaded] = groups.bench.of_kind(CoordinatorUnloaded)
    assert unloaded.leader_epoch == 0
    assert groups.fetched(groups.send_fetch()) == (ErrorCode.not_coordinator, -1)


def test_a_coordinator_of_the_next_epoch_begins_with_the_log(groups: Groups) -> None:
    groups.send_commit(7)
    groups.replicate()
    groups.lead(100, 1)
    [loaded] = groups.bench.of_kind(CoordinatorLoaded)
    assert (loaded.leader_epoch, loaded.records) == (1, 1)
    groups.replicate()
    assert groups.fetched(groups.send_fetch()) == (0, 7)


def test_what_the_last_leader_did_not_commit_is_told_once_it_is(groups: Groups) -> None:
    groups.send_commit(7)
    groups.lead(100, 1)
    asking = groups.send_fetch()
    assert not asking.frames
    groups.replicate()
    assert groups.fetched(asking) == (0, 7)


def test_a_long_log_is_loaded_piece_by_piece_while_others_are_served(groups: Groups) -> None:
    for offset in range(300):
        groups.send_commit(offset)
    groups.replicate()
    groups.commit_results()
    padding = NewRecord(b"\x7f\x00 of a later version", b"x" * 100_000, 0)
    for _ in range(2 * PIECE_BYTES // 100_000 + 1):
        groups.append(padding)
    groups.replicate()

    groups.lead(100, 1)
    asked = groups.send_fetch()
    assert groups.fetched(asked) == (ErrorCode.coordinator_load_in_progress, -1)
    groups.bench.wait(10)
    groups.replicate()
    assert groups.fetched(groups.send_fetch()) == (0, 299)


def test_a_log_that_cannot_be_read_has_no_coordinator(groups: Groups) -> None:
    broken = NewRecord(b"\x00\x02\x00\x05group", b"\x00\x03 not a group", 0)
    groups.append(broken)
    groups.replicate()
    groups.lead(100, 1)
    assert groups.fetched(groups.send_fetch()) == (ErrorCode.not_coordinator, -1)
    [unloaded] = groups.bench.of_kind(CoordinatorUnloaded)[-1:]
    assert "cannot be read" in unloaded.cause


def test_offsets_of_a_transaction_count_when_its_marker_is_written(groups: Groups) -> None:
    coordinator = groups.bench.node.rooms.coordination.groups.at(0)
    assert coordinator is not None
    heard: list[Refusal | None] = []
    end = TransactionEnd(7, 0, committed=True, coordinator_epoch=0, transaction_version=1)
    coordinator.write_marker(groups.bench.now, end, heard.append)
    assert heard == []
    groups.replicate()
    assert heard == [None]


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 1772899),
    ],
)
def test_the_hash_of_a_key_is_that_of_java(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed


def test_the_smallest_hash_belongs_to_the_first_partition() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("group", 50) == 98629247 % 50
