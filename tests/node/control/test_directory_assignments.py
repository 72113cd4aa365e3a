"""A broker with several directories tells the controller where its replicas are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from tidelog.controller.directories import AssignedReplicas, ReplicaDirectory
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.control.directory_assignments import RETRY_MS
from tidelog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from tests.node.conftest import NewBench
    from tests.node.node_bench import NodeBench


def known_directories(bench: NodeBench, topic: str) -> list[str]:
    """The paths of the directories in which the metadata has each partition of a topic."""
    node = bench.node
    paths = {each.identity.directory_id: each.path for each in node.rooms.base.directories}
    partitions = node.cluster.image.topics_by_name[topic].partitions
    return [paths[partitions[index].directory_of(100)] for index in sorted(partitions)]


def test_the_metadata_learns_where_each_replica_lies(new_bench: NewBench) -> None:
    bench = new_bench(log_dirs="/data,/more")
    bench.create_topic("orders", partitions=4)
    bench.wait(10)
    named = known_directories(bench, "orders")
    assert sorted(set(named)) == ["/data", "/more"]
    for index, path in enumerate(named):
        assert bench.files.exists(f"{path}/orders-{index}")


REFUSAL = Refusal(ErrorCode.unknown_topic_id, "There is no such topic.")


def test_a_place_that_is_refused_is_told_again_until_its_replica_is_gone(
    new_bench: NewBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = new_bench(log_dirs="/data,/more")
    told: list[Sequence[ReplicaDirectory]] = []

    def refuse_one(
        now: Now,
        places: Sequence[ReplicaDirectory],
        then: Callable[[AssignedReplicas | Refusal, Now], None],
    ) -> None:
        told.append(places)
        then([(place, None if place.partition else REFUSAL) for place in places], now)

    monkeypatch.setattr(bench.node.rooms.control.channel, "assign_directories", refuse_one)
    bench.create_topic("orders", partitions=4)
    bench.wait(RETRY_MS)
    first, again = told
    assert {place.partition for place in first} > {0}
    assert [place.partition for place in again] == [0]
    bench.connect().ask(
        ApiKey.DELETE_TOPICS, 6, topics=[{"name": "orders", "topic_id": None}], timeout=1000
    )
    told.clear()
    bench.wait(10 * RETRY_MS)
    assert told == []


def test_with_one_directory_there_is_nothing_to_tell(new_bench: NewBench) -> None:
    bench = new_bench()
    bench.create_topic("orders")
    bench.wait(10)
    [topic] = bench.node.cluster.image.topics_by_name.values()
    assert topic.partitions[0].partition_epoch == 0
