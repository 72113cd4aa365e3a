"""Creation and deletion of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.controller.topics import CreatedTopic, NewTopic
from tidelog.model.config import TOPIC_SETTINGS
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import DIRECTORY_UNASSIGNED, ZERO_UUID
from tidelog.model.settings.effective import ConfigSource
from tidelog.protocol.stored.metadata import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster


def created(cluster: Cluster, asked: NewTopic) -> CreatedTopic:
    [(name, outcome)] = cluster.do(cluster.controller.create_topics([asked]))
    assert name == asked.name
    assert isinstance(outcome, CreatedTopic), outcome
    return outcome


def refused(cluster: Cluster, asked: NewTopic) -> Refusal:
    decision = cluster.controller.create_topics([asked])
    [(_, outcome)] = decision.reply
    assert isinstance(outcome, Refusal)
    assert decision.records == ()
    return outcome


def test_a_topic_is_written_as_topic_then_configs_then_partitions(cluster: Cluster) -> None:
    asked = NewTopic("orders", 2, 3, configs={"retention.ms": "5", "segment.ms": "6"})
    decision = cluster.controller.create_topics([asked])

    kinds = [type(record) for record in decision.records]
    assert kinds == [TopicRecord, ConfigRecord, ConfigRecord, PartitionRecord, PartitionRecord]


def test_a_new_partition_is_in_sync_on_its_active_brokers_and_led_by_the_first(
    cluster: Cluster,
) -> None:
    cluster.fence(101)

    cluster.create("orders", (101, 102, 100))

    partition = cluster.partition("orders")
    assert partition.replicas == (101, 102, 100)
    assert partition.isr == (102, 100)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (102, 0, 0)


def test_the_only_directory_of_a_broker_is_assigned_at_once(cluster: Cluster) -> None:
    cluster.start(103, directories=2)

    cluster.create("orders", (100, 103))

    [only] = cluster.image.brokers[100].log_dirs
    assert cluster.partition("orders").directories == (only, DIRECTORY_UNASSIGNED)


def test_minus_one_takes_the_cluster_defaults(new_cluster: NewCluster) -> None:
    cluster = new_cluster(num_partitions="4", default_replication_factor="2")
    cluster.start(100, 101, 102)

    topic = created(cluster, NewTopic("orders"))

    assert (topic.partitions, topic.replication_factor) == (4, 2)
    assert len(cluster.image.topics_by_name["orders"].partitions) == 4


def test_the_reply_tells_id_and_effective_settings(cluster: Cluster) -> None:
    topic = created(cluster, NewTopic("orders", 1, 1, configs={"retention.ms": "5"}))

    assert cluster.image.topics_by_id[topic.topic_id].name == "orders"
    assert [entry.name for entry in topic.configs] == sorted(TOPIC_SETTINGS)
    retention = next(entry for entry in topic.configs if entry.name == "retention.ms")
    assert (retention.value, retention.source) == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)


def test_validation_alone_writes_nothing(cluster: Cluster) -> None:
    decision = cluster.controller.create_topics([NewTopic("orders", 3, 3)], validate_only=True)

    [(_, outcome)] = decision.reply
    assert decision.records == ()
    assert isinstance(outcome, CreatedTopic)
    assert (outcome.topic_id, outcome.partitions) == (ZERO_UUID, 3)


def test_one_bad_topic_does_not_stand_in_the_way_of_the_others(cluster: Cluster) -> None:
    reply = cluster.do(
        cluster.controller.create_topics([NewTopic("bad name", 1, 1), NewTopic("good", 1, 1)])
    )

    assert [type(outcome) for _, outcome in reply] == [Refusal, CreatedTopic]
    assert list(cluster.image.topics_by_name) == ["good"]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "x" * 250])
def test_a_topic_name_has_legal_characters_and_length(cluster: Cluster, name: str) -> None:
    assert refused(cluster, NewTopic(name, 1, 1)).code is ErrorCode.invalid_topic_exception


def test_the_longest_legal_name_is_accepted(cluster: Cluster) -> None:
    created(cluster, NewTopic("x" * 249, 1, 1))


def test_the_metadata_topic_cannot_be_created(cluster: Cluster) -> None:
    asked = NewTopic("__cluster_metadata", 1, 1)

    assert refused(cluster, asked).code is ErrorCode.invalid_request


def test_an_existing_topic_is_refused(cluster: Cluster) -> None:
    cluster.create("orders", (100,))

    refusal = refused(cluster, NewTopic("orders", 1, 1))
    assert refusal == Refusal(ErrorCode.topic_already_exists, "Topic 'orders' already exists.")


def test_names_that_differ_in_dots_and_underscores_collide(cluster: Cluster) -> None:
    cluster.create("a.b", (100,))

    refusal = refused(cluster, NewTopic("a_b", 1, 1))
    assert refusal.code is ErrorCode.invalid_topic_exception
    assert "collides with existing topic: a.b" in refusal.why
    created(cluster, NewTopic("a-b", 1, 1))


def test_names_collide_within_one_request_too(cluster: Cluster) -> None:
    reply = cluster.do(
        cluster.controller.create_topics([NewTopic("a.b", 1, 1), NewTopic("a_b", 1, 1)])
    )

    assert [type(outcome) for _, outcome in reply] == [CreatedTopic, Refusal]


def test_a_topic_named_twice_in_a_request_is_refused_both_times(cluster: Cluster) -> None:
    decision = cluster.controller.create_topics([NewTopic("a", 1, 1), NewTopic("a", 2, 1)])

    assert [getattr(outcome, "code", None) for _, outcome in decision.reply] == [
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
    ]


@pytest.mark.parametrize(
    ("partitions", "replication_factor", "code"),
    [
        (1, 0, ErrorCode.invalid_replication_factor),
        (1, -2, ErrorCode.invalid_replication_factor),
        (0, 1, ErrorCode.invalid_partitions),
        (-2, 1, ErrorCode.invalid_partitions),
        (1, 4, ErrorCode.invalid_replication_factor),
        (10_001, 1, ErrorCode.policy_violation),
        (2**31 - 1, 1, ErrorCode.policy_violation),
    ],
)
def test_impossible_sizes_are_refused(
    cluster: Cluster, partitions: int, replication_factor: int, code: ErrorCode
) -> None:
    assert refused(cluster, NewTopic("orders", partitions, replication_factor)).code is code


def test_the_limit_on_partitions_holds_for_the_request_as_a_whole(cluster: Cluster) -> None:
    requests = [NewTopic("a", 6_000, 1), NewTopic("b", 4_001, 1)]
    decision = cluster.controller.create_topics(requests)

    assert [getattr(outcome, "code", None) for _, outcome in decision.reply] == [
        ErrorCode.policy_violation,
        ErrorCode.policy_violation,
    ]


def test_without_a_live_broker_no_topic_can_be_created(cluster: Cluster) -> None:
    cluster.fence(100, 101, 102)

    refusal = refused(cluster, NewTopic("orders", 1, 1))
    assert refusal.code is ErrorCode.invalid_replication_factor


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        (NewTopic("t", -1, 1, [(0, (100,))]), ErrorCode.invalid_request, "replication factor"),
        (
            NewTopic("t", 1, -1, [(0, (100,))]),
            ErrorCode.invalid_request,
            "numPartitions was not set to -1",
        ),
        (NewTopic("t", assignments=[(1, (100,))]), 39, "consecutive 0-based"),
        (NewTopic("t", assignments=[(0, (100,)), (0, (101,))]), 39, "consecutive 0-based"),
        (NewTopic("t", assignments=[(0, ())]), 39, "includes an empty replica list"),
        (NewTopic("t", assignments=[(0, (7,))]), 39, "no such broker"),
        (NewTopic("t", assignments=[(0, (100, 100))]), 39, "more than once"),
        (
            NewTopic("t", assignments=[(0, (100, 101)), (1, (102,))]),
            39,
            "but another partition has 2",
        ),
    ],
)
def test_a_manual_assignment_must_fit(
    cluster: Cluster, asked: NewTopic, code: int, words: str
) -> None:
    refusal = refused(cluster, asked)

    assert refusal.code == code
    assert words in refusal.why


def test_a_manual_assignment_needs_a_live_broker_in_each_partition(cluster: Cluster) -> None:
    cluster.fence(101)

    refusal = refused(cluster, NewTopic("t", assignments=[(0, (100,)), (1, (101,))]))
    assert refusal.code is ErrorCode.invalid_replica_assignment
    assert "includes only brokers that are fenced" in refusal.why


def test_a_manual_assignment_may_name_partitions_in_any_order(cluster: Cluster) -> None:
    created(cluster, NewTopic("t", assignments=[(1, (101,)), (0, (100,))]))

    assert cluster.partition("t", 0).replicas == (100,)
    assert cluster.partition("t", 1).replicas == (101,)


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        (
            {"retentoin.ms": "1"},
            "Unknown topic config name: retentoin.ms; did you mean retention.ms?",
        ),
        ({"retention.ms": "soon"}, "must be a whole number, at least -1"),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, "must not exceed"),
    ],
)
def test_settings_of_a_new_topic_are_checked(
    cluster: Cluster, configs: dict[str, str | None], words: str
) -> None:
    refusal = refused(cluster, NewTopic("orders", 1, 1, configs=configs))

    assert refusal.code is ErrorCode.invalid_config
    assert words in refusal.why


def test_a_topic_is_deleted_by_name_or_by_id(cluster: Cluster) -> None:
    first = cluster.create("first", (100,))
    second = cluster.create("second", (100,))
    decision = cluster.controller.delete_topics([("first", ZERO_UUID), (None, second.topic_id)])

    assert decision.records == (
        RemoveTopicRecord(topic_id=first.topic_id),
        RemoveTopicRecord(topic_id=second.topic_id),
    )
    assert [(done.name, done.topic_id, done.refusal) for done in cluster.do(decision)] == [
        ("first", first.topic_id, None),
        ("second", second.topic_id, None),
    ]
    assert not cluster.image.topics_by_name


def test_a_deleted_name_may_be_created_at_once_under_another_id(cluster: Cluster) -> None:
    before = cluster.create("orders", (100,), configs={"retention.ms": "5"})
    cluster.do(cluster.controller.delete_topics([("orders", ZERO_UUID)]))

    after = cluster.create("orders", (100,))

    assert after.topic_id != before.topic_id
    assert not cluster.image.config(2, "orders")


def test_a_topic_that_cannot_be_found_is_not_deleted(cluster: Cluster) -> None:
    known = cluster.create("orders", (100,)).topic_id
    decision = cluster.controller.delete_topics(
        [("nobody", ZERO_UUID), (None, UUID(int=7)), (None, ZERO_UUID), ("orders", known)]
    )

    assert decision.records == ()
    assert [done.refusal.code for done in decision.reply if done.refusal] == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
    ]


def test_a_topic_named_twice_is_not_deleted(cluster: Cluster) -> None:
    topic_id = cluster.create("orders", (100,)).topic_id
    decision = cluster.controller.delete_topics([("orders", ZERO_UUID), (None, topic_id)])

    assert decision.records == ()
    assert all(done.refusal for done in decision.reply)


def test_deletion_can_be_switched_off(new_cluster: NewCluster) -> None:
    cluster = new_cluster(delete_topic_enable="false")
    cluster.start(100)
    cluster.create("orders", (100,))
    decision = cluster.controller.delete_topics([("orders", ZERO_UUID)])

    assert decision.records == ()
    [done] = decision.reply
    assert done.refusal is not None
    assert done.refusal.code is ErrorCode.topic_deletion_disabled


def test_a_new_topic_has_no_setting_longer_than_one_that_is_altered(cluster: Cluster) -> None:
    value = ",".join(["0:1"] * 9000)
    asked = NewTopic("orders", 1, 1, configs={"leader.replication.throttled.replicas": value})

    assert refused(cluster, asked).code is ErrorCode.invalid_config
