"""Disks that fill up or fail: what clients see, and when the node must stop."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.node.node_bench import CLUSTER_ID, NODE_ID

from tidelog.model.errors import DiskError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.node.core.effects import Lane
from tidelog.node.core.inputs import JobFinished
from tidelog.observe.events import LogDirectoryOffline, NodeStopped
from tidelog.protocol.apis import ApiKey
from tidelog.simulator.disk.crash import after_crash
from tidelog.simulator.disk.disk_operation import (
    Appended,
    DirectoryMade,
    FileCreated,
    FileSynced,
    Operation,
    Renamed,
)
from tidelog.storage.identity import DirectoryIdentity, write_identity

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer


def fail_in(bench: NodeBench, directory: str, *kinds: type[Operation], why: str = "full") -> None:
    bench.files.fail_when(
        lambda operation: isinstance(operation, kinds) and operation.path.startswith(directory),
        why,
    )


# One directory


@pytest.mark.parametrize("why", ["No space left on device", "Input/output error"])
def test_a_batch_that_cannot_be_written_is_not_acknowledged_and_the_node_stops(
    bench: NodeBench, peer: Peer, batch: NewBatch, why: str
) -> None:
    bench.create_topic("orders")
    fail_in(bench, "/data/orders-0", Appended, why=why)
    assert peer.produce("orders", batch()).error == ErrorCode.kafka_storage_error
    [offline] = bench.of_kind(LogDirectoryOffline)
    assert (offline.directory, why in offline.cause) == ("/data", True)
    [stopped] = bench.of_kind(NodeStopped)
    assert not stopped.clean
    assert bench.stopped is not None
    assert why in (bench.stopped.failure or "")


def test_nothing_is_appended_after_a_failure_even_if_the_disk_recovers(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    fail_in(bench, "/data/orders-0", Appended)
    peer.send_produce({("orders", 0): batch()})
    bench.files.heal()
    peer.send_produce({("orders", 0): batch()})
    assert [
        answer.topics[0].partitions[0].error for answer in (peer.produced(), peer.produced())
    ] == [ErrorCode.kafka_storage_error] * 2
    assert bench.partition("orders").log.end_offset == 0


def test_with_acks_0_a_full_disk_closes_the_connection(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    fail_in(bench, "/data/orders-0", Appended)
    peer.send_produce({("orders", 0): batch()}, acks=0)
    assert peer.closed is not None


def test_a_metadata_log_that_cannot_be_written_stops_the_node(bench: NodeBench, peer: Peer) -> None:
    fail_in(bench, "/data/__cluster_metadata-0", Appended)
    with pytest.raises(DiskError, match="metadata log cannot be written"):
        peer.send(ApiKey.METADATA, 12, topics=[{"name": "orders"}], allow_auto_topic_creation=True)


# Several directories


@pytest.fixture
def two(new_bench: NewBench) -> NodeBench:
    """A node with the metadata in /data, and a topic with partitions in both directories."""
    bench = new_bench(log_dirs="/data,/more")
    bench.create_topic("orders", 4)
    assert {home(bench, index) for index in range(4)} == {"/data", "/more"}
    return bench


def home(bench: NodeBench, index: int) -> str:
    return bench.partition("orders", index).log.directory.rpartition("/")[0]


def in_directory(bench: NodeBench, directory: str) -> list[int]:
    return [index for index in range(4) if home(bench, index) == directory]


def test_a_failed_directory_takes_its_partitions_along_and_no_others(
    two: NodeBench, batch: NewBatch
) -> None:
    peer = two.connect()
    fail_in(two, "/more", Appended)
    bad, good = in_directory(two, "/more"), in_directory(two, "/data")
    assert peer.produce("orders", batch(), bad[0]).error == ErrorCode.kafka_storage_error
    assert [event.directory for event in two.of_kind(LogDirectoryOffline)] == ["/more"]
    assert two.stopped is None
    for index in bad:
        assert peer.produce("orders", batch(), index).error == ErrorCode.kafka_storage_error
    for index in good:
        assert peer.produce("orders", batch(), index).error == 0


def test_the_node_goes_on_with_its_chores_and_tells_the_controller(
    two: NodeBench, batch: NewBatch
) -> None:
    peer = two.connect()
    fail_in(two, "/more", Appended, FileCreated, FileSynced, Renamed)
    [bad, *_] = in_directory(two, "/more")
    peer.produce("orders", batch(), bad)
    registration = two.node.cluster.image.brokers[100]
    lost = two.node.rooms.base.directories[1].identity.directory_id
    assert lost not in registration.log_dirs, "it is told at once"
    two.wait(700_000)
    assert two.stopped is None
    assert len(two.of_kind(LogDirectoryOffline)) == 1
    assert lost not in two.node.cluster.image.brokers[100].log_dirs


def test_new_partitions_go_to_the_directory_that_is_left(two: NodeBench, batch: NewBatch) -> None:
    two.node.rooms.base.directories[1].health.fail("I/O error")
    two.wait(5000)
    two.create_topic("clicks", 2)
    for index in range(2):
        assert two.partition("clicks", index).log.directory.startswith("/data/")
        assert two.connect().produce("clicks", batch(), index).error == 0


def test_a_replica_is_not_made_elsewhere_than_where_the_metadata_wants_it(
    two: NodeBench,
) -> None:
    first, second = two.node.rooms.base.directories
    second.health.fail("I/O error")
    hosting = two.node.rooms.replicas.hosting
    assert hosting._directory_for(second.identity.directory_id, is_new=True) is None
    assert hosting._directory_for(first.identity.directory_id, is_new=False) is first


def test_a_partition_whose_directory_fails_while_it_is_made_is_offline(
    two: NodeBench, batch: NewBatch
) -> None:
    fail_in(two, "/more", DirectoryMade)
    two.create_topic("clicks", 4)
    errors = {two.connect().produce("clicks", batch(), index).error for index in range(4)}
    assert ErrorCode.kafka_storage_error in errors
    assert errors <= {ErrorCode.none, ErrorCode.kafka_storage_error}
    assert two.stopped is None


def test_a_directory_that_cannot_be_read_at_the_start_is_not_begun_anew_elsewhere(
    two: NodeBench, batch: NewBatch
) -> None:
    peer = two.connect()
    for index in range(4):
        peer.produce("orders", batch(b"a"), index)
    bad, good = in_directory(two, "/more"), in_directory(two, "/data")
    disk = after_crash(two.files)
    disk.fail_when(
        lambda operation: operation.path.startswith("/more/orders"), "Input/output error"
    )
    again = two.again(disk)
    client = again.connect()
    for index in good:
        assert client.produce("orders", batch(b"b"), index).base_offset == 1
    for index in bad:
        refused = client.produce("orders", batch(b"b"), index)
        assert refused.error == ErrorCode.kafka_storage_error
    assert [event.directory for event in again.of_kind(LogDirectoryOffline)] == ["/more"]


def test_a_replica_that_may_lie_in_a_failed_directory_is_not_begun_anew_in_another_one(
    new_bench: NewBench, batch: NewBatch
) -> None:
    three = new_bench(log_dirs="/data,/more,/third")
    three.create_topic("orders", 6)
    three.wait(10)
    peer = three.connect()
    for index in range(6):
        peer.produce("orders", batch(b"a"), index)
    places = {index: home(three, index) for index in range(6)}
    assert {*places.values()} == {"/data", "/more", "/third"}

    disk = after_crash(three.files)
    disk.remove_directory("/third")
    blank = DirectoryIdentity(CLUSTER_ID, NODE_ID, UUID(int=4711))
    disk.make_directory("/third")
    write_identity(disk, "/third", blank)
    disk.fail_when(lambda operation: operation.path.startswith("/more/orders"))
    again = three.again(disk)

    assert [event.directory for event in again.of_kind(LogDirectoryOffline)] == ["/more"]
    for index, place in places.items():
        assert (again.node.replicas.get(TopicPartition("orders", index)) is not None) == (
            place == "/data"
        )
        assert disk.exists(f"/data/orders-{index}") == (place == "/data")
        assert not disk.exists(f"/third/orders-{index}")

    disk.heal()
    healed = again.again(after_crash(disk))
    ends = {index: healed.partition("orders", index).log.end_offset for index in places}
    assert ends == {index: 0 if place == "/third" else 1 for index, place in places.items()}


def test_a_topic_that_goes_while_a_later_directory_is_loaded_is_not_hosted(two: NodeBench) -> None:
    two.stop()
    started = two.again(holds_jobs=True)

    def run(*lanes: Lane) -> None:
        while held := [job for job in started.jobs if job.lane in lanes]:
            started.jobs.remove(held[0])
            held[0].work()
            started.step(JobFinished(started.now, held[0].job_id, None))
            started.end_tick()

    while not any(job.lane is Lane.LONG for job in started.jobs):
        run(Lane.QUORUM, Lane.CHECKPOINTS, Lane.FLUSHES)
        started.wait(50)
    first = next(job for job in started.jobs if job.lane is Lane.LONG)
    started.jobs.remove(first)
    first.work()
    started.step(JobFinished(started.now, first.job_id, None))
    started.connect("CONTROLLER").send(
        ApiKey.DELETE_TOPICS, 6, topics=[{"name": "orders", "topic_id": None}], timeout=1000
    )
    run(Lane.QUORUM)
    assert not started.node.cluster.image.topics_by_name

    run(*Lane)

    assert [partition.name for partition in started.node.replicas] == []


def test_when_the_directory_of_the_metadata_fails_the_node_stops(
    two: NodeBench, batch: NewBatch
) -> None:
    [bad, *_] = in_directory(two, "/data")
    fail_in(two, "/data/orders", Appended)
    assert two.connect().produce("orders", batch(), bad).error == ErrorCode.kafka_storage_error
    assert two.stopped is not None


def test_the_other_directory_is_left_in_order_when_the_node_stops(
    two: NodeBench, batch: NewBatch
) -> None:
    two.node.rooms.base.directories[1].health.fail("I/O error")
    two.stop()
    assert two.files.exists("/data/.kafka_cleanshutdown")
    assert not two.files.exists("/more/.kafka_cleanshutdown")
    [stopped] = two.of_kind(NodeStopped)
    assert not stopped.clean
