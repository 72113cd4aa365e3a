"""Transactions as clients of every version meet them, on one broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.node.node_bench import NodeBench
from tests.node.transactional_client import SETTINGS, Client, bench, client, values, versions

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.records import TransactionRecord
from tidelog.coordinator.transactions.transaction import EPOCH_MAX
from tidelog.model.errors import ErrorCode
from tidelog.node.coordination.transaction_joining import TransactionJoining
from tidelog.protocol.apis import ApiKey
from tidelog.records.batch import read_header

__all__ = ["bench", "client"]


# The life of a transaction


@pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID))
def test_a_transactional_producer_gets_the_next_epoch_each_time(
    client: Client, version: int
) -> None:
    assert client.init(version).producer_epoch == 0
    assert client.init(version).producer_epoch == 1


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("commit", [True, False])
def test_records_are_stable_only_when_their_transaction_has_ended(
    bench: NodeBench, client: Client, records_in: Any, version: int, commit: bool
) -> None:
    client.init()
    assert client.add(0, version=version) == 0
    assert client.produce(value=b"v" if commit else b"aborted").error == 0
    assert values(bench, records_in, committed=True) == []
    assert len(values(bench, records_in, committed=False)) == 1
    assert bench.partition("orders").last_stable_offset == 0

    assert client.end(commit, version=version).error_code == 0

    assert bench.partition("orders").last_stable_offset == 2
    assert values(bench, records_in, committed=True) == ([b"v"] if commit else [])


def test_from_produce_12_on_the_leader_adds_the_partition_and_the_end_raises_the_epoch(
    bench: NodeBench, client: Client
) -> None:
    client.init()
    assert client.produce(version=12).error == 0
    assert client.produce(version=12).error == 0
    before = client.producer

    assert client.end(True, version=5).error_code == 0

    assert client.producer == ProducerIdAndEpoch(before.producer_id, before.producer_epoch + 1)
    marker = bench.partition("orders").log.read(2, 1000, 3)
    assert marker is not None
    assert read_header(marker.read()).producer_epoch == client.producer.producer_epoch
    assert client.produce(version=12).error == 0
    assert client.end(False, version=5).error_code == 0


def test_an_end_asks_the_controller_for_nothing_while_there_are_epochs(
    bench: NodeBench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.init()
    client.produce(version=12)
    ids = bench.node.rooms.control.producer_ids
    while ids.take() is not None:
        pass
    monkeypatch.setattr(ids, "refill", lambda now, arrived: None)

    assert client.end(True, version=5).error_code == 0


def test_an_end_that_uses_up_the_epochs_waits_for_a_producer_id(
    bench: NodeBench, client: Client
) -> None:
    client.init()
    before = client.producer.producer_id
    shard = next(
        shard
        for shard in bench.node.rooms.coordination.transactions.active()
        if shard.describe("tx")
    )
    known = shard.describe("tx")
    assert known is not None
    client.producer = ProducerIdAndEpoch(before, EPOCH_MAX - 1)
    shard.replay(TransactionRecord("tx", replace(known, producer=client.producer)), None)
    client.produce(version=12)
    while bench.node.rooms.control.producer_ids.take() is not None:
        pass

    assert client.end(True, version=5).error_code == 0
    assert client.producer.producer_id > before


def test_an_end_of_version_5_sent_again_is_answered_alike(client: Client) -> None:
    client.init()
    client.produce(version=12)
    before = client.producer
    client.end(True, version=5)
    following = client.producer

    client.producer = before
    assert client.end(True, version=5).error_code == 0
    assert client.producer == following
    client.producer = before
    assert client.end(False, version=5).error_code == ErrorCode.invalid_txn_state


# Orders to end a transaction


def order(bench: NodeBench, client: Client, **told: Any) -> dict[str, Any]:
    """To commit the producer's transaction in a partition, as its coordinator would say it."""
    shard = next(
        shard
        for shard in bench.node.rooms.coordination.transactions.active()
        if shard.describe("tx")
    )
    known = shard.describe("tx")
    assert known is not None
    leader_epoch = bench.partition("orders").leader_epoch
    topic = {"name": "orders", "partition_indexes": [0], "leader_epochs": [leader_epoch]}
    return {
        **client.producer._asdict(),
        "transaction_result": True,
        "coordinator_epoch": 0,
        "decided_ms": known.updated_ms,
        "topics": [topic | told.pop("topic", {})],
        **told,
    }


def ordered(client: Client, version: int, marker: dict[str, Any]) -> ErrorCode:
    answer = client.ask(ApiKey.WRITE_TXN_MARKERS, version, markers=[marker])
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", [1, 2])
def test_an_order_that_comes_twice_does_not_end_the_next_transaction(
    bench: NodeBench, client: Client, version: int
) -> None:
    client.init()
    client.add(0)
    client.produce()
    client.end(True)
    copy = order(bench, client)
    partition = bench.partition("orders")
    assert partition.last_stable_offset == partition.log.end_offset == 2

    client.add(0)
    client.produce()
    assert ordered(client, version, copy) is ErrorCode.none
    assert partition.last_stable_offset == 2, "the next transaction is open"
    assert partition.log.end_offset == 3

    client.end(False)
    assert partition.last_stable_offset == partition.log.end_offset == 4


