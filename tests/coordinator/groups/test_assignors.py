"""The server-side assignors."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.coordinator.groups.consumer.assignors import (
    ASSIGNORS,
    Subscriber,
    range_assignment,
    uniform_assignment,
)
from tidelog.coordinator.groups.topics import IdPartition, KnownTopic

TOPICS = [
    KnownTopic(f"t{n}", UUID(int=n + 1), partitions) for n, partitions in enumerate((5, 1, 8))
]


def place(topic: int, partition: int) -> IdPartition:
    return IdPartition(TOPICS[topic].topic_id, partition)


def subscriber(name: str, *topics: int, before: frozenset[IdPartition] = frozenset()) -> Subscriber:
    return Subscriber(name, None, tuple(TOPICS[n] for n in sorted(topics)), before)


members = st.lists(st.frozensets(st.integers(0, 2)), min_size=1, max_size=6).map(
    lambda wants: [subscriber(f"m{n}", *topics) for n, topics in enumerate(wants)]
)


@given(members, st.sampled_from(sorted(ASSIGNORS)))
@settings(max_examples=examples(200), deadline=None)
def test_every_wanted_partition_has_exactly_one_reader_who_wants_it(
    group: list[Subscriber], name: str
) -> None:
    assignment = ASSIGNORS[name](group)
    assert assignment.keys() == {member.member_id for member in group}
    given_out = [each for places in assignment.values() for each in places]
    wanted = {topic for member in group for topic in member.topics}
    assert sorted(given_out) == sorted(
        IdPartition(topic.topic_id, index) for topic in wanted for index in range(topic.partitions)
    )
    for member in group:
        own = {topic.topic_id for topic in member.topics}
        assert all(each.topic_id in own for each in assignment[member.member_id])


@given(members)
@settings(max_examples=examples(200), deadline=None)
def test_uniform_leaves_no_move_that_would_make_two_members_more_equal(
    group: list[Subscriber],
) -> None:
    assignment = uniform_assignment(group)
    for member in group:
        wanted = {topic.topic_id for topic in member.topics}
        for other, places in assignment.items():
            if any(each.topic_id in wanted for each in places):
                assert len(places) - len(assignment[member.member_id]) < 2, other


@given(st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=examples(60), deadline=None)
def test_uniform_moves_no_more_than_newcomers_need(before: int, after: int) -> None:
    first = uniform_assignment([subscriber(f"m{n}", 0, 1, 2) for n in range(before)])
    group = [
        subscriber(f"m{n}", 0, 1, 2, before=frozenset(first.get(f"m{n}", ()))) for n in range(after)
    ]
    second = uniform_assignment(group)
    total = sum(topic.partitions for topic in TOPICS)
    least = total // max(before, after)
    for member in group:
        kept = member.before & second[member.member_id]
        assert len(kept) >= min(len(member.before), least)


def test_range_gives_runs_of_neighbours_and_the_same_run_of_like_topics() -> None:
    twins = (KnownTopic("a", UUID(int=8), 3), KnownTopic("b", UUID(int=9), 3))
    group = [Subscriber(name, None, twins, frozenset()) for name in ("x", "y")]
    assignment = range_assignment(group)
    assert sorted(each.partition for each in assignment["x"]) == [0, 0, 1, 1]
    assert sorted(each.partition for each in assignment["y"]) == [2, 2]


def test_range_puts_static_members_first_in_the_order_of_their_instances() -> None:
    topics = (TOPICS[0],)
    group = [
        Subscriber("a", None, topics, frozenset()),
        Subscriber("z", "i1", topics, frozenset()),
    ]
    assert place(0, 0) in range_assignment(group)["z"]
