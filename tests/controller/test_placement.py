"""Where replicas of new partitions go."""

from __future__ import annotations

from collections import Counter
from random import Random
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.controller.placement import UsableBroker, place, usable_brokers
from tidelog.controller.registrations import BrokerRegistration
from tidelog.model.errors import ErrorCode, Refusal


class Dice:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def placed(
    brokers: list[UsableBroker], partitions: int, replication_factor: int, seed: int = 0
) -> list[tuple[int, ...]]:
    result = place(brokers, partitions, replication_factor, Dice(seed))
    assert not isinstance(result, Refusal)
    return result


def brokers(count: int, racks: int = 1) -> list[UsableBroker]:
    return [UsableBroker(index, f"rack{index % racks}", True) for index in range(count)]


@settings(max_examples=examples(100), deadline=None)
@given(
    st.integers(1, 8), st.integers(1, 4), st.integers(1, 40), st.integers(1, 8), st.integers(0, 99)
)
def test_replicas_of_a_partition_are_distinct_and_leaders_are_spread_evenly(
    count: int, racks: int, partitions: int, replication_factor: int, seed: int
) -> None:
    replication_factor = min(replication_factor, count)
    result = placed(brokers(count, racks), partitions, replication_factor, seed)
    leaders = Counter(replicas[0] for replicas in result)

    assert len(result) == partitions
    assert all(len(set(replicas)) == replication_factor for replicas in result)
    led = [leaders[index] for index in range(count)]
    assert max(led) - min(led) <= 1


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 8), st.integers(1, 60), st.integers(1, 8), st.integers(0, 99))
def test_replicas_are_spread_evenly_over_brokers(
    count: int, partitions: int, replication_factor: int, seed: int
) -> None:
    result = placed(brokers(count), partitions, min(replication_factor, count), seed)
    held = Counter(broker for replicas in result for broker in replicas)

    # Leaders come first, so the rest can be off by one in either direction.
    assert max(held.values()) - min(held[index] for index in range(count)) <= 2


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 30), st.integers(0, 99))
def test_replicas_are_spread_over_racks_before_any_rack_gets_a_second(
    racks: int, replication_factor: int, partitions: int, seed: int
) -> None:
    result = placed(brokers(12, racks), partitions, replication_factor, seed)

    for replicas in result:
        used = Counter(index % racks for index in replicas)
        assert len(used) == min(racks, replication_factor)
        assert max(used.values()) - min(used.values()) <= 1


def test_a_fenced_broker_never_leads_and_comes_last_in_its_rack() -> None:
    fenced = [UsableBroker(9, "rack0", False), *brokers(4)]

    three = placed(fenced, 20, 3)
    five = placed(fenced, 4, 5)

    assert all(9 not in replicas for replicas in three)
    assert all(9 in replicas[1:] for replicas in five)


def test_a_rack_of_its_own_counts_more_than_being_alive() -> None:
    racks = [
        UsableBroker(1, "a", True),
        UsableBroker(2, "a", True),
        UsableBroker(3, "b", False),
    ]

    assert all(set(replicas) & {3} for replicas in placed(racks, 10, 2))


def test_what_a_leader_leaves_behind_falls_to_several_successors() -> None:
    result = placed(brokers(4), 12, 2)

    for leader in range(4):
        assert len({replicas[1] for replicas in result if replicas[0] == leader}) == 3


def test_small_topics_start_at_brokers_drawn_at_random() -> None:
    leaders = {placed(brokers(5), 1, 1, seed)[0][0] for seed in range(40)}

    assert leaders == set(range(5))


def test_more_replicas_than_brokers_are_refused() -> None:
    refused = place(brokers(2), 1, 3, Dice(0))

    assert isinstance(refused, Refusal)
    assert refused.code is ErrorCode.invalid_replication_factor
    assert "only 2 broker(s)" in refused.why


def test_without_a_live_broker_nothing_can_be_placed() -> None:
    refused = place([UsableBroker(1, None, False)], 1, 1, Dice(0))

    assert isinstance(refused, Refusal)
    assert refused.code is ErrorCode.invalid_replication_factor


def test_brokers_in_controlled_shutdown_count_as_fenced_and_cordoned_ones_are_left_out() -> None:
    directory = UUID(int=500)

    def broker(
        broker_id: int, *, cordoned: bool = False, leaving: bool = False
    ) -> BrokerRegistration:
        return BrokerRegistration(
            broker_id=broker_id,
            incarnation_id=UUID(int=broker_id),
            broker_epoch=0,
            fenced=False,
            in_controlled_shutdown=leaving,
            log_dirs=(directory,),
            cordoned_log_dirs=(directory,) if cordoned else (),
        )

    found = usable_brokers([broker(3), broker(2, leaving=True), broker(1, cordoned=True)])

    assert found == [UsableBroker(2, None, False), UsableBroker(3, None, True)]