def test_an_order_of_a_coordinator_that_numbers_none_is_carried_out(
    bench: NodeBench, client: Client
) -> None:
    client.init()
    client.add(0)
    client.produce()
    assert ordered(client, 1, order(bench, client, decided_ms=-1)) is ErrorCode.none
    assert bench.partition("orders").last_stable_offset == 2


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [(-2, ErrorCode.fenced_leader_epoch), (1, ErrorCode.unknown_leader_epoch)],
)
def test_an_order_that_means_another_leader_epoch_is_refused(
    bench: NodeBench, client: Client, ahead: int, expected: ErrorCode
) -> None:
    client.init()
    client.add(0)
    client.produce()
    partition = bench.partition("orders")
    meant = {"leader_epochs": [partition.leader_epoch + ahead]}
    assert ordered(client, 2, order(bench, client, topic=meant)) is expected
    assert partition.last_stable_offset == 0


# Verification


@pytest.mark.parametrize(
    ("version", "error"),
    [(9, ErrorCode.invalid_txn_state), (11, ErrorCode.transaction_abortable)],
)
def test_a_write_to_a_partition_that_takes_no_part_is_refused(
    bench: NodeBench, client: Client, version: int, error: ErrorCode
) -> None:
    client.init()
    client.add(1)
    assert client.produce(0, version=version).error == error
    assert bench.partition("orders").log.end_offset == 0


def test_a_late_write_of_a_transaction_that_ended_is_refused(
    bench: NodeBench, client: Client
) -> None:
    client.init()
    client.produce(version=12)
    late = client.batch()
    client.end(True, version=5)

    client.peer.send_produce(
        {("orders", 0): late}, version=11, transactional_id=client.transactional_id
    )
    client.settle()
    ((_, _, (result,)),) = client.peer.produced(11).topics

    assert result.error == ErrorCode.invalid_producer_epoch
    assert bench.partition("orders").last_stable_offset == 2


def test_an_answer_that_an_end_has_overtaken_opens_nothing(
    bench: NodeBench, client: Client
) -> None:
    client.init()
    client.add(0)
    client.peer.send_produce(
        {("orders", 0): client.batch()}, version=11, transactional_id=client.transactional_id
    )
    marker = {
        "producer_id": client.producer.producer_id,
        "producer_epoch": client.producer.producer_epoch,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": "orders", "partition_indexes": [0]}],
    }
    bench.connect().ask(ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker])
    client.settle()
    ((_, _, (result,)),) = client.peer.produced(11).topics

    assert result.error == ErrorCode.invalid_txn_state
    assert bench.partition("orders").last_stable_offset == bench.partition("orders").log.end_offset


@pytest.mark.parametrize("version", [11, 12])
def test_batches_of_two_producers_in_one_request_are_refused(
    bench: NodeBench, client: Client, version: int
) -> None:
    client.init()
    client.add(0, 1)
    batches = {("orders", 0): client.batch(0)}
    client.producer = ProducerIdAndEpoch(client.producer.producer_id + 1, 0)
    batches["orders", 1] = client.batch(1)

    client.peer.send_produce(batches, version=version, transactional_id=client.transactional_id)
    client.settle()

    answer = client.peer.produced(version)
    told = [result.error for _, _, results in answer.topics for result in results]
    assert told == [ErrorCode.invalid_producer_id_mapping] * 2
    assert bench.partition("orders").log.end_offset == 0


def test_verification_can_be_switched_off(new_bench: Callable[..., NodeBench]) -> None:
    bench = new_bench(**SETTINGS, transaction_partition_verification_enable="false")
    bench.create_topic("orders")
    client = Client(bench)
    client.init()
    assert client.produce(version=11).error == 0


@pytest.mark.parametrize("version", [4, 5])
def test_leaders_ask_for_several_transactions_at_once(client: Client, version: int) -> None:
    client.init()
    client.add(0)
    asked = {
        "transactional_id": "tx",
        "producer_id": client.producer.producer_id,
        "producer_epoch": client.producer.producer_epoch,
        "verify_only": True,
        "topics": [{"name": "orders", "partitions": [0, 1]}],
    }
    unknown = {**asked, "transactional_id": "nobody"}
    answer = client.peer.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=[asked, unknown])
    told = {
        result.transactional_id: [
            partition.partition_error_code
            for topic in result.topic_results
            for partition in topic.results_by_partition
        ]
        for result in answer.results_by_transaction
    }
    assert told == {
        "tx": [ErrorCode.none, ErrorCode.transaction_abortable],
        "nobody": [ErrorCode.invalid_producer_id_mapping] * 2,
    }


