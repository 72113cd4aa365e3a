"""Markers, tools, two-phase commits, odd requests and restarts, on one broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.node.node_bench import NodeBench
from tests.node.transactional_client import SETTINGS, Client, bench, client, values, versions

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey

__all__ = ["bench", "client"]


# Markers


@pytest.mark.parametrize("version", versions(ApiKey.WRITE_TXN_MARKERS))
def test_markers_are_answered_partition_by_partition(
    bench: NodeBench, client: Client, version: int
) -> None:
    client.init()
    client.add(0)
    client.produce()
    marker = {
        "producer_id": client.producer.producer_id,
        "producer_epoch": client.producer.producer_epoch + 1,
        "transaction_result": True,
        "coordinator_epoch": 5,
        "transaction_version": 2,
        "topics": [
            {"name": "orders", "partition_indexes": [0]},
            {"name": "nowhere", "partition_indexes": [3]},
        ],
    }
    answer = bench.connect().ask(ApiKey.WRITE_TXN_MARKERS, version, markers=[marker])
    (told,) = answer.markers
    assert [each.error_code for topic in told.topics for each in topic.partitions] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert bench.partition("orders").last_stable_offset == 2

    stale = {**marker, "producer_epoch": 7, "coordinator_epoch": 4}
    (told,) = bench.connect().ask(ApiKey.WRITE_TXN_MARKERS, version, markers=[stale]).markers
    fenced = told.topics[0].partitions[0].error_code
    assert fenced == ErrorCode.transaction_coordinator_fenced


def test_a_topic_that_is_deleted_does_not_keep_a_transaction_from_ending(
    bench: NodeBench, client: Client
) -> None:
    client.init()
    client.add(0)
    client.produce()
    bench.delete_topic("orders")

    assert client.end(True).error_code == 0

    described = client.peer.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx"])
    assert described.transaction_states[0].transaction_state == "CompleteCommit"


# Looking


def test_transactions_are_described_and_listed(bench: NodeBench, client: Client) -> None:
    client.init()
    client.add(0)
    bench.wait(100)
    answer = client.peer.ask(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx", "nobody", ""]
    )
    codes = [state.error_code for state in answer.transaction_states]
    assert codes == [0, ErrorCode.transactional_id_not_found, ErrorCode.invalid_request]
    (ours, _, _) = answer.transaction_states
    assert (ours.transaction_state, ours.producer_id) == ("Ongoing", client.producer.producer_id)
    assert [(topic.topic, tuple(topic.partitions)) for topic in ours.topics] == [("orders", (0,))]

    def listed(version: int = 1, **filters: Any) -> list[str]:
        given = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, **filters}
        found = client.peer.ask(ApiKey.LIST_TRANSACTIONS, version, **given)
        return [state.transactional_id for state in found.transaction_states]

    assert listed(0) == listed(1) == ["tx"]
    assert listed(state_filters=["Ongoing"]) == ["tx"]
    assert listed(state_filters=["Empty"]) == []
    assert listed(producer_id_filters=[client.producer.producer_id]) == ["tx"]
    assert listed(producer_id_filters=[4711]) == []
    assert listed(duration_filter=99) == ["tx"]
    assert listed(duration_filter=100) == []
    assert listed(2, transactional_id_pattern="t.*") == ["tx"]
    assert listed(2, transactional_id_pattern="t") == [], "the whole id must match"
    malformed = client.peer.ask(
        ApiKey.LIST_TRANSACTIONS,
        2,
        state_filters=[],
        producer_id_filters=[],
        transactional_id_pattern="(",
    )
    assert malformed.error_code == ErrorCode.invalid_regular_expression
    unknown = client.peer.ask(
        ApiKey.LIST_TRANSACTIONS, 0, state_filters=["Nonsense"], producer_id_filters=[]
    )
    assert list(unknown.unknown_state_filters) == ["Nonsense"]


# Two phases


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_is_taken_over_and_ended(
    bench: NodeBench, client: Client, records_in: Any, commit: bool
) -> None:
    client.init(6, enable2_pc=True)
    assert client.produce(version=12, value=b"v" if commit else b"aborted").error == 0
    bench.wait(3_600_000)
    heir = Client(bench)

    taken = heir.init(6, enable2_pc=True, keep_prepared_txn=True)

    assert ProducerIdAndEpoch(taken.ongoing_txn_producer_id, taken.ongoing_txn_producer_epoch) == (
        client.producer
    )
    assert client.end(True, version=5).error_code == ErrorCode.producer_fenced
    assert heir.end(commit, version=5).error_code == 0
    assert values(bench, records_in, committed=True) == ([b"v"] if commit else [])
    assert heir.produce(version=12).error == 0


def test_two_phases_must_be_allowed(new_bench: Callable[..., NodeBench]) -> None:
    bench = new_bench(**{**SETTINGS, "transaction_two_phase_commit_enable": "false"})
    client = Client(bench)
    refused = client.init(6, enable2_pc=True).error_code
    assert refused == ErrorCode.transactional_id_authorization_failed


# Odd requests


def test_a_transactional_id_is_not_empty(bench: NodeBench) -> None:
    client = Client(bench)
    client.transactional_id = ""
    assert client.init().error_code == ErrorCode.invalid_request
    assert client.add(0) == ErrorCode.invalid_request
    assert client.add_offsets() == ErrorCode.invalid_request
    assert client.end(True).error_code == ErrorCode.invalid_request


def test_a_producer_says_who_it_is_in_full_or_not_at_all(client: Client) -> None:
    assert client.init(producer_id=7).error_code == ErrorCode.invalid_request
    assert client.init(producer_epoch=7).error_code == ErrorCode.invalid_request


def test_a_partition_named_twice_gets_one_marker(bench: NodeBench) -> None:
    marker = {
        "producer_id": 7,
        "producer_epoch": 0,
        "transaction_result": True,
        "coordinator_epoch": 0,
        "topics": [{"name": "orders", "partition_indexes": [0, 0]}],
    }
    answer = bench.connect().ask(ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker])
    assert len(answer.markers[0].topics[0].partitions) == 2
    assert bench.partition("orders").log.end_offset == 1


# Restarts


def test_a_restarted_coordinator_finishes_what_was_decided(
    bench: NodeBench, client: Client
) -> None:
    client.init()
    client.add(0)
    client.produce()
    client.peer.send(
        ApiKey.END_TXN,
        4,
        transactional_id="tx",
        producer_id=client.producer.producer_id,
        producer_epoch=client.producer.producer_epoch,
        committed=True,
    )  # the tick does not end: no marker is written
    assert bench.partition("orders").last_stable_offset == 0

    restarted = bench.again()
    for _ in range(4):
        restarted.wait(100)
        restarted.end_tick()

    assert restarted.partition("orders").last_stable_offset == 2
