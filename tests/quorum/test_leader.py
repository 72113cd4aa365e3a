from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.time import Now
from tidelog.quorum.leader import Leader
from tidelog.quorum.timeouts import QuorumTimeouts

ELECTED = Now(1000, 5000)
TIMEOUTS = QuorumTimeouts(fetch_ms=2000)


def at(ms: int) -> Now:
    return Now(ms, 4000 + ms)


def leader(*voter_ids: int, start: int = 10, high_watermark: int = 0) -> Leader:
    return Leader(
        epoch=3,
        leader_id=1,
        epoch_start_offset=start,
        voter_ids=voter_ids,
        high_watermark=high_watermark,
        timeouts=TIMEOUTS,
        now=ELECTED,
    )


def note_durable(leader: Leader, voter_id: int, end_offset: int) -> bool:
    if voter_id == leader.leader_id:
        return leader.made_durable(end_offset)
    return leader.fetched(voter_id, end_offset, end_offset, ELECTED)


def test_a_sole_voter_commits_what_its_disk_holds() -> None:
    sole = leader(1)
    assert note_durable(sole, 1, 11)
    assert (sole.high_watermark, sole.has_committed) == (11, True)


def test_records_of_earlier_epochs_are_not_committed_by_counting_copies() -> None:
    sole = leader(1)
    assert not note_durable(sole, 1, 10)
    assert (sole.high_watermark, sole.has_committed) == (0, False)


def test_a_majority_must_hold_a_record_before_it_is_committed() -> None:
    trio = leader(1, 2, 3)
    assert not note_durable(trio, 1, 15)
    assert note_durable(trio, 3, 12)
    assert trio.high_watermark == 12
    assert note_durable(trio, 2, 20)
    assert trio.high_watermark == 15


def test_an_even_quorum_needs_more_than_half() -> None:
    four = leader(1, 2, 3, 4)
    note_durable(four, 1, 15)
    assert not note_durable(four, 2, 15)
    assert note_durable(four, 3, 14)
    assert four.high_watermark == 14


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.sampled_from((1, 2, 3)), st.integers(0, 40)), max_size=20))
def test_the_high_watermark_never_falls(reports: list[tuple[int, int]]) -> None:
    trio = leader(1, 2, 3, start=7, high_watermark=5)
    for voter_id, end_offset in reports:
        before = trio.high_watermark
        end_offset = max(end_offset, trio.end_offset_of(voter_id))
        moved = note_durable(trio, voter_id, end_offset)
        assert moved == (trio.high_watermark > before)
        assert trio.high_watermark >= before
        holding = [voter for voter in (1, 2, 3) if trio.end_offset_of(voter) >= trio.high_watermark]
        assert trio.high_watermark == 5 or len(holding) >= 2


def test_a_leader_without_fetches_from_a_majority_has_lost_it_in_time() -> None:
    trio = leader(1, 2, 3)
    assert not trio.has_lost_the_majority(1000 + 2999)
    assert trio.has_lost_the_majority(1000 + 3000)
    trio.fetched(2, 10, 10, at(3900))
    assert not trio.has_lost_the_majority(3900 + 2999), "itself and another one are a majority"
    assert trio.has_lost_the_majority(3900 + 3000)


def test_the_only_voter_never_loses_its_majority() -> None:
    assert not leader(1).has_lost_the_majority(1 << 40)


def test_of_five_voters_the_second_most_silent_decides_about_the_majority() -> None:
    five = leader(1, 2, 3, 4, 5)
    five.fetched(2, 10, 10, at(3000))
    assert five.has_lost_the_majority(4000)
    five.fetched(3, 10, 10, at(3500))
    assert not five.has_lost_the_majority(5999)
    assert five.has_lost_the_majority(6000)


def test_a_voter_that_gets_a_snapshot_follows_the_leader_too() -> None:
    trio = leader(1, 2, 3)
    trio.heard_of(2, at(3900))
    assert not trio.has_lost_the_majority(5000)
    assert trio.end_offset_of(2) == 0


def test_silent_voters_are_told_who_leads_every_half_fetch_timeout() -> None:
    trio = leader(1, 2, 3)
    assert trio.silent_voters(1000) == [2, 3]
    assert trio.silent_voters(1999) == []
    trio.fetched(3, 10, 10, at(1500))
    assert trio.silent_voters(2000) == [2]
    assert trio.silent_voters(3000) == [2, 3]


def test_successors_are_those_with_the_most_of_the_log_first() -> None:
    four = leader(1, 2, 3, 4)
    four.fetched(3, 15, 20, at(1500))
    four.fetched(4, 17, 20, at(1500))
    assert four.successors() == [4, 3, 2]


def test_voters_that_are_removed_no_longer_count() -> None:
    trio = leader(1, 2, 3)
    trio.made_durable(20)
    trio.fetched(2, 12, 20, at(1500))
    assert trio.high_watermark == 12
    assert trio.voters_are((1,), 20, at(1500))
    assert trio.high_watermark == 20


def test_a_leader_that_is_removed_leads_until_that_is_committed() -> None:
    trio = leader(1, 2, 3)
    trio.made_durable(20)
    assert not trio.voters_are((2, 3), 20, at(1500))
    trio.fetched(2, 20, 20, at(1500))
    assert not trio.is_removed, "its own copy does not count any more"
    trio.fetched(3, 20, 20, at(1500))
    assert trio.is_removed
