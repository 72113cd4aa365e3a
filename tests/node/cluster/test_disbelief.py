"""Requests and answers of the quorum that say what cannot be: no node ends by them, and the quorum
goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.node.cluster.conftest import CLUSTER_ID, Cluster, Machine
from tests.tiers import examples

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID
from tidelog.node.metadata.quorum_messages import FETCH_VERSION, SNAPSHOT_VERSION
from tidelog.node.metadata.quorum_requests import VOTE_VERSION, answer_in, vote_response
from tidelog.observe.cluster_events import ControllerDisbelieved
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.codec import decode_response, encode_response
from tidelog.protocol.fetch import (
    FetchedPartition,
    FetchResponse,
    decode_fetch_response,
    encode_fetch_response,
    joined,
)
from tidelog.protocol.messages.fetch_snapshot import (
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
)
from tidelog.protocol.messages.vote import VoteResponse
from tidelog.protocol.primitives import MalformedRequest

if TYPE_CHECKING:
    from tests.node.cluster.conftest import NewCluster, Wire

EPOCH_APIS: Final = (ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH)


@pytest.fixture
def trio(new_cluster: NewCluster) -> Cluster:
    three = new_cluster(3, controllers=3)
    three.start()
    return three


def active(cluster: Cluster) -> Machine:
    return next(each for each in running(cluster) if each.node.quorum.is_active)


def running(cluster: Cluster) -> list[Machine]:
    return [each for each in cluster.machines.values() if each.is_running]


def follower(cluster: Cluster) -> Machine:
    return next(each for each in running(cluster) if not each.node.quorum.is_leader)


def named(leader_id: int, epoch: int, **more: Any) -> dict[str, Any]:
    """The body of BeginQuorumEpoch or EndQuorumEpoch, addressed to nobody."""
    partition = {"partition_index": 0, "leader_id": leader_id, "leader_epoch": epoch}
    return {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}], **more}


def require_all_well(cluster: Cluster, topic: str) -> None:
    """Nobody has stopped, and whatever was disturbed is decided again."""
    assert [machine.stopped for machine in cluster.machines.values()] == [None] * len(
        cluster.machines
    )
    cluster.wait_until(lambda: any(each.node.quorum.is_active for each in running(cluster)), 20_000)
    leader = active(cluster)
    cluster.wait_until(
        lambda: all(
            each is leader or each.node.quorum.leader_id == leader.node_id
            for each in running(cluster)
        ),
        20_000,
    )
    cluster.create_topic(topic, factor=1, via=leader.node_id)


@pytest.mark.parametrize("api", EPOCH_APIS)
@pytest.mark.parametrize("asked_one", [active, follower])
def test_who_names_another_leader_of_the_epoch_is_refused_and_nobody_stops(
    trio: Cluster, api: ApiKey, asked_one: Callable[[Cluster], Machine]
) -> None:
    leader, machine = active(trio), asked_one(trio)
    before = (leader.node_id, leader.node.quorum.epoch)
    stranger = next(each for each in trio.machines if each != leader.node_id)
    client = trio.client(machine.node_id, "CONTROLLER")
    for leader_id in (stranger, 77):
        [partition] = client.ask(api, 0, **named(leader_id, before[1])).topics[0].partitions
        assert partition.error_code == ErrorCode.invalid_request
    assert (machine.node.quorum.leader_id, machine.node.quorum.epoch) == before
    require_all_well(trio, "after")


@pytest.mark.parametrize("api", EPOCH_APIS)
def test_a_leader_of_the_last_epoch_of_all_is_refused(trio: Cluster, api: ApiKey) -> None:
    machine = follower(trio)
    epoch = machine.node.quorum.epoch
    client = trio.client(machine.node_id, "CONTROLLER")
    [partition] = client.ask(api, 0, **named(77, (1 << 31) - 1)).topics[0].partitions
    assert partition.error_code == ErrorCode.invalid_request
    assert machine.node.quorum.epoch == epoch


def test_a_voter_that_a_stranger_misled_finds_the_leader_that_the_others_elected(
    new_cluster: NewCluster,
) -> None:
    three = new_cluster(3, controllers=3)
    three.start()
    before = active(three)
    misled = follower(three)
    misled.is_paused = True
    before.kill()
    before.start()
    three.wait_until(lambda: any(each.node.quorum.is_active for each in running(three)), 10_000)
    after = active(three)
    epoch = after.node.quorum.epoch
    assert epoch > misled.node.quorum.epoch
    misled.inbox.clear()
    misled.is_paused = False
    points = [{"name": "CONTROLLER", "host": "nowhere", "port": 9093}]
    words = named(77, epoch, leader_endpoints=points)
    three.client(misled.node_id, "CONTROLLER").ask(ApiKey.BEGIN_QUORUM_EPOCH, 1, **words)
    assert misled.node.quorum.leader_id == 77

    three.wait_until(lambda: misled.node.quorum.leader_id == after.node_id, 10_000)

    assert misled.node.quorum.epoch == epoch, "nobody had to be elected for that"
    require_all_well(three, "after")


# Answers


def fetch_answer(frame: bytes) -> FetchResponse | None:
    """What a frame says, if it is an answer to a fetch of the metadata log."""
    try:
        answer = decode_fetch_response(memoryview(frame), FETCH_VERSION)
    except MalformedRequest:
        return None
    is_metadata = [topic.topic_id for topic in answer.topics] == [METADATA_TOPIC_ID]
    return answer if is_metadata else None


def instead(
    leader: Machine, reader: Machine, change: Callable[[FetchResponse], bytes]
) -> Callable[[Wire, bytes], bytes]:
    """What the leader answers to the fetches of one node is changed on the way."""

    def become(wire: Wire, frame: bytes) -> bytes:
        answer = fetch_answer(frame)
        if wire.callee is not leader or wire.caller is not reader or answer is None:
            return frame
        return change(answer)

    return become


def with_partition(answer: FetchResponse, **fields: Any) -> bytes:
    [topic] = answer.topics
    [partition] = topic.partitions
    changed = FetchedPartition(**{**partition._asdict(), **fields})
    topics = [(None, topic.topic_id, [changed])]
    encoded = encode_fetch_response(
        FETCH_VERSION, answer.correlation_id, 0, 0, topics, answer.node_endpoints
    )
    return joined(encoded)


def another_leader(answer: FetchResponse) -> bytes:
    [partition] = answer.topics[0].partitions
    _, epoch = partition.current_leader or (-1, -1)
    return with_partition(answer, current_leader=(77, epoch))


def last_epoch_of_all(answer: FetchResponse) -> bytes:
    return with_partition(answer, current_leader=(77, (1 << 31) - 1))


def divergence_beyond_the_end(answer: FetchResponse) -> bytes:
    return with_partition(answer, diverging_epoch=(1 << 20, 7))


def snapshot_of_nothing(answer: FetchResponse) -> bytes:
    return with_partition(answer, snapshot_id=(-5, 1))


def hole(answer: FetchResponse) -> bytes:
    [partition] = answer.topics[0].partitions
    records = partition.records
    if not isinstance(records, memoryview) or not records:
        return with_partition(answer)
    moved = bytearray(records)
    moved[:8] = (int.from_bytes(moved[:8], "big") + 1000).to_bytes(8, "big")
    return with_partition(answer, records=bytes(moved))


def error_of_another_time(answer: FetchResponse) -> bytes:
    return joined(encode_fetch_response(FETCH_VERSION, answer.correlation_id, 4711, 0, []))


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (another_leader, "it names 77 as leader of epoch"),
        (last_epoch_of_all, "it names epoch 2147483647"),
        (divergence_beyond_the_end, "does not go on from offset"),
        (snapshot_of_nothing, "does not go on from offset"),
        (hole, "does not go on from offset"),
    ],
)
def test_an_answer_that_cannot_be_is_told_of_once_and_not_used(
    trio: Cluster, lie: Callable[[FetchResponse], bytes], why: str
) -> None:
    leader, reader = active(trio), follower(trio)
    trio.answer_becomes = instead(leader, reader, lie)
    trio.create_topic("before", factor=1, via=leader.node_id)
    trio.wait(1000)

    [told] = reader.of_kind(ControllerDisbelieved)
    assert told.address == f"{leader.host}:9093"
    assert why in told.cause
    assert "before" not in reader.image.topics_by_name
    trio.answer_becomes = lambda _, frame: frame
    trio.wait(5000)
    assert "before" in reader.image.topics_by_name
    require_all_well(trio, "after")
    assert len(reader.of_kind(ControllerDisbelieved)) == 1

    trio.answer_becomes = instead(leader, reader, lie)
    trio.create_topic("again", factor=1, via=leader.node_id)
    trio.wait(1000)
    assert len(reader.of_kind(ControllerDisbelieved)) == 2


def test_an_answer_to_a_vote_that_cannot_be_is_told_of(trio: Cluster) -> None:
    stands = follower(trio)
    other = next(each for each in running(trio) if each not in (active(trio), stands))

    def become(wire: Wire, frame: bytes) -> bytes:
        if wire.caller is not stands or wire.callee is not other:
            return frame
        try:
            number, answer = decode_response(VoteResponse, VOTE_VERSION, memoryview(frame))
        except MalformedRequest:
            return frame
        lie = vote_response(answer_in(answer)._replace(epoch=(1 << 31) - 1))
        return encode_response(lie, VOTE_VERSION, number)

    trio.answer_becomes = become
    active(trio).kill()
    trio.wait(1000)

    told = stands.of_kind(ControllerDisbelieved)
    assert [event.address for event in told] == [f"{other.host}:9093"]
    assert "it names epoch 2147483647" in told[0].cause
    trio.wait_until(lambda: any(each.node.quorum.is_active for each in running(trio)), 20_000)


def test_a_leader_whose_snapshot_never_ends_is_asked_no_more_than_one_that_is_not_there(
    new_cluster: NewCluster,
) -> None:
    two = new_cluster(
        2, metadata_log_max_snapshot_interval_ms="10000", metadata_max_retention_bytes="1"
    )
    two.start(100)
    two.create_topic("orders", 30, factor=1)
    two.wait(25_000)
    pieces = 0

    def become(wire: Wire, frame: bytes) -> bytes:
        nonlocal pieces
        try:
            number, answer = decode_response(
                FetchSnapshotResponse, SNAPSHOT_VERSION, memoryview(frame)
            )
        except MalformedRequest:
            return frame
        pieces += 1
        assert pieces < 1000
        [partition] = answer.topics[0].partitions
        nothing = FetchSnapshotResponsePartitionSnapshot(
            snapshot_id=partition.snapshot_id,
            size=partition.size,
            position=partition.position,
            unaligned_records=b"",
        )
        topic = FetchSnapshotResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[nothing])
        return encode_response(FetchSnapshotResponse(topics=[topic]), SNAPSHOT_VERSION, number)

    two.answer_becomes = become
    two[101].start()
    two.wait(1000)
    assert 0 < pieces <= 1000 // 20 + 1
    two.answer_becomes = lambda _, frame: frame
    two.wait_until(lambda: two[101].is_serving, 5000)


def test_an_error_that_this_node_does_not_know_is_an_answer_of_no_use(trio: Cluster) -> None:
    leader, reader = active(trio), follower(trio)
    trio.answer_becomes = instead(leader, reader, error_of_another_time)
    trio.create_topic("before", factor=1, via=leader.node_id)
    trio.wait(1000)
    assert "before" not in reader.image.topics_by_name
    trio.answer_becomes = lambda _, frame: frame
    require_all_well(trio, "after")


# Anything at all

ids: Final = st.sampled_from([-2, -1, 0, 77, 100, 101, 102, (1 << 31) - 1])
numbers: Final = st.sampled_from([-2, -1, 0, 1, 2, 3, 5, 1 << 30, (1 << 31) - 1])
offsets: Final = st.integers(-2, 60) | st.just((1 << 63) - 1)
cluster_ids: Final = st.sampled_from([None, CLUSTER_ID, CLUSTER_ID, "another"])


class Words:
    """Requests to one node of a cluster, drawn at random."""

    def __init__(self, cluster: Cluster, machine: Machine, draw: Callable[..., Any]) -> None:
        self._quorum = machine.node.quorum
        self._draw = draw
        self._directories = [ZERO_UUID, METADATA_TOPIC_ID] + [
            each.node.quorum.identity.directory_id for each in running(cluster)
        ]

    def any_request(self) -> tuple[ApiKey, int, dict[str, Any]]:
        kinds = {
            ApiKey.VOTE: self._vote,
            ApiKey.BEGIN_QUORUM_EPOCH: self._begin,
            ApiKey.END_QUORUM_EPOCH: self._end,
            ApiKey.FETCH: self._fetch,
            ApiKey.FETCH_SNAPSHOT: self._fetch_snapshot,
            ApiKey.UPDATE_RAFT_VOTER: self._update,
            ApiKey.ADD_RAFT_VOTER: self._add,
            ApiKey.REMOVE_RAFT_VOTER: self._remove,
        }
        api = self._draw(st.sampled_from(sorted(kinds)))
        version, fields = kinds[api]()
        return api, version, {"cluster_id": self._draw(cluster_ids), **fields}

    def _epoch(self) -> int:
        near = st.integers(-1, 2).map(lambda step: self._quorum.epoch + step)
        return int(self._draw(near | numbers))

    def _directory(self) -> Any:
        return self._draw(st.sampled_from(self._directories))

    def _listeners(self) -> list[dict[str, Any]]:
        names, hosts = st.sampled_from(["CONTROLLER", "X"]), st.sampled_from(["", "node-101", "x"])
        ports = st.sampled_from([0, 9093, 65535])
        each = st.fixed_dictionaries({"name": names, "host": hosts, "port": ports})
        return list(self._draw(st.lists(each, max_size=2)))

    def _topics(self, partition: dict[str, Any], name: str = "topic_name") -> dict[str, Any]:
        topic = {name: METADATA_TOPIC, "partitions": [partition] * self._times()}
        return {"topics": [topic] * self._times()}

    def _times(self) -> int:
        return int(self._draw(st.sampled_from([1, 1, 1, 1, 0, 2])))

    def _vote(self) -> tuple[int, dict[str, Any]]:
        partition = {
            "partition_index": 0,
            "replica_epoch": self._epoch(),
            "replica_id": self._draw(ids),
            "replica_directory_id": self._directory(),
            "voter_directory_id": self._directory(),
            "last_offset_epoch": self._epoch(),
            "last_offset": self._draw(offsets),
            "pre_vote": self._draw(st.booleans()),
        }
        return 2, {"voter_id": self._draw(ids), **self._topics(partition)}

    def _begin(self) -> tuple[int, dict[str, Any]]:
        partition = {
            "partition_index": 0,
            "voter_directory_id": self._directory(),
            "leader_id": self._draw(ids),
            "leader_epoch": self._epoch(),
        }
        more = {"voter_id": self._draw(ids), "leader_endpoints": self._listeners()}
        return 1, {**more, **self._topics(partition)}

    def _end(self) -> tuple[int, dict[str, Any]]:
        successor = {"candidate_id": self._draw(ids), "candidate_directory_id": self._directory()}
        partition = {
            "partition_index": 0,
            "leader_id": self._draw(ids),
            "leader_epoch": self._epoch(),
            "preferred_candidates": [successor],
        }
        return 1, {"leader_endpoints": self._listeners(), **self._topics(partition)}

    def _fetch(self) -> tuple[int, dict[str, Any]]:
        partition = {
            "partition": 0,
            "current_leader_epoch": self._epoch(),
            "fetch_offset": self._draw(offsets),
            "last_fetched_epoch": self._epoch(),
            "log_start_offset": -1,
            "partition_max_bytes": self._draw(numbers),
            "replica_directory_id": self._directory(),
        }
        topic = {"topic_id": METADATA_TOPIC_ID, "partitions": [partition] * self._times()}
        return 17, {
            "replica_state": {"replica_id": self._draw(ids), "replica_epoch": -1},
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": self._draw(numbers),
            "session_epoch": -1,
            "topics": [topic] * self._times(),
        }

    def _fetch_snapshot(self) -> tuple[int, dict[str, Any]]:
        partition = {
            "partition": 0,
            "current_leader_epoch": self._epoch(),
            "snapshot_id": {"end_offset": self._draw(offsets), "epoch": self._epoch()},
            "position": self._draw(offsets),
            "replica_directory_id": self._directory(),
        }
        more = {"replica_id": self._draw(ids), "max_bytes": self._draw(numbers)}
        return 1, {**more, **self._topics(partition, "name")}

    def _update(self) -> tuple[int, dict[str, Any]]:
        versions = {
            "min_supported_version": self._draw(st.integers(0, 2)),
            "max_supported_version": self._draw(st.integers(0, 2)),
        }
        return 0, {
            "current_leader_epoch": self._epoch(),
            "voter_id": self._draw(ids),
            "voter_directory_id": self._directory(),
            "listeners": self._listeners(),
            "k_raft_version_feature": versions,
        }

    def _add(self) -> tuple[int, dict[str, Any]]:
        who = {"voter_id": self._draw(ids), "voter_directory_id": self._directory()}
        return 1, {**who, "timeout": 1000, "listeners": self._listeners()}

    def _remove(self) -> tuple[int, dict[str, Any]]:
        return 0, {"voter_id": self._draw(ids), "voter_directory_id": self._directory()}


@settings(deadline=None, max_examples=examples(25))
@given(st.data())
def test_whatever_strangers_ask_of_the_quorum_no_node_stops(data: st.DataObject) -> None:
    three = Cluster(3, {}, 3)
    three.start()
    for _ in range(data.draw(st.integers(1, 15))):
        machine = data.draw(st.sampled_from(running(three)))
        words = Words(three, machine, data.draw)
        api, version, fields = words.any_request()
        three.client(machine.node_id, "CONTROLLER").send(api, version, **fields)
        three.wait(data.draw(st.sampled_from([0, 10, 3000])))
    assert [machine.stopped for machine in three.machines.values()] == [None] * 3
    assert len(running(three)) == 3