def test_verdicts_come_in_the_order_of_the_questions(client: Client) -> None:
    client.init()
    client.add(0)
    known = {
        "transactional_id": "tx",
        "producer_id": client.producer.producer_id,
        "producer_epoch": client.producer.producer_epoch,
        "verify_only": True,
        "topics": [{"name": "orders", "partitions": [0]}],
    }
    asked = [{**known, "transactional_id": name} for name in ("nobody", "tx", "nobody", "tx")]
    answer = client.peer.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, transactions=asked)
    assert [result.transactional_id for result in answer.results_by_transaction] == [
        "nobody",
        "tx",
        "nobody",
        "tx",
    ]


def test_partitions_are_added_all_or_none(client: Client) -> None:
    client.init()
    answer = client.peer.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=client.producer.producer_id,
        v3_and_below_producer_epoch=client.producer.producer_epoch,
        v3_and_below_topics=[{"name": "orders", "partitions": [0, 7]}],
    )
    (topic,) = answer.results_by_topic_v3_and_below
    assert [each.partition_error_code for each in topic.results_by_partition] == [
        ErrorCode.operation_not_attempted,
        ErrorCode.unknown_topic_or_partition,
    ]


@pytest.mark.parametrize("version", [4, 5])
def test_no_leader_adds_a_partition_that_the_coordinator_does_not_know(
    client: Client, version: int
) -> None:
    client.init()
    asked = {
        "transactional_id": "tx",
        "producer_id": client.producer.producer_id,
        "producer_epoch": client.producer.producer_epoch,
        "verify_only": False,
        "topics": [{"name": "orders", "partitions": [0, 7]}],
    }
    answer = client.peer.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=[asked])

    (result,) = answer.results_by_transaction
    (topic,) = result.topic_results
    assert [each.partition_error_code for each in topic.results_by_partition] == [
        ErrorCode.operation_not_attempted,
        ErrorCode.unknown_topic_or_partition,
    ]
    described = client.peer.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx"])
    assert described.transaction_states[0].transaction_state == "Empty"


def test_a_client_comes_again_while_the_coordinator_has_not_heard_of_a_partition(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.init()
    with monkeypatch.context() as patched:
        patched.setattr(
            TransactionJoining,
            "_unknown",
            lambda _, asked: dict.fromkeys(asked.partitions, ErrorCode.unknown_topic_or_partition),
        )
        assert client.produce(version=12).error == ErrorCode.not_enough_replicas
        assert client.commit_offset(7, 5) == ErrorCode.coordinator_not_available
    client.sequences = {}

    assert client.produce(version=12).error == 0
    assert client.commit_offset(7, 5) == 0
    assert client.end(True, version=5).error_code == 0


# Fencing


def test_a_zombie_is_fenced_everywhere(bench: NodeBench, client: Client) -> None:
    client.init()
    client.add(0)
    client.produce()
    heir = Client(bench)
    assert heir.init().error_code == ErrorCode.concurrent_transactions
    assert heir.init().error_code == 0

    assert client.produce().error == ErrorCode.invalid_producer_epoch
    assert client.add(1) == ErrorCode.producer_fenced
    assert client.add(1, version=1) == ErrorCode.invalid_producer_epoch
    assert client.end(True).error_code == ErrorCode.producer_fenced
    assert client.end(True, version=1).error_code == ErrorCode.invalid_producer_epoch
    assert client.add_offsets() == ErrorCode.producer_fenced
    expected = {
        "producer_id": client.producer.producer_id,
        "producer_epoch": client.producer.producer_epoch,
    }
    assert client.init(4, **expected).error_code == ErrorCode.producer_fenced
    assert client.init(3, **expected).error_code == ErrorCode.invalid_producer_epoch


def test_a_transaction_past_its_timeout_is_aborted(bench: NodeBench, client: Client) -> None:
    client.init(transaction_timeout=5000)
    client.add(0)
    client.produce()

    bench.wait(20_000)
    client.settle()

    assert bench.partition("orders").last_stable_offset == 2
    assert client.end(True).error_code == ErrorCode.producer_fenced


# Offsets


@pytest.mark.parametrize("version", versions(ApiKey.TXN_OFFSET_COMMIT))
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_when_their_transaction_commits(
    client: Client, version: int, commit: bool
) -> None:
    client.init()
    if version < 5:
        assert client.add_offsets(min(version, 4)) == 0
    assert client.commit_offset(7, version) == 0
    assert client.committed_offset() == -1

    assert client.end(commit, version=5 if version == 5 else 4).error_code == 0

    assert client.committed_offset() == (7 if commit else -1)


def test_offsets_of_a_transaction_that_knows_nothing_of_them_are_refused(client: Client) -> None:
    client.init()
    assert client.commit_offset(7, 3) == ErrorCode.invalid_txn_state
    assert client.commit_offset(7, 4) == ErrorCode.transaction_abortable


def test_offsets_of_a_member_that_left_its_group_are_refused(client: Client) -> None:
    client.init()
    client.add_offsets()
    refused = client.commit_offset(7, 3, generation_id=4, member_id="gone", group_instance_id=None)
    assert refused == ErrorCode.illegal_generation
