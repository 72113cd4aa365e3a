"""Plans: Kafka's JSON, and topics spread over brokers."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.reassignment_plan import UnusablePlan, read_plan, spread, write_plan
from tidelog.model.ids import TopicPartition


def named(index: int) -> TopicPartition:
    return TopicPartition("orders", index)


def test_a_plan_is_read_as_kafka_writes_it() -> None:
    text = (
        '{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[3,1],'
        '"log_dirs":["any","any"]},{"topic":"orders","partition":0,"replicas":[2]}]}'
    )

    assert read_plan(text) == {named(1): (3, 1), named(0): (2,)}


def test_a_plan_that_is_written_can_be_read() -> None:
    plan = {named(2): (3, 1), named(0): (2,)}

    assert read_plan(write_plan(plan)) == plan
    assert json.loads(write_plan(plan))["version"] == 1


@pytest.mark.parametrize(
    ("partitions", "why"),
    [
        ([], "names no partition"),
        ([{"topic": "t", "partition": 0}], "t-0. has no replicas"),
        ([{"topic": "t", "partition": 0, "replicas": []}], "has no replicas"),
        ([{"topic": "t", "partition": 0, "replicas": [1, True]}], "has no replicas"),
        ([{"topic": "t", "partition": "0", "replicas": [1]}], "entry 1 of the plan has no topic"),
        ([{"topic": "t", "partition": 0, "replicas": [1, 2, 1]}], "names a broker twice"),
        ([{"topic": "t", "partition": 0, "replicas": [1]}] * 2, "names t-0 twice"),
        (
            [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/disk1"]}],
            "brokers do that",
        ),
        (["t"], "entry 1 of the plan"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused_with_its_place(
    partitions: list[object], why: str
) -> None:
    with pytest.raises(UnusablePlan, match=why):
        read_plan(json.dumps({"version": 1, "partitions": partitions}))


@pytest.mark.parametrize(
    "text", ["", "[]", '{"partitions": 3}', '{"version": 2, "partitions": []}']
)
def test_something_else_than_a_plan_is_refused(text: str) -> None:
    with pytest.raises(UnusablePlan):
        read_plan(text)


def test_what_may_stay_stays() -> None:
    present = {named(0): (1, 2), named(1): (2, 3), named(2): (3, 1)}

    assert spread(present, [1, 2, 3], {}) == present


def test_replicas_of_a_broker_that_leaves_go_to_those_that_have_least() -> None:
    present = {named(0): (1, 2), named(1): (2, 3), named(2): (3, 1)}

    assert spread(present, [2, 3], {}) == {named(0): (2, 3), named(1): (2, 3), named(2): (3, 2)}


def test_a_new_replica_goes_to_a_rack_that_has_none() -> None:
    racks = {1: "north", 2: "north", 3: "south", 4: "north"}

    assert spread({named(0): (1,)}, [1, 2, 4, 3], racks, 2) == {named(0): (1, 3)}


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(UnusablePlan, match="3 replicas need as many brokers, and 2 are given"):
        spread({named(0): (1, 2, 3)}, [1, 2], {})


@given(
    present=st.lists(
        st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True), min_size=1, max_size=12
    ),
    targets=st.lists(st.integers(2, 9), min_size=3, max_size=7, unique=True),
    factor=st.integers(1, 3),
)
def test_every_broker_gets_its_share_and_no_partition_a_broker_twice(
    present: list[list[int]], targets: list[int], factor: int
) -> None:
    there = {named(index): replicas for index, replicas in enumerate(present)}

    plan = spread(there, targets, {}, factor)

    assert plan.keys() == there.keys()
    for replicas in plan.values():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(targets)
    held = Counter(each for replicas in plan.values() for each in replicas)
    assert max(held.values()) <= -(-len(plan) * factor // len(targets)) + 1
