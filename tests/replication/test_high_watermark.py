"""The high watermark of one replica, and what counts for it."""

from __future__ import annotations

import pytest

from tidelog.model.errors import InvariantBroken
from tidelog.replication.follower_progress import FollowerProgress
from tidelog.replication.high_watermark import HighWatermark, has_enough, slowest_end
from tidelog.replication.messages import FollowerFetch


def test_the_high_watermark_rises_and_says_so() -> None:
    high_watermark = HighWatermark(3)
    assert high_watermark.raise_to(5, 10)
    assert high_watermark.offset == 5


@pytest.mark.parametrize("candidate", [0, 3])
def test_the_high_watermark_never_falls_within_an_epoch(candidate: int) -> None:
    high_watermark = HighWatermark(3)
    assert not high_watermark.raise_to(candidate, 10)
    assert high_watermark.offset == 3


def test_the_high_watermark_lies_within_the_log() -> None:
    with pytest.raises(InvariantBroken):
        HighWatermark(3).raise_to(11, 10)


@pytest.mark.parametrize(
    ("offset", "start", "end", "kept"), [(5, 0, 10, 5), (5, 0, 3, 3), (5, 7, 10, 7)]
)
def test_a_log_whose_ends_moved_takes_the_high_watermark_along(
    offset: int, start: int, end: int, kept: int
) -> None:
    high_watermark = HighWatermark(offset)
    high_watermark.clamp(start, end)
    assert high_watermark.offset == kept


@pytest.mark.parametrize(
    ("told", "taken"), [(4, 4), (99, 10), (1, 2), (6, 6)], ids=["down", "end", "start", "up"]
)
def test_a_followers_high_watermark_is_its_leaders_within_its_own_log(
    told: int, taken: int
) -> None:
    high_watermark = HighWatermark(5)
    assert high_watermark.follow(told, 2, 10)
    assert high_watermark.offset == taken
    assert not high_watermark.follow(told, 2, 10), "told again, it does not move"


@pytest.mark.parametrize(
    ("in_sync", "wanted", "replicas", "enough"),
    [(2, 2, 3, True), (1, 2, 3, False), (1, 2, 1, True), (2, 5, 3, False), (3, 5, 3, True)],
)
def test_no_more_in_sync_replicas_are_asked_for_than_there_are_replicas(
    in_sync: int, wanted: int, replicas: int, enough: bool
) -> None:
    assert has_enough(in_sync, wanted, replicas) is enough


def follower(broker_id: int, end_offset: int) -> FollowerProgress:
    progress = FollowerProgress(broker_id)
    progress.fetched(FollowerFetch(broker_id, -1, end_offset, 0, 10), 0)
    return progress


def slowest(*followers: FollowerProgress, maximal: set[int], joining: set[int]) -> int:
    return slowest_end(
        10, followers, frozenset(maximal), lambda progress: progress.broker_id in joining
    )


def test_the_high_watermark_waits_for_the_slowest_in_sync_follower() -> None:
    followers = follower(101, 7), follower(102, 4)
    assert slowest(*followers, maximal={100, 101, 102}, joining=set()) == 4


def test_the_high_watermark_does_not_wait_for_a_follower_that_is_out_of_sync() -> None:
    followers = follower(101, 7), follower(102, 4)
    assert slowest(*followers, maximal={100, 101}, joining=set()) == 7


def test_the_high_watermark_waits_for_a_follower_that_is_about_to_join() -> None:
    followers = follower(101, 7), follower(102, 4)
    assert slowest(*followers, maximal={100, 101}, joining={102}) == 4


def test_a_silent_member_blocks_the_high_watermark() -> None:
    followers = follower(101, 7), FollowerProgress(102)
    assert slowest(*followers, maximal={100, 101, 102}, joining=set()) == -1


def test_a_leader_alone_counts_by_itself() -> None:
    assert slowest(maximal={100}, joining=set()) == 10
