"""When a follower is caught up (D10)."""

from __future__ import annotations

from tidelog.replication.follower_progress import FollowerProgress
from tidelog.replication.messages import FollowerFetch

LAG_MAX_MS = 1000


def fetch(offset: int, leader_end: int) -> FollowerFetch:
    return FollowerFetch(101, 7, offset, 0, leader_end)


def test_a_fetch_from_the_end_of_the_leader_is_caught_up_now() -> None:
    progress = FollowerProgress(101)
    progress.fetched(fetch(5, 5), 100)
    assert progress.last_caught_up_ms == 100
    assert (progress.end_offset, progress.start_offset, progress.broker_epoch) == (5, 0, 7)


def test_a_fetch_from_the_former_end_was_caught_up_at_the_fetch_before() -> None:
    progress = FollowerProgress(101)
    progress.fetched(fetch(0, 5), 100)
    progress.fetched(fetch(5, 9), 200)
    assert progress.last_caught_up_ms == 100, "by then the leader had gone on"
    progress.fetched(fetch(8, 12), 300)
    assert progress.last_caught_up_ms == 100, "below the end at the fetch before: not caught up"


def test_a_follower_that_never_caught_up_is_behind_however_often_it_fetches() -> None:
    progress = FollowerProgress(101)
    for round_trip in range(1, 50):
        progress.fetched(fetch(round_trip, 100 + 2 * round_trip), 100 * round_trip)
    assert not progress.is_caught_up(200, 5000, LAG_MAX_MS)


def test_the_moment_of_being_caught_up_never_steps_back() -> None:
    progress = FollowerProgress(101, last_caught_up_ms=500)
    progress.fetched(fetch(0, 5), 100)
    progress.fetched(fetch(5, 9), 200)
    assert progress.last_caught_up_ms == 500


def test_a_follower_is_caught_up_with_everything_or_within_the_lag() -> None:
    progress = FollowerProgress(101)
    progress.fetched(fetch(5, 5), 100)
    assert progress.is_caught_up(5, 9_999_999, LAG_MAX_MS), "nothing was written since"
    assert progress.is_caught_up(6, 1100, LAG_MAX_MS)
    assert not progress.is_caught_up(6, 1101, LAG_MAX_MS)


def test_a_follower_not_heard_of_is_not_caught_up_even_when_the_clock_begins_at_zero() -> None:
    assert not FollowerProgress(101).is_caught_up(0, 0, LAG_MAX_MS)


class Session:
    """An interest that a fetch session keeps."""

    def __init__(self, heard_ms: int) -> None:
        self.heard_ms = heard_ms

    def last_heard_ms(self, now_ms: int) -> int:
        return min(self.heard_ms, now_ms)


def test_in_a_silence_a_follower_that_lacks_nothing_stays_caught_up() -> None:
    session = Session(5000)
    progress = FollowerProgress(101)
    progress.fetched(fetch(5, 5)._replace(listening=session), 100)
    progress.leader_grows(5, 5400)
    assert progress.last_caught_up_ms == 5000, "it had everything when last heard"
    assert progress.is_caught_up(6, 6000, LAG_MAX_MS)
    assert not progress.is_caught_up(6, 6001, LAG_MAX_MS)


def test_a_fetch_that_finds_the_leader_ahead_after_a_silence_takes_no_time_away() -> None:
    session = Session(5000)
    progress = FollowerProgress(101)
    progress.fetched(fetch(5, 5)._replace(listening=session), 100)
    progress.leader_grows(5, 5400)
    progress.leader_grows(6, 5405)
    session.heard_ms = 5410
    progress.fetched(fetch(6, 7)._replace(listening=session), 5410)
    assert progress.last_caught_up_ms == 5000
    progress.fetched(fetch(7, 9)._replace(listening=session), 5420)
    assert progress.last_caught_up_ms == 5410


def test_a_follower_that_only_goes_on_listening_is_behind_once_the_leader_has_grown() -> None:
    session = Session(5000)
    progress = FollowerProgress(101)
    progress.fetched(fetch(5, 5)._replace(listening=session), 100)
    progress.leader_grows(5, 5400)
    session.heard_ms = 9000
    progress.leader_grows(6, 9000)
    assert progress.last_caught_up_ms == 5000


def test_a_session_keeps_nobody_caught_up_who_lacked_something() -> None:
    progress = FollowerProgress(101)
    progress.fetched(fetch(4, 5)._replace(listening=Session(5000)), 100)
    progress.leader_grows(5, 5400)
    assert not progress.is_caught_up(6, 5900, LAG_MAX_MS)


def test_a_follower_without_a_session_is_known_by_its_fetches_alone() -> None:
    progress = FollowerProgress(101)
    progress.fetched(fetch(5, 5), 100)
    progress.leader_grows(5, 5400)
    assert progress.last_caught_up_ms == 100
