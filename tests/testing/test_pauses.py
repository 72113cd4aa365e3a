"""The longest time without a sign of life of any partition."""

from __future__ import annotations

import pytest

from tidelog.testing.pauses import Pause, Pauses


@pytest.fixture
def pauses() -> Pauses:
    """Partition 0 is alive every second, partition 1 is silent from 3 to 7."""
    made = Pauses(2)
    for second in range(11):
        made.note(0, float(second))
        if not 3 < second < 7:
            made.note(1, float(second))
    return made


def test_the_longest_pause_is_that_of_the_partition_that_was_worst_off(pauses: Pauses) -> None:
    assert pauses.longest(0.0, 10.0) == Pause(1, 3.0, 4.0)


def test_a_pause_counts_whole_even_if_it_began_before(pauses: Pauses) -> None:
    assert pauses.longest(5.0, 10.0) == Pause(1, 3.0, 4.0)


def test_a_pause_that_has_not_ended_counts_up_to_now(pauses: Pauses) -> None:
    assert pauses.longest(8.0, 15.0) == Pause(0, 10.0, 5.0)
    assert pauses.longest(0.0, 6.5) == Pause(1, 3.0, 3.5)


def test_a_partition_that_never_lived_pauses_all_the_time() -> None:
    never = Pauses(1)
    assert not never.all_began
    assert never.longest(2.0, 9.0) == Pause(0, 2.0, 7.0)


def test_every_partition_has_to_go_on(pauses: Pauses) -> None:
    assert pauses.all_began
    assert pauses.all_went_on_after(9.0)
    pauses.note(0, 12.0)
    assert not pauses.all_went_on_after(11.0)
