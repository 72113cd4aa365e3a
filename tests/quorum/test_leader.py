from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.quorum.leader import Leader


def leader(*voter_ids: int, start: int = 10, high_watermark: int = 0) -> Leader:
    return Leader(
        epoch=3, epoch_start_offset=start, voter_ids=voter_ids, high_watermark=high_watermark
    )


def test_a_sole_voter_commits_what_its_disk_holds() -> None:
    sole = leader(1)
    assert sole.note_durable(1, 11)
    assert (sole.high_watermark, sole.has_committed) == (11, True)


def test_records_of_earlier_epochs_are_not_committed_by_counting_copies() -> None:
    sole = leader(1)
    assert not sole.note_durable(1, 10)
    assert (sole.high_watermark, sole.has_committed) == (0, False)


def test_a_majority_must_hold_a_record_before_it_is_committed() -> None:
    trio = leader(1, 2, 3)
    assert not trio.note_durable(1, 15)
    assert trio.note_durable(3, 12)
    assert trio.high_watermark == 12
    assert trio.note_durable(2, 20)
    assert trio.high_watermark == 15


def test_an_even_quorum_needs_more_than_half() -> None:
    four = leader(1, 2, 3, 4)
    four.note_durable(1, 15)
    assert not four.note_durable(2, 15)
    assert four.note_durable(3, 14)
    assert four.high_watermark == 14


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from((1, 2, 3)), st.integers(0, 40)), max_size=20))
def test_the_high_watermark_never_falls(reports: list[tuple[int, int]]) -> None:
    trio = leader(1, 2, 3, start=7, high_watermark=5)
    for voter_id, end_offset in reports:
        before = trio.high_watermark
        moved = trio.note_durable(voter_id, end_offset)
        assert moved == (trio.high_watermark > before)
        assert trio.high_watermark >= before
        holding = [voter for voter in (1, 2, 3) if trio.end_offset_of(voter) >= trio.high_watermark]
        assert trio.high_watermark == 5 or len(holding) >= 2
