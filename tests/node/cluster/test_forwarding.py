"""What clients ask a broker without a controller of its own is passed on, in envelopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.protocol.kio_messages.entity_messages import decode_response, encode_request

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import FORWARDED, SUPPORTED, ApiKey, ListenerScope

if TYPE_CHECKING:
    from tests.node.cluster.conftest import Cluster, NewCluster

PRINCIPAL = b"\x00\x00\x05User\x0aANONYMOUS\x00\x00"


def new_topic(name: str, factor: int = 2) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": 2,
        "replication_factor": factor,
        "assignments": [],
        "configs": [],
    }


def test_a_topic_is_created_through_any_broker(cluster: Cluster) -> None:
    topic_id = cluster.create_topic("orders", 3, via=101)
    for machine in cluster.machines.values():
        assert machine.image.topics_by_name["orders"].topic_id == topic_id


def test_refusals_come_back_as_the_controller_gave_them(cluster: Cluster) -> None:
    answer = cluster.client(101).ask(
        ApiKey.CREATE_TOPICS, 7, topics=[new_topic("orders", factor=7)], timeout=1000
    )
    assert answer.topics[0].error_code == ErrorCode.invalid_replication_factor
    assert answer.topics[0].error_message


def test_settings_partitions_and_deletions_are_passed_on(cluster: Cluster) -> None:
    cluster.create_topic("orders", 1)
    client = cluster.client(101)
    change = {"name": "retention.ms", "config_operation": 0, "value": "1234"}
    resource = {"resource_type": 2, "resource_name": "orders", "configs": [change]}
    altered = client.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
    )
    assert [each.error_code for each in altered.responses] == [0]
    grown = client.ask(
        ApiKey.CREATE_PARTITIONS,
        3,
        topics=[{"name": "orders", "count": 4, "assignments": None}],
        timeout=1000,
        validate_only=False,
    )
    assert [each.error_code for each in grown.results] == [0]
    cluster.wait(10)
    assert len(cluster[101].image.topics_by_name["orders"].partitions) == 4
    assert cluster[101].image.config(2, "orders")["retention.ms"] == "1234"
    client.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "orders", "topic_id": None}], timeout=1000)
    cluster.wait(10)
    assert cluster[101].image.topics_by_name == {}


def test_the_quorum_is_described_by_its_leader_with_those_who_follow_it(cluster: Cluster) -> None:
    topic = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    answer = cluster.client(101).ask(ApiKey.DESCRIBE_QUORUM, 2, topics=[topic])
    [partition] = answer.topics[0].partitions
    assert partition.leader_id == 100
    assert [voter.replica_id for voter in partition.current_voters] == [100]
    assert [observer.replica_id for observer in partition.observers] == [101]
    directory = cluster[101].node.rooms.base.directories[0].identity.directory_id
    assert partition.observers[0].replica_directory_id == directory


def test_answers_keep_the_order_of_the_questions(cluster: Cluster) -> None:
    client = cluster.client(101)
    client.send(ApiKey.CREATE_TOPICS, 7, topics=[new_topic("orders")], timeout=1000)
    client.send(ApiKey.DESCRIBE_CLUSTER, 0)
    cluster.wait(100)
    assert len(client.frames) == 2
    assert decode_response(ApiKey.CREATE_TOPICS, 7, client.frames[0])[0] == 1


def test_a_missing_topic_is_created_by_asking_any_broker_about_it(cluster: Cluster) -> None:
    answer = cluster.client(101).ask(
        ApiKey.METADATA, 12, topics=[{"name": "orders"}], allow_auto_topic_creation=True
    )
    [topic] = answer.topics
    assert topic.error_code == 0
    assert len(topic.partitions) == 1


def test_a_topic_that_somebody_else_has_created_meanwhile_is_no_error(cluster: Cluster) -> None:
    first, second = cluster.client(101), cluster.client(101)
    for client in (first, second):
        client.send(
            ApiKey.METADATA, 12, topics=[{"name": "orders"}], allow_auto_topic_creation=True
        )
    cluster.wait(100)
    for client in (first, second):
        _, answer = decode_response(ApiKey.METADATA, 12, client.frames[0])
        assert answer.topics[0].error_code == 0


def test_a_broker_without_a_controller_says_so_when_the_time_is_up(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(2, request_timeout_ms="3000")
    cluster.start()
    cluster[100].kill()
    answer = cluster.client(101).ask(
        ApiKey.CREATE_TOPICS, 7, topics=[new_topic("orders")], timeout=1000
    )
    assert answer.topics[0].error_code == ErrorCode.request_timed_out


def test_a_request_waits_for_a_controller_that_restarts(cluster: Cluster) -> None:
    cluster[100].kill()
    client = cluster.client(101)
    client.send(ApiKey.CREATE_TOPICS, 7, topics=[new_topic("orders", 1)], timeout=1000)
    cluster.wait(1000)
    assert client.frames == []
    cluster.start(100)
    cluster.wait_until(lambda: bool(client.frames), 3000)
    _, answer = decode_response(ApiKey.CREATE_TOPICS, 7, client.frames[0])
    assert answer.topics[0].error_code == 0


def test_a_client_that_leaves_is_not_answered(cluster: Cluster) -> None:
    cluster[100].kill()
    client = cluster.client(101)
    client.send(ApiKey.CREATE_TOPICS, 7, topics=[new_topic("orders")], timeout=1000)
    cluster.wait(10)
    client.leave()
    cluster.start(100)
    cluster.wait(3000)
    assert client.frames == []


def test_producer_ids_come_from_blocks_that_no_two_brokers_share(cluster: Cluster) -> None:
    given = [
        cluster.client(node_id)
        .ask(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=1000)
        .producer_id
        for node_id in (100, 101, 100, 101)
    ]
    assert len(set(given)) == 4
    assert {producer_id // 1000 for producer_id in given} == {0, 1}


# Envelopes


def enclosed(api: ApiKey, version: int, **fields: Any) -> dict[str, bytes | None]:
    return {
        "request_data": encode_request(api, version, 4711, "somebody", fields),
        "request_principal": PRINCIPAL,
        "client_host_address": bytes([10, 0, 0, 7]),
    }


def test_an_envelope_holds_the_whole_answer_with_the_header_of_the_inner_request(
    cluster: Cluster,
) -> None:
    envelope = enclosed(ApiKey.CREATE_TOPICS, 7, topics=[new_topic("orders")], timeout=1000)
    answer = cluster.client(100, "CONTROLLER").ask(ApiKey.ENVELOPE, 0, **envelope)
    assert answer.error_code == 0
    correlation_id, inner = decode_response(ApiKey.CREATE_TOPICS, 7, answer.response_data)
    assert correlation_id == 4711
    assert inner.topics[0].error_code == 0


@pytest.mark.parametrize(
    "principal", [None, b"", PRINCIPAL[:-2], PRINCIPAL + b"\x00", b"\x00\x01" + PRINCIPAL[2:]]
)
def test_an_envelope_that_does_not_say_who_asks_is_not_opened(
    cluster: Cluster, principal: bytes | None
) -> None:
    envelope = enclosed(ApiKey.CREATE_TOPICS, 7, topics=[new_topic("orders")], timeout=1000)
    envelope["request_principal"] = principal
    answer = cluster.client(100, "CONTROLLER").ask(ApiKey.ENVELOPE, 0, **envelope)
    assert answer.error_code == ErrorCode.principal_deserialization_failure
    assert answer.response_data is None
    assert cluster[100].image.topics_by_name == {}


def test_an_envelope_from_an_address_that_cannot_be_is_not_opened(cluster: Cluster) -> None:
    envelope = enclosed(ApiKey.CREATE_TOPICS, 7, topics=[new_topic("orders")], timeout=1000)
    envelope["client_host_address"] = bytes(5)
    answer = cluster.client(100, "CONTROLLER").ask(ApiKey.ENVELOPE, 0, **envelope)
    assert answer.error_code == ErrorCode.invalid_request
    assert cluster[100].image.topics_by_name == {}


@pytest.mark.parametrize("data", [b"", b"\x00\x13", b"\x00\x13\x00\x07" + bytes(20)])
def test_an_envelope_around_nonsense_is_refused(cluster: Cluster, data: bytes) -> None:
    client = cluster.client(100, "CONTROLLER")
    fields = {"request_principal": PRINCIPAL, "client_host_address": bytes(4)}
    answer = client.ask(ApiKey.ENVELOPE, 0, request_data=data, **fields)
    assert answer.error_code == ErrorCode.invalid_request


def test_only_what_a_controller_decides_can_be_enclosed(cluster: Cluster) -> None:
    client = cluster.client(100, "CONTROLLER")
    for envelope in (
        enclosed(ApiKey.METADATA, 12, topics=[]),
        enclosed(ApiKey.ENVELOPE, 0, **enclosed(ApiKey.DESCRIBE_CLUSTER, 0)),
    ):
        answer = client.ask(ApiKey.ENVELOPE, 0, **envelope)
        assert answer.error_code == ErrorCode.invalid_request


def test_everything_that_is_passed_on_is_served_on_both_kinds_of_listener() -> None:
    assert all(SUPPORTED[key].scope is ListenerScope.BOTH for key in FORWARDED)


@pytest.mark.parametrize(
    "api",
    [
        ApiKey.ENVELOPE,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.FETCH_SNAPSHOT,
    ],
)
def test_what_brokers_ask_of_controllers_is_not_served_to_clients(
    cluster: Cluster, api: ApiKey
) -> None:
    for node_id in (100, 101):
        client = cluster.client(node_id)
        client.send(api, SUPPORTED[api].max)
        cluster.wait(1)
        assert client.closed is not None
        assert client.frames == []
