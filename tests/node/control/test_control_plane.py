"""The metadata log of a node: records that say nothing, group commit, snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidelog.controller.records import decode_record
from tidelog.model.errors import DiskError
from tidelog.node.core.effects import Lane
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.stored.metadata import NoOpRecord
from tidelog.records.batch import whole_batches
from tidelog.records.record import records_of
from tidelog.simulator.disk.crash import after_crash, data_lost, names_undone
from tidelog.simulator.disk.disk_operation import Renamed
from tidelog.storage.filesystem import read_all

if TYPE_CHECKING:
    from tests.node.conftest import NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

HOME = "/data/__cluster_metadata-0"


def metadata_records(bench: NodeBench) -> list[Any]:
    """What stands in the metadata log, without the quorum's own records."""
    content = read_all(bench.files, f"{HOME}/00000000000000000000.log")
    return [
        decode_record(record.value)
        for header, batch in whole_batches(content)
        if not header.is_control
        for record in records_of(batch)
        if record.value is not None
    ]


def idle_records(bench: NodeBench) -> int:
    return sum(isinstance(record, NoOpRecord) for record in metadata_records(bench))


def snapshots(bench: NodeBench) -> list[str]:
    return [name for name in bench.files.list(HOME) if name.endswith(".checkpoint")]


def ask_for_topic(peer: Peer, name: str) -> None:
    peer.send(ApiKey.METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=True)


# Records that say nothing


def test_an_idle_controller_writes_a_record_that_says_nothing_every_half_second(
    bench: NodeBench,
) -> None:
    before = idle_records(bench)
    end = bench.node.cluster.image.end_offset
    bench.wait(5000)
    assert idle_records(bench) - before == 10
    assert bench.node.cluster.image.end_offset == end + 10


def test_a_busy_controller_does_not(bench: NodeBench) -> None:
    before = idle_records(bench)
    for number in range(12):
        bench.wait(400)
        bench.create_topic(f"topic-{number}")
    assert idle_records(bench) == before


def test_the_idle_interval_is_configured_and_can_be_switched_off(new_bench: NewBench) -> None:
    bench = new_bench(metadata_max_idle_interval_ms="0")
    bench.wait(60_000)
    assert idle_records(bench) == 0


# Commit


def test_what_is_decided_during_a_sync_is_committed_by_the_next_one_together(
    bench: NodeBench,
) -> None:
    bench.holds_jobs = True
    peers = [bench.connect() for _ in range(5)]
    for number, peer in enumerate(peers):
        ask_for_topic(peer, f"topic-{number}")
    assert len(bench.jobs) == 1
    bench.run_job()
    assert [len(peer.frames) for peer in peers] == [1, 0, 0, 0, 0]
    assert [job.lane for job in bench.jobs].count(Lane.QUORUM) == 1
    bench.run_job()
    assert [len(peer.frames) for peer in peers] == [1] * 5


def test_the_image_of_the_broker_holds_committed_records_only(bench: NodeBench, peer: Peer) -> None:
    bench.holds_jobs = True
    ask_for_topic(peer, "orders")
    assert "orders" not in bench.node.cluster.image.topics_by_name
    bench.run_jobs()
    assert "orders" in bench.node.cluster.image.topics_by_name


def test_what_was_answered_survives_a_power_cut(bench: NodeBench) -> None:
    bench.create_topic("orders", 3)
    before = bench.node.cluster.image.topics_by_name["orders"].topic_id
    again = bench.again(after_crash(bench.files, data_lost, names_undone))
    assert again.node.cluster.image.topics_by_name["orders"].topic_id == before
    assert len(again.node.replicas) == 3


# Snapshots


@pytest.fixture
def snapshotting(new_bench: NewBench) -> NodeBench:
    """A node that takes a snapshot every ten seconds and keeps only the newest."""
    return new_bench(
        metadata_log_max_snapshot_interval_ms="10000", metadata_max_retention_bytes="1"
    )


def test_a_snapshot_is_taken_after_enough_time_and_older_ones_go(
    snapshotting: NodeBench,
) -> None:
    snapshotting.create_topic("orders")
    assert snapshots(snapshotting) == ["00000000000000000000-0000000000.checkpoint"]
    snapshotting.wait(12_000)
    [first] = snapshots(snapshotting)
    snapshotting.wait(12_000)
    [second] = snapshots(snapshotting)
    assert first < second


def test_a_snapshot_is_taken_after_enough_bytes(new_bench: NewBench) -> None:
    bench = new_bench(metadata_log_max_record_bytes_between_snapshots="2000")
    bench.wait(5000)
    before = len(snapshots(bench))
    bench.create_topic("orders", 50)
    bench.wait(1000)
    assert len(snapshots(bench)) > before


@pytest.mark.parametrize("clean", [True, False])
def test_a_node_starts_from_its_newest_snapshot_and_what_came_after_it(
    snapshotting: NodeBench, clean: bool
) -> None:
    snapshotting.create_topic("orders", 2)
    snapshotting.wait(12_000)
    snapshotting.create_topic("clicks")
    assert snapshotting.node.cluster.image.end_offset > 0
    if clean:
        snapshotting.stop()
        again = snapshotting.again()
    else:
        again = snapshotting.again(after_crash(snapshotting.files, data_lost, names_undone))
    assert set(again.node.cluster.image.topics_by_name) == {"orders", "clicks"}
    assert again.partition("orders", 1).is_leader
    assert again.partition("clicks").is_leader


def test_the_state_from_a_snapshot_is_that_of_the_whole_log(snapshotting: NodeBench) -> None:
    snapshotting.create_topic("orders", 2, retention_ms="1000")
    snapshotting.connect().ask(
        ApiKey.INIT_PRODUCER_ID, 0, transactional_id=None, transaction_timeout=1000
    )
    snapshotting.wait(12_000)
    snapshotting.stop()
    image = snapshotting.node.cluster.image
    again = snapshotting.again().node.cluster.image
    assert again.configs == image.configs
    assert again.features == image.features
    assert again.next_producer_id == image.next_producer_id
    assert {name: topic.topic_id for name, topic in again.topics_by_name.items()} == {
        name: topic.topic_id for name, topic in image.topics_by_name.items()
    }


def test_a_snapshot_that_cannot_be_written_stops_the_node(snapshotting: NodeBench) -> None:
    snapshotting.files.fail_when(
        lambda operation: (
            isinstance(operation, Renamed) and operation.target.endswith(".checkpoint")
        )
    )
    snapshotting.holds_jobs = True
    with pytest.raises(DiskError, match="snapshot"):
        for _ in range(30):
            snapshotting.wait(1000)
            while snapshotting.jobs:
                try:
                    snapshotting.jobs[0].work()
                except DiskError as error:
                    snapshotting.run_job(str(error))
                else:
                    snapshotting.run_job()
