"""More partitions for topics that exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.controller.partitions import NewPartitions
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import PartitionRecord

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster


def refused(cluster: Cluster, asked: NewPartitions) -> Refusal:
    decision = cluster.controller.create_partitions([asked])
    [(_, refusal)] = decision.reply
    assert decision.records == ()
    assert refusal is not None
    return refusal


def test_new_partitions_are_numbered_on_and_keep_the_replication_factor(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))

    reply = cluster.do(cluster.controller.create_partitions([NewPartitions("orders", 3)]))

    assert reply == [("orders", None)]
    partitions = cluster.image.topics_by_name["orders"].partitions
    assert list(partitions) == [0, 1, 2]
    assert all(len(partition.replicas) == 2 for partition in partitions.values())
    assert all(partition.isr == partition.replicas for partition in partitions.values())


def test_a_client_may_place_the_new_partitions(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))

    cluster.do(
        cluster.controller.create_partitions([NewPartitions("orders", 3, [(101, 102), (102, 100)])])
    )

    assert cluster.partition("orders", 1).replicas == (101, 102)
    assert cluster.partition("orders", 2).leader == 102


def test_validation_alone_writes_nothing(cluster: Cluster) -> None:
    cluster.create("orders", (100,))
    decision = cluster.controller.create_partitions(
        [NewPartitions("orders", 3)], validate_only=True
    )

    assert (decision.records, decision.reply) == ((), [("orders", None)])


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        (
            NewPartitions("nobody", 2),
            ErrorCode.unknown_topic_or_partition,
            "This server does not host",
        ),
        (NewPartitions("orders", 2), ErrorCode.invalid_partitions, "already has 2 partition(s)"),
        (NewPartitions("orders", 1), ErrorCode.invalid_partitions, "1 would not be an increase"),
        (NewPartitions("orders", 4, [(100, 101)]), 39, "only 1 assignment(s) were specified"),
        (NewPartitions("orders", 3, [(100,)]), 39, "has a partition with 1 replica(s)"),
        (NewPartitions("orders", 3, [(100, 7)]), 39, "no such broker"),
        (NewPartitions("orders", 10_003), ErrorCode.policy_violation, "10000"),
    ],
)
def test_what_cannot_be_is_refused(
    cluster: Cluster, asked: NewPartitions, code: int, words: str
) -> None:
    cluster.create("orders", (100, 101), (101, 102))

    refusal = refused(cluster, asked)
    assert refusal.code == code
    assert words in refusal.why


def test_without_enough_brokers_nothing_is_added(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))
    cluster.fence(100, 101, 102)

    refusal = refused(cluster, NewPartitions("orders", 2))
    assert refusal.code is ErrorCode.invalid_replication_factor


def test_a_topic_named_twice_is_refused_both_times(cluster: Cluster) -> None:
    cluster.create("orders", (100,))
    decision = cluster.controller.create_partitions(
        [NewPartitions("orders", 2), NewPartitions("orders", 3)]
    )

    assert decision.records == ()
    assert [refusal.code for _, refusal in decision.reply if refusal] == [
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
    ]


def test_the_limit_holds_for_the_request_as_a_whole(cluster: Cluster) -> None:
    cluster.create("first", (100,))
    cluster.create("second", (100,))
    decision = cluster.controller.create_partitions(
        [NewPartitions("first", 6_001), NewPartitions("second", 6_001)]
    )

    assert sum(isinstance(record, PartitionRecord) for record in decision.records) == 6_000
    assert [refusal.code if refusal else None for _, refusal in decision.reply] == [
        None,
        ErrorCode.policy_violation,
    ]
