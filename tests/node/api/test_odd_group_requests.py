"""Requests about groups that name what does not exist, or nothing: the answers of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.node.node_bench import NodeBench
from tests.node.peer import Peer
from tests.node.transactional_client import SETTINGS, Client
from tests.protocol.kio_messages.entity_messages import decode_response

from tidelog.coordinator.internal_topics import OFFSETS_TOPIC
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.protocol.apis import SUPPORTED, ApiKey

NewBench = Callable[..., NodeBench]
FOREVER_MS = (1 << 63) - 1
MEMBERLESS: dict[ApiKey, dict[str, Any]] = {
    ApiKey.OFFSET_COMMIT: {"generation_id_or_member_epoch": -1, "member_id": ""},
    ApiKey.TXN_OFFSET_COMMIT: {"generation_id": -1, "member_id": ""},
    ApiKey.OFFSET_DELETE: {},
}


@pytest.fixture
def bench(new_bench: NewBench) -> NodeBench:
    started = new_bench(**SETTINGS)
    started.create_topic("orders", partitions=2)
    return started


@pytest.fixture
def client(bench: NodeBench) -> Client:
    """It has found the coordinators of its group and of its transactions."""
    client = Client(bench)
    client.peer.ask(ApiKey.FIND_COORDINATOR, 1, key="group", key_type=0)
    return client


@pytest.fixture
def peer(client: Client) -> Peer:
    return client.peer


def place(index: int) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": 7,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }


def commit(peer: Peer, version: int, **topic: Any) -> dict[int, int]:
    answer = peer.ask(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id="group",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time=FOREVER_MS // 1_000_000,
        topics=[{**topic, "partitions": [place(1), place(2), place(-1)]}],
    )
    return {each.partition_index: each.error_code for each in answer.topics[0].partitions}


@pytest.mark.parametrize("version", [2, 9, 10])
def test_offsets_of_partitions_that_do_not_exist_are_not_committed(
    bench: NodeBench, peer: Peer, version: int
) -> None:
    topic_id = bench.node.cluster.image.topics_by_name["orders"].topic_id
    topic = {"topic_id": topic_id} if version >= 10 else {"name": "orders"}
    missing = ErrorCode.unknown_topic_or_partition
    assert commit(peer, version, **topic) == {1: ErrorCode.none, 2: missing, -1: missing}
    stored = peer.ask(ApiKey.OFFSET_FETCH, 5, group_id="group", topics=None)
    assert [each.partition_index for each in stored.topics[0].partitions] == [1]


def test_offsets_may_be_kept_for_as_long_as_can_be_said(peer: Peer) -> None:
    body = (
        b"\x00\x05group\xff\xff\xff\xff\x00\x00"
        + FOREVER_MS.to_bytes(8, "big")
        + b"\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x01\x00\x00\x00\x01"
        + bytes(7)
        + b"\x05\xff\xff"
    )
    peer.send_body(ApiKey.OFFSET_COMMIT, 2, body)
    peer.bench.end_tick()
    assert peer.answer()[-2:] == b"\x00\x00"
    [topic] = peer.ask(ApiKey.OFFSET_FETCH, 5, group_id="group", topics=None).topics
    assert [each.committed_offset for each in topic.partitions] == [5]


def test_offsets_in_a_transaction_are_judged_partition_by_partition(client: Client) -> None:
    client.init()
    topics = [{"name": "orders", "partitions": [place(0), place(9)]}]
    topics += [{"name": "unknown", "partitions": [place(0)]}]
    asked: dict[str, Any] = {
        "transactional_id": "tx",
        "producer_id": client.producer.producer_id,
        "producer_epoch": client.producer.producer_epoch + 1,
        "topics": topics,
    }

    def outcomes(**changed: Any) -> list[int]:
        client.peer.send(ApiKey.TXN_OFFSET_COMMIT, 3, **{**asked, **changed})
        client.settle()
        answer: Any = decode_response(ApiKey.TXN_OFFSET_COMMIT, 3, client.peer.answer())[1]
        return [each.error_code for topic in answer.topics for each in topic.partitions]

    missing = ErrorCode.unknown_topic_or_partition
    elsewhere, fenced, nowhere = outcomes(group_id="group")
    assert fenced not in (ErrorCode.none, missing)
    assert elsewhere == nowhere == missing
    assert outcomes(group_id="group", topics=topics[1:]) == [missing]
    assert set(outcomes(group_id="")) == {ErrorCode.invalid_group_id}


def test_a_topic_without_a_name_has_no_offsets_and_one_without_an_id_is_unknown(
    peer: Peer,
) -> None:
    unnamed = [{"name": "", "partition_indexes": [0]}]
    old = peer.ask(ApiKey.OFFSET_FETCH, 5, group_id="group", topics=unnamed)
    [partition] = old.topics[0].partitions
    assert (partition.error_code, partition.committed_offset) == (0, -1)
    wanted = [{"topic_id": ZERO_UUID, "partition_indexes": [0]}]
    group = {"group_id": "group", "member_id": None, "member_epoch": -1, "topics": wanted}
    [new] = peer.ask(ApiKey.OFFSET_FETCH, 10, groups=[group]).groups
    assert new.topics[0].partitions[0].error_code == ErrorCode.unknown_topic_id


@pytest.mark.parametrize("left_out", ["protocol_type", "protocol_name"])
def test_a_member_that_syncs_says_which_protocol_it_speaks(peer: Peer, left_out: str) -> None:
    wish = {"protocol_type": "consumer", "protocol_name": "range", left_out: None}
    own = {"generation_id": 1, "member_id": "nobody", "assignments": []}
    newest = SUPPORTED[ApiKey.SYNC_GROUP].max
    answer = peer.ask(ApiKey.SYNC_GROUP, newest, group_id="group", **own, **wish)
    assert answer.error_code == ErrorCode.inconsistent_group_protocol


def test_a_group_named_twice_is_deleted_and_answered_for_once(peer: Peer) -> None:
    commit(peer, 5, name="orders")
    answer = peer.ask(ApiKey.DELETE_GROUPS, 1, groups_names=["group", "group"])
    assert [(each.group_id, each.error_code) for each in answer.results] == [("group", 0)]


def test_a_group_without_a_name_is_none(peer: Peer) -> None:
    deleted = peer.ask(ApiKey.OFFSET_DELETE, 0, group_id="", topics=[])
    assert deleted.error_code == ErrorCode.invalid_group_id
    [described] = peer.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[""]).groups
    assert described.error_code == ErrorCode.invalid_group_id


@pytest.mark.parametrize("name", ["group_id", "member_id", "instance_id", "rack_id"])
@pytest.mark.parametrize("blank", [" ", "\x00", "\t \x1f"])
def test_a_name_of_control_characters_is_no_name(peer: Peer, name: str, blank: str) -> None:
    beat = {"group_id": "group", "member_id": "member", "member_epoch": 1, name: blank}
    answer = peer.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **beat)
    assert answer.error_code == ErrorCode.invalid_request


def test_clients_add_no_internal_topic_to_a_transaction(client: Client) -> None:
    client.init()
    topics = [{"name": name, "partitions": [0]} for name in (OFFSETS_TOPIC, "orders")]
    answer = client.peer.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=client.producer.producer_id,
        v3_and_below_producer_epoch=client.producer.producer_epoch,
        v3_and_below_topics=topics,
    )
    codes = {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in answer.results_by_topic_v3_and_below
    }
    assert codes == {
        OFFSETS_TOPIC: ErrorCode.topic_authorization_failed,
        "orders": ErrorCode.operation_not_attempted,
    }


# Named more than once


@pytest.mark.parametrize(
    "indexes",
    [[[0], [1]], [[0], [0]], [[0, 0], [1]]],
)
def test_a_topic_is_answered_for_as_often_as_offsets_are_asked_for(
    peer: Peer, indexes: list[list[int]]
) -> None:
    commit(peer, 5, name="orders")
    topics = [{"name": "orders", "partition_indexes": each} for each in indexes]
    answer = peer.ask(ApiKey.OFFSET_FETCH, 5, group_id="group", topics=topics)
    told = [[each.partition_index for each in topic.partitions] for topic in answer.topics]
    assert told == indexes


def test_a_topic_of_which_something_is_committed_and_something_not_is_answered_for_once(
    peer: Peer,
) -> None:
    commit(peer, 5, name="orders")
    topics = [{"name": "orders", "partition_indexes": [0, 1]}]
    [topic] = peer.ask(ApiKey.OFFSET_FETCH, 5, group_id="group", topics=topics).topics
    assert [each.committed_offset for each in topic.partitions] == [-1, 7]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([[0], [0, 1]], [[0], [0, 1]]),
        ([[0], [9, 1]], [[9, 0, 1]]),
        ([[9], [8]], [[9, 8]]),
    ],
)
def test_a_topic_with_a_partition_that_does_not_exist_is_answered_for_once(
    client: Client, asked: list[list[int]], told: list[list[int]]
) -> None:
    client.init()
    commit(client.peer, 5, name="orders")
    in_transaction = {
        "transactional_id": "tx",
        "producer_id": client.producer.producer_id,
        "producer_epoch": client.producer.producer_epoch,
    }
    for api, version, more in (
        (ApiKey.OFFSET_COMMIT, 5, {}),
        (ApiKey.TXN_OFFSET_COMMIT, 5, in_transaction),
        (ApiKey.OFFSET_DELETE, 0, {}),
    ):
        named = (lambda index: {"partition_index": index}) if api is ApiKey.OFFSET_DELETE else place
        topics = [{"name": "orders", "partitions": [*map(named, few)]} for few in asked]
        client.peer.send(api, version, group_id="group", topics=topics, **MEMBERLESS[api], **more)
        client.settle()
        answer: Any = decode_response(api, version, client.peer.answer())[1]
        indexes = [[each.partition_index for each in topic.partitions] for topic in answer.topics]
        assert indexes == told


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([[0, 0], [0]], [[0, 0], [0]]),
        ([[9, 0, 9], [0]], [[0, 9]]),
    ],
)
def test_a_transaction_that_takes_in_nothing_answers_for_everything_once(
    client: Client, asked: list[list[int]], told: list[list[int]]
) -> None:
    client.init()
    answer = client.peer.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=client.producer.producer_id,
        v3_and_below_producer_epoch=client.producer.producer_epoch,
        v3_and_below_topics=[{"name": "orders", "partitions": few} for few in asked],
    )
    indexes = [
        [each.partition_index for each in topic.results_by_partition]
        for topic in answer.results_by_topic_v3_and_below
    ]
    assert indexes == told


def test_a_transaction_is_described_as_often_and_a_strange_state_named_once(client: Client) -> None:
    answer = client.peer.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx", "", "tx"])
    assert [each.transactional_id for each in answer.transaction_states] == ["tx", "", "tx"]
    states = ["Strange", "Ongoing", "Strange"]
    answer = client.peer.ask(
        ApiKey.LIST_TRANSACTIONS, 0, state_filters=states, producer_id_filters=[]
    )
    assert list(answer.unknown_state_filters) == ["Strange"]
