"""The same disk, another process: after an orderly stop, a crash, a power cut."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC_ID
from tidelog.node.core.effects import Lane
from tidelog.observe.events import LogRecovered
from tidelog.protocol.stored.metadata import (
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisteredEndpoint,
)
from tidelog.simulator.disk.crash import after_crash, data_lost, names_undone
from tidelog.storage.identity import read_topic_id, write_topic_id

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, RecordsIn
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer


@pytest.fixture
def orders(bench: NodeBench, peer: Peer, batch: NewBatch) -> NodeBench:
    """Two records, one of them idempotent."""
    bench.create_topic("orders")
    peer.produce("orders", batch(b"a"))
    peer.produce("orders", batch(b"b", producer_id=7, producer_epoch=0, base_sequence=0))
    return bench


def values(bench: NodeBench, records_in: RecordsIn) -> list[bytes | None]:
    fetched = bench.connect().fetch_one("orders", 0)
    assert fetched.error == 0
    return [record.value for record in records_in(fetched)]


def test_after_a_clean_stop_everything_is_back_and_nothing_is_recovered(
    orders: NodeBench, records_in: RecordsIn
) -> None:
    orders.stop()
    again = orders.again()
    assert values(again, records_in) == [b"a", b"b"]
    assert again.of_kind(LogRecovered) == []
    assert again.partition("orders").high_watermark.offset == 2


def test_after_a_crash_of_the_process_everything_is_back_and_told_as_recovered(
    orders: NodeBench, records_in: RecordsIn
) -> None:
    again = orders.again(after_crash(orders.files))
    assert values(again, records_in) == [b"a", b"b"]
    [recovered] = again.of_kind(LogRecovered)
    assert (recovered.start_offset, recovered.end_offset, recovered.cut_bytes) == (0, 2, 0)


def test_after_a_power_cut_the_topic_is_there_and_what_was_flushed(
    orders: NodeBench, peer: Peer, batch: NewBatch, records_in: RecordsIn
) -> None:
    orders.partition("orders").log.sync()
    peer.produce("orders", batch(b"never synced"))
    again = orders.again(after_crash(orders.files, data_lost, names_undone))
    assert values(again, records_in) == [b"a", b"b"]
    assert again.connect().produce("orders", batch(b"c")).base_offset == 2


def test_a_topic_whose_creation_was_answered_survives_a_power_cut_right_after(
    bench: NodeBench, batch: NewBatch
) -> None:
    topic_id = bench.create_topic("orders")
    again = bench.again(after_crash(bench.files, data_lost, names_undone))
    assert again.partition("orders").log.topic_id == topic_id
    assert again.connect().produce("orders", batch()).error == 0


def test_a_repeated_batch_is_recognised_after_a_restart(orders: NodeBench, batch: NewBatch) -> None:
    again = orders.again(after_crash(orders.files))
    sent = batch(b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    assert again.connect().produce("orders", sent).base_offset == 1
    assert again.partition("orders").log.end_offset == 2


def test_every_incarnation_leads_in_a_higher_epoch_that_begins_at_the_end(
    orders: NodeBench, batch: NewBatch
) -> None:
    before = orders.partition("orders").leader_epoch
    orders.stop()
    again = orders.again()
    partition = again.partition("orders")
    assert partition.leader_epoch > before
    assert partition.leading is not None
    assert partition.leading.epoch_start_offset == 2
    assert partition.log.epochs.entries[-1] == (partition.leader_epoch, 2)


@pytest.mark.parametrize("clean", [True, False])
def test_a_broker_gets_a_higher_epoch_with_each_registration(
    orders: NodeBench, clean: bool
) -> None:
    before = orders.node.cluster.image.brokers[100]
    if clean:
        orders.stop()
    again = orders.again(None if clean else after_crash(orders.files))
    after = again.node.cluster.image.brokers[100]
    assert after.broker_epoch > before.broker_epoch
    assert after.incarnation_id != before.incarnation_id
    assert not after.fenced


def test_a_clean_stop_leaves_the_broker_epoch_for_the_next_registration(
    orders: NodeBench,
) -> None:
    epoch = orders.node.cluster.image.brokers[100].broker_epoch
    orders.stop()
    again = orders.again()
    assert again.node.rooms.base.directories[0].previous_broker_epoch == epoch
    crashed = again.again(after_crash(again.files))
    assert crashed.node.rooms.base.directories[0].previous_broker_epoch == -1


def test_the_metadata_log_says_whose_it_is_from_the_first_record_on(bench: NodeBench) -> None:
    assert read_topic_id(bench.files, "/data/__cluster_metadata-0") == METADATA_TOPIC_ID
    bench.stop()
    again = bench.again()
    assert read_topic_id(again.files, "/data/__cluster_metadata-0") == METADATA_TOPIC_ID


def test_a_follower_starts_with_the_high_watermark_that_was_written_down(
    orders: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    topic_id = orders.partition("orders").log.topic_id
    second = RegisterBrokerRecord(
        broker_id=101,
        incarnation_id=UUID(int=1),
        broker_epoch=5,
        end_points=(
            RegisteredEndpoint(name="PLAINTEXT", host="other", port=9092, security_protocol=0),
        ),
        features=(),
        rack=None,
        fenced=False,
        log_dirs=(UUID(int=1000),),
    )
    shared = PartitionChangeRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=(101, 100),
        isr=(100, 101),
        directories=(UUID(int=1000), orders.node.rooms.base.directories[0].identity.directory_id),
    )
    plane = orders.node.rooms.control.plane
    assert plane is not None
    plane.append((second, shared), orders.now)
    orders.end_tick()
    peer.produce("orders", batch(b"not committed"), acks=1)
    orders.wait(10_000)
    partition = orders.again(after_crash(orders.files)).partition("orders")
    assert not partition.is_leader
    assert (partition.high_watermark.offset, partition.log.end_offset) == (2, 3)


# Logs that the metadata does not place here


def stray_names(bench: NodeBench) -> list[str]:
    return [name for name in bench.files.list("/data") if name.endswith("-stray")]


def test_a_log_of_another_topic_id_is_set_aside_and_the_partition_begins_anew(
    orders: NodeBench, records_in: RecordsIn
) -> None:
    orders.stop()
    write_topic_id(orders.files, "/data/orders-0", UUID(int=4711))
    again = orders.again()
    assert len(stray_names(again)) == 1
    assert values(again, records_in) == []


def test_a_log_of_an_unknown_topic_or_partition_is_set_aside(orders: NodeBench) -> None:
    topic_id = orders.partition("orders").log.topic_id
    orders.stop()
    for name, identity in (("orders-5", topic_id), ("clicks-0", UUID(int=9))):
        orders.files.make_directory(f"/data/{name}")
        write_topic_id(orders.files, f"/data/{name}", identity)
    again = orders.again()
    assert sorted(name.partition(".")[0] for name in stray_names(again)) == ["clicks-0", "orders-5"]
    assert len(again.node.replicas) == 1
    beyond = again.connect().produce("orders", b"", 5)
    assert beyond.error == ErrorCode.unknown_topic_or_partition


def test_a_node_that_fails_while_it_loads_its_logs_touches_no_more_of_them(
    orders: NodeBench,
) -> None:
    again = orders.again(after_crash(orders.files), holds_jobs=True)
    while not (loading := [job for job in again.jobs if job.lane is Lane.LONG]):
        again.run_job()
    again.node.rooms.base.directories[0].health.fail("Input/output error")
    again.end_tick()
    assert again.stopped is not None
    assert again.stopped.failure
    operations = again.files.operation_count

    for job in loading:
        job.work()

    assert again.files.operation_count == operations


def test_a_topic_deleted_while_its_files_wait_stays_deleted(orders: NodeBench, peer: Peer) -> None:
    orders.delete_topic("orders")
    again = orders.again(after_crash(orders.files))
    assert again.connect().fetch_one("orders", 0).error == ErrorCode.unknown_topic_or_partition
    again.wait(2000)
    assert [name for name in again.files.list("/data") if name.startswith("orders")] == []


def test_a_directory_without_its_checkpoints_starts_from_the_log_itself(
    orders: NodeBench, records_in: RecordsIn
) -> None:
    orders.stop()
    for name in orders.files.list("/data"):
        if name.endswith("-checkpoint"):
            orders.files.remove(f"/data/{name}")
    assert values(orders.again(), records_in) == [b"a", b"b"]
