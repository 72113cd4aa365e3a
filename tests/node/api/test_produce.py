"""Produce: what is appended, what is refused and with which code."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.node_endpoints import NodeEndpoint
from tidelog.records.batch import read_header
from tidelog.records.compression import CompressionType
from tidelog.records.control_batch import end_txn_marker
from tidelog.replication.messages import LeaderAndIsr

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, NewBench, RecordsIn
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

FAR_FUTURE = 1_700_000_000_000 + 3_600_001


def depose(bench: NodeBench, leader: int = -1) -> None:
    """Let another broker, or nobody, lead orders-0."""
    partition = bench.partition("orders")
    bench.partition("orders").apply(
        partition.leadership._replace(leader=leader, leader_epoch=7, partition_epoch=7), bench.now
    )


# What is appended


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("acks", [-1, 1])
def test_a_batch_gets_the_next_offsets_and_its_answer_the_first_of_them(
    bench: NodeBench, peer: Peer, batch: NewBatch, records_in: RecordsIn, version: int, acks: int
) -> None:
    bench.create_topic("orders")
    first = peer.produce("orders", batch(b"a", b"b"), version=version, acks=acks)
    second = peer.produce("orders", batch(b"c"), version=version, acks=acks)

    assert (first.error, first.base_offset, first.log_append_time_ms) == (0, 0, -1)
    assert (second.error, second.base_offset) == (0, 2)
    assert second.log_start_offset == (0 if version >= 5 else -1)
    found = records_in(peer.fetch_one("orders", 0))
    assert [(record.offset, record.value) for record in found] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_version_13_names_the_topic_by_its_id(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    topic_id = bench.create_topic("orders")
    assert peer.produce(topic_id, batch(), version=13).base_offset == 0
    assert peer.produce(UUID(int=4711), batch(), version=13).error == ErrorCode.unknown_topic_id
    assert peer.produce(UUID(int=0), batch(), version=13).error == ErrorCode.unknown_topic_id
    unknown = peer.produce(topic_id, batch(), 9, version=13)
    assert unknown.error == ErrorCode.unknown_topic_or_partition


def test_nothing_is_answered_to_acks_0_and_later_answers_do_not_wait_for_it(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    peer.send_produce({("orders", 0): batch(b"a")}, acks=0)
    bench.end_tick()
    assert peer.frames == []
    assert peer.closed is None
    assert peer.produce("orders", batch(b"b")).base_offset == 1


def test_acks_0_with_any_error_closes_the_connection(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    peer.send_produce({("orders", 0): batch(), ("nowhere", 0): batch()}, acks=0)
    assert peer.closed is not None
    assert peer.frames == []
    assert bench.partition("orders").log.end_offset == 1


def test_one_refused_partition_does_not_stop_the_others(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders", 2)
    peer.send_produce({("orders", 0): b"", ("nowhere", 0): batch(), ("orders", 1): batch()})
    answered = [
        (topic.name, partition.index, partition.error)
        for topic in peer.produced().topics
        for partition in topic.partitions
    ]
    assert answered == [
        ("orders", 0, ErrorCode.invalid_record),
        ("nowhere", 0, ErrorCode.unknown_topic_or_partition),
        ("orders", 1, ErrorCode.none),
    ]


def test_a_log_append_time_topic_answers_and_stores_the_time_of_the_append(
    bench: NodeBench, peer: Peer, batch: NewBatch, records_in: RecordsIn
) -> None:
    bench.create_topic("orders", message_timestamp_type="LogAppendTime")
    bench.wait(77)
    result = peer.produce("orders", batch(b"a", b"b", timestamp=5))
    assert result.log_append_time_ms == bench.now.wall_ms
    found = records_in(peer.fetch_one("orders", 0))
    assert [record.timestamp for record in found] == [bench.now.wall_ms] * 2


# Idempotence


def test_a_repeated_batch_is_answered_with_its_first_offset_and_not_stored_again(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    sent = batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    peer.produce("orders", batch(b"before"))
    first = peer.produce("orders", sent)
    again = peer.produce("orders", sent)

    assert (first.error, first.base_offset) == (0, 1)
    assert again == first
    assert bench.partition("orders").log.end_offset == 3


def test_a_repeated_batch_is_answered_with_the_append_time_it_got_first(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders", message_timestamp_type="LogAppendTime")
    sent = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    first = peer.produce("orders", sent)
    bench.wait(1000)
    assert peer.produce("orders", sent).log_append_time_ms == first.log_append_time_ms


def test_a_gap_in_the_sequence_and_an_old_epoch_are_refused(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    peer.produce("orders", batch(producer_id=7, producer_epoch=1, base_sequence=0))
    gap = peer.produce("orders", batch(producer_id=7, producer_epoch=1, base_sequence=2))
    old = peer.produce("orders", batch(producer_id=7, producer_epoch=0, base_sequence=1))

    assert (gap.error, gap.base_offset) == (ErrorCode.out_of_order_sequence_number, -1)
    assert (old.error, old.base_offset) == (ErrorCode.invalid_producer_epoch, -1)
    assert bench.partition("orders").log.end_offset == 1


# Transactions, which no coordinator confirms here


def test_a_transactional_batch_waits_for_a_coordinator_to_confirm_it(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    sent = batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    result = peer.produce("orders", sent, transactional_id="payments")
    assert result.error == ErrorCode.not_enough_replicas, "there is no coordinator yet: retry"
    assert bench.partition("orders").log.end_offset == 0


def test_a_transactional_batch_without_a_transactional_id_fails_the_whole_request(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders", 2)
    sent = batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    peer.send_produce({("orders", 0): batch(), ("orders", 1): sent, ("nowhere", 0): batch()})
    answered = [result.error for topic in peer.produced().topics for result in topic.partitions]

    assert answered == [ErrorCode.transactional_id_authorization_failed] * 3
    assert bench.partition("orders").log.end_offset == 0


def test_a_control_batch_from_a_client_is_refused(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("orders")
    marker = end_txn_marker(
        producer_id=7, producer_epoch=0, committed=True, coordinator_epoch=0, timestamp=1
    )
    result = peer.produce("orders", marker, transactional_id="payments")
    assert result.error == ErrorCode.invalid_record


# Refusals


def test_records_must_be_exactly_one_batch_of_format_2(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    old_format = bytearray(batch())
    old_format[16] = 1
    old_format[22] |= 0x10  # means nothing in that format
    for records in (None, b"", batch() + batch(), old_format):
        assert peer.produce("orders", records).error == ErrorCode.invalid_record


def test_a_wrong_checksum_or_length_is_a_corrupt_message(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    flipped = bytearray(batch())
    flipped[-1] ^= 1
    assert peer.produce("orders", flipped).error == ErrorCode.corrupt_message
    assert peer.produce("orders", batch()[:-1]).error == ErrorCode.corrupt_message


def test_zstd_needs_version_7(bench: NodeBench, peer: Peer, batch: NewBatch) -> None:
    bench.create_topic("orders")
    sent = batch(b"a" * 100, codec=CompressionType.ZSTD)
    early = peer.produce("orders", sent, version=6)
    assert early.error == ErrorCode.unsupported_compression_type
    assert peer.produce("orders", sent, version=7).error == ErrorCode.none


def test_a_batch_larger_than_the_topic_allows_is_too_large(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders", max_message_bytes="200")
    assert peer.produce("orders", batch(b"a" * 200)).error == ErrorCode.message_too_large


def test_bad_records_are_named_one_by_one_from_version_8_on(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders", cleanup_policy="compact")
    keyless = batch(b"a", b"b", key=None)
    early = peer.produce("orders", keyless, version=7)
    late = peer.produce("orders", keyless, version=8)

    assert early.error == late.error == ErrorCode.invalid_record
    assert early.record_errors == ()
    assert [index for index, _ in late.record_errors] == [0, 1]
    assert late.error_message


def test_a_timestamp_too_far_ahead_is_refused(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    result = peer.produce("orders", batch(timestamp=FAR_FUTURE))
    assert result.error == ErrorCode.invalid_timestamp


@pytest.mark.parametrize("acks", [-2, 2, 127])
def test_acks_are_minus_1_0_or_1(bench: NodeBench, peer: Peer, batch: NewBatch, acks: int) -> None:
    bench.create_topic("orders")
    assert peer.produce("orders", batch(), acks=acks).error == ErrorCode.invalid_required_acks


def test_only_the_admin_client_writes_to_internal_topics(bench: NodeBench, batch: NewBatch) -> None:
    bench.create_topic("__consumer_offsets")
    refused = bench.connect().produce("__consumer_offsets", batch())
    assert refused.error == ErrorCode.invalid_topic_exception
    admin = bench.connect(client_id="__admin_client")
    assert admin.produce("__consumer_offsets", batch()).error == ErrorCode.none


# Leaders


def test_a_broker_that_does_not_lead_tells_who_does_from_version_10_on(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    depose(bench)
    assert peer.produce("orders", batch(), version=9).current_leader is None

    peer.send_produce({("orders", 0): batch()}, version=10)
    answer = peer.produced(10)
    [result] = answer.topics[0].partitions
    assert result.error == ErrorCode.not_leader_or_follower
    assert result.current_leader == (100, 0), "what the metadata says"
    assert answer.node_endpoints == [NodeEndpoint(100, "localhost", 9092, None)]


def test_endpoints_of_a_leader_are_those_of_the_listener_the_client_uses(
    new_bench: NewBench, batch: NewBatch
) -> None:
    bench = new_bench(
        listeners="INSIDE://in:1,OUTSIDE://out:2,CONTROLLER://localhost:9093",
        inter_broker_listener_name="INSIDE",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )
    bench.create_topic("orders")
    depose(bench)
    peer = bench.connect("OUTSIDE")
    peer.send_produce({("orders", 0): batch()}, version=12)
    assert peer.produced(12).node_endpoints == [NodeEndpoint(100, "out", 2, None)]


# The order in which reasons are looked at


def test_an_unknown_partition_is_said_before_anything_about_records_or_acks(
    bench: NodeBench, peer: Peer
) -> None:
    bench.create_topic("orders")
    for topic, index in (("nowhere", 0), ("orders", 1)):
        result = peer.produce(topic, b"", index, acks=5)
        assert result.error == ErrorCode.unknown_topic_or_partition


def test_the_shape_of_the_records_is_looked_at_before_acks_topic_and_leadership(
    bench: NodeBench, peer: Peer
) -> None:
    bench.create_topic("orders")
    bench.create_topic("__consumer_offsets")
    depose(bench)
    assert peer.produce("orders", b"", acks=5).error == ErrorCode.invalid_record
    assert peer.produce("orders", b"").error == ErrorCode.invalid_record
    assert peer.produce("__consumer_offsets", None).error == ErrorCode.invalid_record


def test_acks_are_looked_at_before_internal_topics_and_those_before_leadership(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("__consumer_offsets")
    partition = bench.partition("__consumer_offsets")
    partition.apply(LeaderAndIsr(-1, 7, 7, (100,), (100,)), bench.now)
    wrong_acks = peer.produce("__consumer_offsets", batch(), acks=5)
    assert wrong_acks.error == ErrorCode.invalid_required_acks
    internal = peer.produce("__consumer_offsets", batch())
    assert internal.error == ErrorCode.invalid_topic_exception


def test_leadership_is_looked_at_before_the_content_of_the_batch(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    depose(bench)
    flipped = bytearray(batch())
    flipped[-1] ^= 1
    assert peer.produce("orders", flipped).error == ErrorCode.not_leader_or_follower


def test_a_malformed_produce_request_closes_the_connection(bench: NodeBench, peer: Peer) -> None:
    peer.send_body(ApiKey.PRODUCE, 9, b"\xff")
    assert peer.closed is not None


def test_a_stored_batch_carries_offset_and_epoch_given_by_the_leader(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    depose(bench, leader=100)
    peer.produce("orders", batch(b"a"))
    peer.produce("orders", batch(b"b", leader_epoch=99))
    fetched = peer.fetch_one("orders", 1)
    assert isinstance(fetched.records, memoryview)
    header = read_header(fetched.records)
    assert (header.base_offset, header.leader_epoch) == (1, 7)
