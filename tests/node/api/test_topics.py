"""CreateTopics, DeleteTopics and CreatePartitions, as far as a client sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.protocol.kio_messages.entity_messages import decode_response

from tidelog.model.errors import ErrorCode
from tidelog.observe.events import PartitionBecameLeader, TopicCreated, TopicDeleted
from tidelog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer


def wish(name: str, partitions: int = -1, replicas: int = -1, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [],
        "configs": [],
        **more,
    }


def create(peer: Peer, *wishes: dict[str, Any], version: int = 7, **how: Any) -> Any:
    return peer.ask(
        ApiKey.CREATE_TOPICS,
        version,
        topics=list(wishes),
        timeout=1000,
        validate_only=how.get("validate_only", False),
    ).topics


# Creating


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_there_when_its_creation_is_answered(
    bench: NodeBench, peer: Peer, batch: NewBatch, version: int
) -> None:
    [created] = create(peer, wish("orders", 3, 1), version=version)
    assert (created.name, created.error_code, created.error_message) == ("orders", 0, None)
    assert [bench.partition("orders", index).is_leader for index in range(3)] == [True] * 3
    assert peer.produce("orders", batch(), 2).error == 0
    if version >= 5:
        assert (created.num_partitions, created.replication_factor) == (3, 1)
        assert {config.name for config in created.configs} >= {"retention.ms", "cleanup.policy"}
    if version >= 7:
        assert created.topic_id == bench.partition("orders").log.topic_id


def test_minus_1_takes_the_defaults_of_the_cluster(new_bench: NewBench) -> None:
    [created] = create(new_bench(num_partitions="4").connect(), wish("orders"))
    assert (created.num_partitions, created.replication_factor) == (4, 1)


def test_one_bad_topic_does_not_stand_in_the_way_of_the_others(peer: Peer) -> None:
    create(peer, wish("clicks"))
    answers = create(
        peer,
        wish("no spaces"),
        wish("clicks"),
        wish("orders", 0),
        wish("payments", 1, 3),
        wish("views", configs=[{"name": "no.such.key", "value": "1"}]),
        wish("good"),
    )
    assert {each.name: each.error_code for each in answers} == {
        "no spaces": ErrorCode.invalid_topic_exception,
        "clicks": ErrorCode.topic_already_exists,
        "orders": ErrorCode.invalid_partitions,
        "payments": ErrorCode.invalid_replication_factor,
        "views": ErrorCode.invalid_config,
        "good": ErrorCode.none,
    }
    assert all(each.error_message for each in answers if each.error_code)


def test_validating_creates_nothing(bench: NodeBench, peer: Peer) -> None:
    [validated] = create(peer, wish("orders", 2), validate_only=True)
    assert (validated.error_code, validated.num_partitions) == (0, 2)
    assert "orders" not in bench.node.cluster.image.topics_by_name


def test_creation_is_answered_once_it_is_on_disk(bench: NodeBench, peer: Peer) -> None:
    bench.holds_jobs = True
    peer.send(ApiKey.CREATE_TOPICS, 7, topics=[wish("orders")], timeout=1000, validate_only=False)
    assert peer.frames == []
    bench.run_jobs()
    assert len(peer.frames) == 1


def test_a_refusal_based_on_what_is_not_committed_yet_waits_for_it(bench: NodeBench) -> None:
    first, second = bench.connect(), bench.connect()
    bench.holds_jobs = True
    for peer in (first, second):
        peer.send(
            ApiKey.CREATE_TOPICS, 7, topics=[wish("orders")], timeout=1000, validate_only=False
        )
    assert second.frames == [], "the topic could still be lost with the disk"
    bench.run_jobs()
    codes = [
        decode_response(ApiKey.CREATE_TOPICS, 7, peer.answer())[1].topics[0].error_code
        for peer in (first, second)
    ]
    assert codes == [ErrorCode.none, ErrorCode.topic_already_exists]


def test_creation_and_leadership_are_announced(bench: NodeBench) -> None:
    topic_id = bench.create_topic("orders", 2)
    [created] = bench.of_kind(TopicCreated)
    assert (created.topic, created.topic_id, created.partitions) == ("orders", topic_id, 2)
    leaders = bench.of_kind(PartitionBecameLeader)
    assert [(each.partition.partition, each.leader_epoch) for each in leaders] == [(0, 0), (1, 0)]


def test_topics_can_be_created_on_the_controller_listener(bench: NodeBench) -> None:
    [created] = create(bench.connect("CONTROLLER"), wish("orders"))
    assert created.error_code == 0


# Deleting


@pytest.mark.parametrize("version", range(1, 6))
def test_a_topic_is_deleted_by_name(bench: NodeBench, peer: Peer, version: int) -> None:
    bench.create_topic("orders")
    answer = peer.ask(
        ApiKey.DELETE_TOPICS, version, topic_names=["orders", "nowhere"], timeout=1000
    )
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("orders", 0),
        ("nowhere", ErrorCode.unknown_topic_or_partition),
    ]
    assert peer.fetch_one("orders", 0).error == ErrorCode.unknown_topic_or_partition
    assert [each.topic for each in bench.of_kind(TopicDeleted)] == ["orders"]


def test_from_version_6_on_a_topic_is_deleted_by_name_or_by_id(
    bench: NodeBench, peer: Peer
) -> None:
    orders, clicks = bench.create_topic("orders"), bench.create_topic("clicks")
    answer = peer.ask(
        ApiKey.DELETE_TOPICS,
        6,
        topics=[
            {"name": "orders", "topic_id": None},
            {"name": None, "topic_id": clicks},
            {"name": None, "topic_id": UUID(int=7)},
            {"name": "both", "topic_id": UUID(int=8)},
            {"name": None, "topic_id": None},
        ],
        timeout=1000,
    )
    assert [(each.name, each.topic_id, each.error_code) for each in answer.responses] == [
        ("orders", orders, 0),
        ("clicks", clicks, 0),
        (None, UUID(int=7), ErrorCode.unknown_topic_id),
        ("both", UUID(int=8), ErrorCode.invalid_request),
        (None, None, ErrorCode.invalid_request),
    ]


@pytest.mark.parametrize("version", range(1, 6))
def test_a_cluster_may_forbid_deletion_in_words_that_the_client_knows(
    new_bench: NewBench, version: int
) -> None:
    bench = new_bench(delete_topic_enable="false")
    bench.create_topic("orders")
    answer = bench.connect().ask(
        ApiKey.DELETE_TOPICS, version, topic_names=["orders"], timeout=1000
    )
    disabled = ErrorCode.topic_deletion_disabled if version >= 3 else ErrorCode.invalid_request
    assert [each.error_code for each in answer.responses] == [disabled]


def test_a_topic_created_again_is_empty_and_has_another_id(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    before = bench.create_topic("orders")
    peer.produce("orders", batch(b"old"))
    bench.delete_topic("orders")
    after = bench.create_topic("orders")
    assert before != after
    assert peer.produce("orders", batch(b"new")).base_offset == 0


def test_the_files_of_a_deleted_topic_go_after_a_while(bench: NodeBench) -> None:
    bench.create_topic("orders", file_delete_delay_ms="5000")
    bench.delete_topic("orders")
    assert [name for name in bench.files.list("/data") if name.startswith("orders-0.")]
    bench.wait(7000)
    assert [name for name in bench.files.list("/data") if name.startswith("orders")] == []


# Growing


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_and_only_grows(bench: NodeBench, peer: Peer, version: int) -> None:
    bench.create_topic("orders", 2)
    for count, error in ((2, ErrorCode.invalid_partitions), (1, ErrorCode.invalid_partitions)):
        assert grow(peer, "orders", count, version=version) == error
    assert grow(peer, "orders", 4, version=version, validate_only=True) == 0
    assert grow(peer, "nowhere", 4, version=version) == ErrorCode.unknown_topic_or_partition
    assert len(bench.node.replicas) == 2
    assert grow(peer, "orders", 4, version=version) == 0
    assert bench.partition("orders", 3).is_leader


def grow(peer: Peer, name: str, count: int, *, version: int, validate_only: bool = False) -> int:
    answer = peer.ask(
        ApiKey.CREATE_PARTITIONS,
        version,
        topics=[{"name": name, "count": count, "assignments": None}],
        timeout=1000,
        validate_only=validate_only,
    )
    [result] = answer.results
    return int(result.error_code)
