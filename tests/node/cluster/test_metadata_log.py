"""How brokers follow the metadata log: what the leader gives, and what they make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.protocol.kio_messages.entity_messages import request_header

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from tidelog.node.core.inputs import FrameArrived
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    decode_fetch_response,
    encode_fetch,
)
from tidelog.simulator.disk.crash import after_crash, data_lost, names_undone
from tidelog.storage.filesystem import read_all

if TYPE_CHECKING:
    from tests.node.cluster.conftest import Client, Cluster, NewCluster

LOG = "/data/__cluster_metadata-0/00000000000000000000.log"
VERSION = 18


def leader_epoch(cluster: Cluster) -> int:
    description = cluster[100].node.quorum.describe(cluster.now)
    assert description is not None
    return description.leader_epoch


def send_fetch(cluster: Cluster, client: Client, version: int = VERSION, **how: Any) -> None:
    epoch = leader_epoch(cluster)
    partition = FetchPartition(0, epoch, 0, 0, -1, 1 << 20, UUID(int=7), high_watermark=-1)
    partition = partition._replace(**how.pop("partition", {}))
    named = None if version >= 13 else METADATA_TOPIC
    topics = [FetchTopic(named, METADATA_TOPIC_ID if version >= 13 else None, [partition])]
    request = FetchRequest(7, -1, 500, 0, 1 << 20, 0, 0, -1, topics, [], "", None)
    body = encode_fetch(version, request._replace(**how))
    frame = request_header(ApiKey.FETCH, version, 1, "test", version >= 12) + body
    number = client.wire.number
    cluster.deliver(
        cluster[100], lambda now: FrameArrived(now, number, memoryview(bytearray(frame)))
    )
    cluster.settle()


def fetched(client: Client, version: int = VERSION) -> FetchResponse:
    return decode_fetch_response(memoryview(client.frames.pop(0)), version)


def fetch_one(cluster: Cluster, version: int = VERSION, **how: Any) -> FetchedPartition:
    client = cluster.client(100, "CONTROLLER")
    send_fetch(cluster, client, version, max_wait_ms=0, **how)
    [topic] = fetched(client, version).topics
    [partition] = topic.partitions
    return partition


# What the leader gives


@pytest.mark.parametrize("version", [12, 13, 16, 17, 18])
def test_a_follower_gets_the_log_as_it_lies_on_disk(cluster: Cluster, version: int) -> None:
    answer = fetch_one(cluster, version)
    assert answer.error == 0
    assert isinstance(answer.records, memoryview)
    assert bytes(answer.records) == read_all(cluster[100].files, LOG)
    assert answer.current_leader is not None
    assert answer.current_leader[0] == 100
    assert answer.high_watermark == cluster[100].node.rooms.metadata.feed.applied


def test_the_answer_says_where_the_leader_is(cluster: Cluster) -> None:
    client = cluster.client(100, "CONTROLLER")
    send_fetch(cluster, client, max_wait_ms=0)
    [endpoint] = fetched(client).node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (100, "node-100", 9093)


def test_an_older_epoch_is_fenced_and_a_later_one_is_unknown(cluster: Cluster) -> None:
    older = fetch_one(cluster, partition={"current_leader_epoch": 0})
    assert older.error == ErrorCode.fenced_leader_epoch
    assert not older.records
    assert older.current_leader is not None
    later = fetch_one(cluster, partition={"current_leader_epoch": 99})
    assert later.error == ErrorCode.unknown_leader_epoch


def test_a_follower_hears_where_its_log_parts_from_the_leaders(cluster: Cluster) -> None:
    end = cluster[100].node.rooms.metadata.feed.applied
    epoch = leader_epoch(cluster)
    ahead = fetch_one(cluster, partition={"fetch_offset": end + 5, "last_fetched_epoch": epoch})
    assert (ahead.error, ahead.diverging_epoch) == (0, (epoch, end))


def test_a_fetch_with_nothing_new_waits_for_the_next_record(cluster: Cluster) -> None:
    client = cluster.client(100, "CONTROLLER")
    feed = cluster[100].node.rooms.metadata.feed
    epoch = leader_epoch(cluster)
    here = {
        "fetch_offset": feed.applied,
        "last_fetched_epoch": epoch,
        "high_watermark": feed.applied,
    }
    send_fetch(cluster, client, partition=here, max_wait_ms=10_000)
    assert client.frames == []
    cluster.create_topic("orders")
    assert len(client.frames) == 1
    assert fetched(client).topics[0].partitions[0].records


def test_a_fetch_with_nothing_new_is_answered_when_its_time_is_up(new_cluster: NewCluster) -> None:
    cluster = new_cluster(1, metadata_max_idle_interval_ms="0")
    cluster.start()
    client = cluster.client(100, "CONTROLLER")
    feed = cluster[100].node.rooms.metadata.feed
    epoch = leader_epoch(cluster)
    here = {
        "fetch_offset": feed.applied,
        "last_fetched_epoch": epoch,
        "high_watermark": feed.applied,
    }
    send_fetch(cluster, client, partition=here, max_wait_ms=300)
    cluster.wait(299)
    assert client.frames == []
    cluster.wait(2)
    assert fetched(client).topics[0].partitions[0].error == 0


def test_a_fetch_that_waits_is_a_sign_of_life_once(new_cluster: NewCluster) -> None:
    cluster = new_cluster(1, metadata_max_idle_interval_ms="0")
    cluster.start()
    client, asked_ms = cluster.client(100, "CONTROLLER"), cluster.now.wall_ms
    applied = cluster[100].node.rooms.metadata.feed.applied
    here = {
        "fetch_offset": applied,
        "last_fetched_epoch": leader_epoch(cluster),
        "high_watermark": applied,
    }
    send_fetch(cluster, client, partition=here, max_wait_ms=300)
    cluster.wait(301)
    assert len(client.frames) == 1
    description = cluster[100].node.quorum.describe(cluster.now)
    assert description is not None
    [follower] = description.observers
    assert (follower.replica_id, follower.last_fetch_ms) == (7, asked_ms)


def test_a_follower_that_does_not_know_the_high_watermark_is_told_at_once(
    cluster: Cluster,
) -> None:
    feed = cluster[100].node.rooms.metadata.feed
    epoch = leader_epoch(cluster)
    client = cluster.client(100, "CONTROLLER")
    behind = {
        "fetch_offset": feed.applied,
        "last_fetched_epoch": epoch,
        "high_watermark": feed.applied - 1,
    }
    send_fetch(cluster, client, partition=behind, max_wait_ms=10_000)
    assert fetched(client).topics[0].partitions[0].high_watermark == feed.applied


def test_another_cluster_another_topic_and_two_partitions_are_refused(cluster: Cluster) -> None:
    client = cluster.client(100, "CONTROLLER")
    send_fetch(cluster, client, cluster_id="another")
    assert fetched(client).error == ErrorCode.inconsistent_cluster_id
    wanted = FetchPartition(0, 1, 0, 0, -1, 1 << 20)
    for topics in (
        [],
        [FetchTopic(None, UUID(int=2), [wanted])],
        [FetchTopic(None, METADATA_TOPIC_ID, [wanted, wanted])],
    ):
        send_fetch(cluster, client, topics=topics)
        assert fetched(client).error == ErrorCode.invalid_request


def test_a_negative_offset_is_refused(cluster: Cluster) -> None:
    assert fetch_one(cluster, partition={"fetch_offset": -1}).error == ErrorCode.invalid_request


# What brokers make of it


def test_the_log_of_a_broker_is_that_of_the_controller_byte_for_byte(cluster: Cluster) -> None:
    cluster.create_topic("orders", 3)
    cluster.wait(1000)
    assert read_all(cluster[101].files, LOG) == read_all(cluster[100].files, LOG)


def test_a_broker_cuts_what_a_controller_lost_with_its_power_before_it_was_committed(
    cluster: Cluster,
) -> None:
    controller = cluster[100]
    controller.holds_jobs = True
    client = cluster.client(100)
    topic = {
        "name": "lost",
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    client.send(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=1000)
    cluster.wait(5)
    observer = cluster[101].node.rooms.metadata.feed._replica
    end = observer.log.end_offset
    assert observer.high_watermark < end, "the broker has records that were never committed"
    controller.kill()
    controller.holds_jobs = False
    controller.files = after_crash(controller.files, data_lost, names_undone)
    cluster.start(100)
    cluster.wait(2000)
    assert "lost" not in cluster[101].image.topics_by_name
    assert read_all(cluster[101].files, LOG) == read_all(cluster[100].files, LOG)


def test_a_broker_that_lost_power_fetches_again_what_was_not_on_its_disk(cluster: Cluster) -> None:
    cluster.create_topic("orders", 3)
    cluster[101].kill()
    cluster[101].files = after_crash(cluster[101].files, data_lost, names_undone)
    cluster.start(101)
    assert cluster[101].image.digest() == cluster[100].image.digest()


def test_a_long_log_is_fetched_in_pieces(new_cluster: NewCluster) -> None:
    cluster = new_cluster(2, controller_quorum_fetch_max_bytes="500")
    cluster.start(100)
    cluster.create_topic("orders", 40, factor=1)
    cluster.start(101)
    assert cluster[101].image.digest() == cluster[100].image.digest()


# Snapshots


@pytest.fixture
def snapshotting(new_cluster: NewCluster) -> Cluster:
    """A controller that keeps only its newest snapshot, taken every ten seconds."""
    cluster = new_cluster(
        2,
        metadata_log_max_snapshot_interval_ms="10000",
        metadata_max_retention_bytes="1",
        controller_quorum_fetch_snapshot_max_bytes="700",
    )
    cluster.start(100)
    cluster.create_topic("orders", 30, factor=1)
    cluster.wait(25_000)
    assert cluster[100].files.list("/data/__cluster_metadata-0")
    return cluster


def test_a_broker_that_comes_late_begins_with_a_snapshot(snapshotting: Cluster) -> None:
    snapshotting.start(101)
    assert snapshotting[101].image.digest() == snapshotting[100].image.digest()
    assert len(snapshotting[101].image.topics_by_name["orders"].partitions) == 30
    names = snapshotting[101].files.list("/data/__cluster_metadata-0")
    assert any(name.endswith(".checkpoint") for name in names)


def test_a_broker_that_was_away_for_long_goes_on_with_a_snapshot(snapshotting: Cluster) -> None:
    cluster = snapshotting
    cluster.start(101)
    cluster.create_topic("clicks", 2)
    cluster[101].kill()
    cluster.client(100).ask(
        ApiKey.DELETE_TOPICS, 6, topics=[{"name": "orders", "topic_id": None}], timeout=1000
    )
    cluster.create_topic("views", 2, factor=1)
    cluster.wait(25_000)
    cluster.start(101)
    assert set(cluster[101].image.topics_by_name) == {"clicks", "views"}
    assert cluster[101].image.digest() == cluster[100].image.digest()


def test_settings_of_a_topic_that_came_in_a_snapshot_are_in_force(snapshotting: Cluster) -> None:
    cluster = snapshotting
    cluster.start(101)
    cluster.create_topic("clicks", min_insync_replicas="2", retention_ms="123456")
    cluster.wait(25_000)
    cluster[101].kill()
    cluster.start(101)
    partition = cluster[101].node.replicas.get(TopicPartition("clicks", 0))

    assert cluster[101].node.quorum.log.start_offset > 0
    assert partition is not None
    assert partition.min_in_sync == 2
    assert partition.log.config.retention_ms == 123456


def test_a_running_broker_that_skips_a_part_of_the_log_acts_on_all_that_changed(
    snapshotting: Cluster,
) -> None:
    cluster = snapshotting
    cluster.start(101)
    cluster.create_topic("clicks", 2)
    assert len(cluster[101].node.replicas) == 2
    cluster[101].is_paused = True
    cluster.client(100).ask(
        ApiKey.DELETE_TOPICS, 6, topics=[{"name": "clicks", "topic_id": None}], timeout=1000
    )
    cluster.wait(25_000)
    cluster[101].is_paused = False
    cluster.wait(5000)
    assert cluster[101].image.digest() == cluster[100].image.digest()
    assert len(cluster[101].node.replicas) == 0


def test_a_snapshot_that_is_not_there_and_a_position_behind_its_end_are_refused(
    snapshotting: Cluster,
) -> None:
    cluster = snapshotting
    client = cluster.client(100, "CONTROLLER")
    epoch = leader_epoch(cluster)
    [name] = [
        name
        for name in cluster[100].files.list("/data/__cluster_metadata-0")
        if name.endswith(".checkpoint")
    ]
    end_offset, snapshot_epoch = int(name[:20]), int(name[21:31])

    def ask(end_offset: int, position: int, epoch: int = epoch) -> int:
        partition = {
            "partition": 0,
            "current_leader_epoch": epoch,
            "snapshot_id": {"end_offset": end_offset, "epoch": snapshot_epoch},
            "position": position,
        }
        answer = client.ask(
            ApiKey.FETCH_SNAPSHOT,
            1,
            replica_id=7,
            max_bytes=1000,
            topics=[{"name": METADATA_TOPIC, "partitions": [partition]}],
        )
        return int(answer.topics[0].partitions[0].error_code)

    assert ask(end_offset, 0) == 0
    assert ask(end_offset + 1, 0) == ErrorCode.snapshot_not_found
    assert ask(end_offset, 1 << 20) == ErrorCode.position_out_of_range
    assert ask(end_offset, -1) == ErrorCode.position_out_of_range
    assert ask(end_offset, 0, epoch - 1) == ErrorCode.fenced_leader_epoch
    assert ask(end_offset, 0, epoch + 1) == ErrorCode.unknown_leader_epoch
