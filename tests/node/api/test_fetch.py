"""Fetch: the order of checks, isolation, and when an answer is given."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.fetch import FetchPartition
from tidelog.protocol.node_endpoints import NodeEndpoint
from tidelog.records.batch import read_header
from tidelog.records.compression import CompressionType
from tidelog.records.control_batch import end_txn_marker
from tidelog.records.validation import AcceptedBatch
from tidelog.replication.messages import LeaderAndIsr
from tidelog.simulator.disk.disk_operation import FileRead
from tidelog.storage.log_values import Appended
from tidelog.storage.producer import Origin

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, NewBench, RecordsIn
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

WHOLE = 1 << 20


def wanted(
    offset: int, *, epoch: int = -1, last_epoch: int = -1, index: int = 0, max_bytes: int = WHOLE
) -> FetchPartition:
    return FetchPartition(index, epoch, offset, last_epoch, -1, max_bytes)


def lead_anew(bench: NodeBench, epoch: int, leader: int = 100) -> None:
    """Begin another leader epoch of orders-0."""
    bench.partition("orders").apply(LeaderAndIsr(leader, epoch, epoch, (100,), (100,)), bench.now)


@pytest.fixture
def orders(bench: NodeBench, peer: Peer, batch: NewBatch) -> UUID:
    """A topic with the records 0 and 1 in one batch and 2 in another."""
    topic_id = bench.create_topic("orders")
    peer.produce("orders", batch(b"a", b"b"))
    peer.produce("orders", batch(b"c"))
    return topic_id


# Reading


@pytest.mark.parametrize("version", range(4, 13))
@pytest.mark.usefixtures("orders")
def test_a_fetch_gives_the_batches_from_the_one_that_holds_the_offset(
    peer: Peer, records_in: RecordsIn, version: int
) -> None:
    fetched = peer.fetch_one("orders", 1, version=version)
    assert [record.value for record in records_in(fetched)] == [b"a", b"b", b"c"]
    assert (fetched.error, fetched.high_watermark, fetched.last_stable_offset) == (0, 3, 3)
    assert fetched.log_start_offset == (0 if version >= 5 else -1)
    assert fetched.aborted is None


@pytest.mark.parametrize("version", range(13, 19))
def test_from_version_13_on_a_topic_is_named_by_its_id(
    orders: UUID, peer: Peer, records_in: RecordsIn, version: int
) -> None:
    fetched = peer.fetch_one(orders, 2, version=version)
    assert [record.value for record in records_in(fetched)] == [b"c"]


@pytest.mark.usefixtures("orders")
def test_at_the_high_watermark_there_is_nothing_and_no_error(peer: Peer) -> None:
    fetched = peer.fetch_one("orders", 3)
    assert (fetched.error, fetched.high_watermark) == (0, 3)
    assert not fetched.records


@pytest.mark.parametrize("offset", [-1, 4])
@pytest.mark.usefixtures("orders")
def test_an_offset_outside_of_the_log_is_out_of_range(peer: Peer, offset: int) -> None:
    fetched = peer.fetch_one("orders", offset)
    assert (fetched.error, fetched.high_watermark) == (ErrorCode.offset_out_of_range, -1)


@pytest.mark.usefixtures("orders")
def test_an_offset_below_the_log_start_is_out_of_range(bench: NodeBench, peer: Peer) -> None:
    bench.partition("orders").raise_start_to(2)
    assert peer.fetch_one("orders", 1).error == ErrorCode.offset_out_of_range
    assert peer.fetch_one("orders", 2).log_start_offset == 2


# Order of checks


def test_what_is_not_here_is_unknown_by_name_and_by_id(orders: UUID, peer: Peer) -> None:
    assert peer.fetch_one("nowhere", 0).error == ErrorCode.unknown_topic_or_partition
    beyond = peer.fetch_one("orders", wanted(0, index=1))
    assert beyond.error == ErrorCode.unknown_topic_or_partition
    assert peer.fetch_one(UUID(int=9), 0, version=13).error == ErrorCode.unknown_topic_id
    assert peer.fetch_one(UUID(int=0), 0, version=13).error == ErrorCode.unknown_topic_id
    beyond = peer.fetch_one(orders, wanted(0, index=1), version=13)
    assert beyond.error == ErrorCode.unknown_topic_or_partition


def test_in_the_metadata_but_not_here_is_not_leader_or_follower(
    orders: UUID, bench: NodeBench, peer: Peer
) -> None:
    bench.node.replicas.abandon(TopicPartition("orders", 0))
    assert peer.fetch_one("orders", 0).error == ErrorCode.not_leader_or_follower
    answer = peer.fetch({(orders, 0): 0}, version=16)
    assert answer.topics[0].partitions[0].current_leader == (100, 0)
    assert answer.node_endpoints == [NodeEndpoint(100, "localhost", 9092, None)]


def test_another_leader_epoch_is_fenced_before_leadership_and_offset(
    orders: UUID, bench: NodeBench, peer: Peer
) -> None:
    lead_anew(bench, 5, leader=-1)
    old = peer.fetch_one("orders", wanted(99, epoch=4))
    new = peer.fetch_one("orders", wanted(99, epoch=6))
    assert old.error == ErrorCode.fenced_leader_epoch
    assert new.error == ErrorCode.unknown_leader_epoch
    assert peer.fetch_one("orders", wanted(99, epoch=5)).error == ErrorCode.offset_out_of_range
    assert old.current_leader is None
    hinted = peer.fetch_one(orders, wanted(0, epoch=4), version=16)
    assert hinted.error == ErrorCode.not_leader_or_follower, "a consumer is told where to go on"
    assert hinted.current_leader == (100, 0)
    assert peer.fetch_one(orders, wanted(0, epoch=4), version=15).current_leader is None
    assert peer.fetch_one(orders, wanted(0, epoch=6), version=16).current_leader is None
    lead_anew(bench, 6)
    again = peer.fetch_one(orders, wanted(0, epoch=5), version=16)
    assert again.error == ErrorCode.fenced_leader_epoch, "it leads, in another epoch"
    follower = peer.fetch_one(orders, wanted(0, epoch=5), version=16, replica_id=101)
    assert follower.error == ErrorCode.fenced_leader_epoch


@pytest.mark.usefixtures("orders")
def test_without_leadership_only_consumers_that_know_follower_reads_are_served(
    bench: NodeBench, peer: Peer, records_in: RecordsIn
) -> None:
    lead_anew(bench, 5, leader=-1)
    assert peer.fetch_one("orders", 0, version=10).error == ErrorCode.not_leader_or_follower
    assert len(records_in(peer.fetch_one("orders", 0, version=11))) == 3
    follower = peer.fetch_one("orders", 0, version=12, replica_id=101)
    assert follower.error == ErrorCode.not_leader_or_follower


@pytest.mark.parametrize("replica_id", [100, 101])
@pytest.mark.usefixtures("orders")
def test_a_follower_that_is_no_other_replica_is_refused(peer: Peer, replica_id: int) -> None:
    with_epoch = peer.fetch_one("orders", wanted(0, epoch=0), replica_id=replica_id)
    without = peer.fetch_one("orders", 0, replica_id=replica_id)
    assert with_epoch.error == ErrorCode.unknown_leader_epoch
    assert without.error == ErrorCode.not_leader_or_follower


@pytest.mark.usefixtures("orders")
def test_a_follower_reads_to_the_end_of_the_log_and_a_consumer_to_the_high_watermark(
    bench: NodeBench, peer: Peer, batch: NewBatch, records_in: RecordsIn
) -> None:
    bench.partition("orders").apply(LeaderAndIsr(100, 1, 1, (100, 101), (100, 101)), bench.now)
    assert peer.produce("orders", batch(b"d"), acks=1).base_offset == 3
    follower = peer.fetch_one("orders", wanted(2, epoch=1, last_epoch=0), replica_id=101)
    assert follower.high_watermark == 3
    assert [record.value for record in records_in(follower)] == [b"c", b"d"]
    assert [record.value for record in records_in(peer.fetch_one("orders", 2))] == [b"c"]


@pytest.mark.usefixtures("orders")
def test_a_consumer_ahead_of_the_high_watermark_is_answered_at_once_and_with_nothing(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.partition("orders").apply(LeaderAndIsr(100, 1, 1, (100, 101), (100, 101)), bench.now)
    peer.produce("orders", batch(b"d"), acks=1)
    fetched = peer.fetch({("orders", 0): 4}, max_wait_ms=500).topics[0].partitions[0]
    assert (fetched.error, fetched.high_watermark) == (0, 3)
    assert not fetched.records


def test_a_zstd_topic_is_not_given_to_clients_that_cannot_read_it(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders", compression_type="zstd")
    peer.produce("orders", batch(b"a" * 100, codec=CompressionType.ZSTD))
    early = peer.fetch_one("orders", 0, version=9)
    assert early.error == ErrorCode.unsupported_compression_type
    assert peer.fetch_one("orders", 0, version=10).error == 0


# Divergence


@pytest.mark.usefixtures("orders")
def test_a_reader_whose_epoch_ended_earlier_is_told_where(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    lead_anew(bench, 5)
    peer.produce("orders", batch(b"d"))
    fetched = peer.fetch({("orders", 0): wanted(4, last_epoch=0)}, max_wait_ms=500)
    [diverged] = fetched.topics[0].partitions
    assert diverged.diverging_epoch == (0, 3)
    assert (diverged.error, diverged.high_watermark) == (0, 4)
    assert not diverged.records


@pytest.mark.usefixtures("orders")
def test_an_epoch_between_two_known_ones_diverges_at_the_start_of_the_later(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    lead_anew(bench, 5)
    peer.produce("orders", batch(b"d"))
    assert peer.fetch_one("orders", wanted(2, last_epoch=3)).diverging_epoch == (0, 3)
    agreeing = peer.fetch_one("orders", wanted(3, last_epoch=0))
    assert agreeing.diverging_epoch is None
    assert agreeing.records


@pytest.mark.usefixtures("orders")
def test_an_epoch_that_is_not_known_here_is_out_of_range(peer: Peer) -> None:
    fetched = peer.fetch_one("orders", wanted(2, last_epoch=9))
    assert (fetched.error, fetched.diverging_epoch) == (ErrorCode.offset_out_of_range, None)


@pytest.mark.usefixtures("orders")
def test_below_the_log_start_is_out_of_range_even_when_epochs_diverge(
    bench: NodeBench, peer: Peer
) -> None:
    lead_anew(bench, 5)
    bench.partition("orders").raise_start_to(2)
    assert peer.fetch_one("orders", wanted(2, last_epoch=3)).diverging_epoch == (0, 3)
    fetched = peer.fetch_one("orders", wanted(1, last_epoch=3))
    assert (fetched.error, fetched.diverging_epoch) == (ErrorCode.offset_out_of_range, None)


# Isolation


def write_marker(bench: NodeBench, *, committed: bool) -> None:
    """Let a coordinator end the transaction of producer 7."""
    partition = bench.partition("orders")
    marker = end_txn_marker(
        producer_id=7, producer_epoch=0, committed=committed, coordinator_epoch=0, timestamp=1
    )
    accepted = AcceptedBatch(read_header(marker), memoryview(marker))
    appended = partition.log.append_as_leader(accepted, 0, bench.now, origin=Origin.COORDINATOR)
    assert isinstance(appended, Appended)
    partition.apply(partition.leadership, bench.now)


@pytest.fixture
def transactional(new_bench: NewBench, batch: NewBatch) -> Peer:
    """Connected to a node with one record in an open transaction, and one after it."""
    bench = new_bench(transaction_partition_verification_enable="false")
    bench.create_topic("orders")
    peer = bench.connect()
    peer.produce("orders", batch(b"before"))
    open_one = batch(b"open", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert peer.produce("orders", open_one, transactional_id="payments").error == 0
    peer.produce("orders", batch(b"after"))
    return peer


def test_read_committed_stops_at_the_oldest_open_transaction(
    transactional: Peer, records_in: RecordsIn
) -> None:
    committed = transactional.fetch_one("orders", 0, isolation_level=1)
    uncommitted = transactional.fetch_one("orders", 0, isolation_level=0)
    assert [record.value for record in records_in(committed)] == [b"before"]
    assert (committed.high_watermark, committed.last_stable_offset) == (3, 1)
    assert committed.aborted == []
    assert len(records_in(uncommitted)) == 3
    assert uncommitted.aborted is None


def test_read_committed_names_the_aborted_transactions_of_what_it_returns(
    transactional: Peer, records_in: RecordsIn
) -> None:
    write_marker(transactional.bench, committed=False)
    fetched = transactional.fetch_one("orders", 0, isolation_level=1)
    assert len(records_in(fetched)) == 4, "with the marker; the client drops what was aborted"
    assert fetched.aborted == [(7, 1)]
    assert transactional.fetch_one("orders", 4, isolation_level=1).aborted == []


def test_the_last_stable_offset_does_not_fall_below_the_log_start(transactional: Peer) -> None:
    transactional.bench.partition("orders").raise_start_to(2)
    fetched = transactional.fetch_one("orders", 2, isolation_level=1)
    assert (fetched.log_start_offset, fetched.last_stable_offset) == (2, 2)


# Disks


@pytest.mark.usefixtures("orders")
def test_a_log_that_cannot_be_read_is_a_storage_error(bench: NodeBench, peer: Peer) -> None:
    bench.files.fail_when(lambda operation: isinstance(operation, FileRead), "I/O error")
    tail = bench.partition("orders").log.tail
    tail.restart(tail.start_offset + 3)  # forget what makes reading the file unnecessary
    assert peer.fetch_one("orders", 0).error == ErrorCode.kafka_storage_error


@pytest.mark.usefixtures("orders")
def test_a_failed_directory_is_a_storage_error_that_old_clients_know_as_not_leader(
    bench: NodeBench, peer: Peer
) -> None:
    peer.send_fetch({("orders", 0): 3})
    bench.partition("orders").log.health.fail("I/O error")
    assert peer.frames == []
    early, late = bench.connect(), bench.connect()
    early.send_fetch({("orders", 0): 0}, version=5)
    late.send_fetch({("orders", 0): 0}, version=6)
    bench.end_tick()
    errors = [
        who.fetched(version).topics[0].partitions[0].error
        for who, version in ((early, 5), (late, 6), (peer, 12))
    ]
    assert errors == [
        ErrorCode.not_leader_or_follower,
        ErrorCode.kafka_storage_error,
        ErrorCode.kafka_storage_error,
    ]
