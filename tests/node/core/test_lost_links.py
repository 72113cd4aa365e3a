"""Links that are lost, late, resting or closed: everybody who waits hears of it, once."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.node.link_peer import PEER, Peer

from tidelog.model.time import Now
from tidelog.node.core.effects import CloseLink, OpenLink
from tidelog.node.core.links import GIVEN_UP_MOST, REST_FIRST_MS, REST_MOST_MS, LinkLost
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest


@pytest.fixture
def peer() -> Peer:
    return Peer()


def test_a_lost_link_fails_everything_that_waits_once(peer: Peer) -> None:
    peer.ask("first")
    peer.ask("second")
    peer.opened()
    peer.answer(0)

    peer.closed(reason="reset by peer")
    peer.closed(reason="again")

    assert peer.answered() == [("first", "c")]
    lost = LinkLost("127.0.0.1:9093 (control): reset by peer", by_peer=True)
    assert peer.heard[1:] == [("second", lost)]
    peer.pass_time(5_000)
    assert len(peer.heard) == 2


def test_who_cares_hears_of_a_connection_that_is_gone_even_if_nothing_was_asked(
    peer: Peer,
) -> None:
    lost: list[Now] = []
    peer.link().on_lost = lost.append
    peer.ask("first")
    peer.opened()
    peer.answer(0)
    assert lost == []
    peer.closed(reason="reset")
    assert lost == [peer.now]


def test_news_of_an_old_connection_reach_nobody(peer: Peer) -> None:
    peer.ask("before")
    peer.opened()
    peer.closed()
    peer.pass_time(100)
    peer.ask("after")
    assert OpenLink(2, *PEER) in peer.take()

    peer.opened(1)
    peer.answer(1, number=1)
    peer.closed(1)

    assert peer.lost() == ["before"]
    peer.opened(2)
    assert peer.sent() == [1]
    peer.answer(1, number=2)
    assert peer.answered() == [("after", "c")]


@pytest.mark.parametrize("accepts", [False, True])
def test_who_asks_again_after_every_loss_connects_less_and_less_often(
    peer: Peer, accepts: bool
) -> None:
    attempts: list[int] = []

    def ask_again(answer: object, now: Now) -> None:
        assert isinstance(answer, LinkLost)
        peer.link().ask(now, DescribeClusterRequest(), 0, ask_again, timeout_ms=60_000)

    ask_again(LinkLost("at first"), peer.now)
    for _ in range(9):
        while not (opening := peer.take()):
            peer.pass_time(1)
        (opened,) = opening
        assert isinstance(opened, OpenLink)
        attempts.append(peer.now.monotonic_ms)
        if accepts:
            peer.opened(opened.link)
            assert len(peer.sent()) == 1
        peer.closed(opened.link)

    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    assert pauses == [20, 40, 80, 160, 320, 640, 1000, 1000]


def test_an_answer_makes_the_next_pause_short_again(peer: Peer) -> None:
    for number in range(1, 8):
        peer.ask("fails")
        peer.closed(number)
        peer.pass_time(REST_MOST_MS)
    peer.ask("works")
    peer.opened(8)
    peer.take()
    peer.answer(7, number=8)
    peer.closed(8)

    peer.ask("next")
    peer.pass_time(REST_FIRST_MS)

    assert peer.take() == [OpenLink(9, *PEER)]


def test_nobody_connects_for_questions_that_are_given_up(peer: Peer) -> None:
    peer.ask("first")
    peer.closed()
    peer.take()
    peer.ask("impatient", timeout_ms=5)

    peer.pass_time(10_000)

    assert peer.lost() == ["first", "impatient"]
    assert peer.take() == []


def test_a_late_answer_costs_the_link(peer: Peer) -> None:
    peer.ask("slow", timeout_ms=100)
    peer.ask("patient", timeout_ms=10_000)
    peer.opened()
    peer.take()

    peer.pass_time(99)
    assert peer.heard == []
    peer.pass_time(1)

    assert peer.lost() == ["slow", "patient"]
    (closed,) = peer.take()
    assert isinstance(closed, CloseLink)
    assert "did not answer Describe cluster in time" in closed.reason
    peer.answer(0)
    assert len(peer.heard) == 2


def test_a_question_that_was_never_sent_fails_alone(peer: Peer) -> None:
    peer.ask("impatient", timeout_ms=100)
    peer.ask("patient", timeout_ms=10_000)
    peer.take()

    peer.pass_time(200)
    assert peer.lost() == ["impatient"]
    assert peer.take() == []

    peer.opened()
    assert peer.sent() == [1]
    peer.pass_time(9_800)
    assert peer.lost() == ["impatient", "patient"]


def test_each_question_has_its_own_time(peer: Peer) -> None:
    peer.ask("long", timeout_ms=10_000)
    peer.opened()
    peer.pass_time(1_000)
    peer.answer(0)
    peer.ask("short", timeout_ms=500)
    peer.ask("middle", timeout_ms=2_000)
    peer.pass_time(499)
    peer.answer(1)
    peer.pass_time(1_500)
    assert peer.lost() == []
    peer.pass_time(1)
    assert peer.lost() == ["middle"]


def test_answered_questions_leave_no_timers_behind(peer: Peer) -> None:
    peer.ask("first", timeout_ms=30_000)
    peer.opened()
    peer.answer(0)
    for number in range(1, 1_000):
        peer.ask("next", timeout_ms=30_000)
        peer.answer(number)

    timers = 0
    while (due := peer.deadlines.next_ms) is not None:
        timers += 1
        peer.deadlines.run_due(Now(due, 0))
    assert timers == 1


def test_closing_tells_everybody_at_once_and_the_next_question_reopens(peer: Peer) -> None:
    peer.ask("first")
    peer.opened()
    peer.take()

    peer.link().close(peer.now, "the controller moved")

    assert peer.heard == [("first", LinkLost("the controller moved"))]
    assert peer.take() == [CloseLink(1, "the controller moved")]
    peer.ask("second")
    assert peer.take() == [OpenLink(2, *PEER)]


def test_closing_a_link_that_rests_or_was_never_used_is_harmless(peer: Peer) -> None:
    peer.link().close(peer.now)
    assert peer.take() == []
    peer.ask("first")
    peer.closed()
    peer.ask("second")
    peer.take()

    peer.link().close(peer.now)
    peer.pass_time(10_000)

    assert peer.lost() == ["first", "second"]
    assert peer.take() == []


def test_closing_from_inside_an_answer_loses_only_what_still_waits(peer: Peer) -> None:
    def close(answer: object, now: Now) -> None:
        peer.heard.append(("first", answer))
        peer.link().close(now)

    peer.link().ask(peer.now, DescribeClusterRequest(), 0, close, timeout_ms=1_000)
    peer.ask("second")
    peer.opened()

    peer.answer(0)

    assert peer.answered() == [("first", "c")]
    assert peer.lost() == ["second"]


def test_a_peer_that_hangs_up_is_told_apart_from_one_that_is_silent(peer: Peer) -> None:
    peer.ask("silent", timeout_ms=100)
    peer.opened()
    peer.pass_time(100)
    peer.pass_time(10_000)
    peer.ask("closed", timeout_ms=1_000)
    peer.opened(2)
    peer.closed(2, "Connection reset by peer")
    peer.pass_time(10_000)
    peer.ask("not there", timeout_ms=1_000)
    peer.closed(3, "no connection within 2 s", by_peer=False)
    assert [answer.by_peer for _, answer in peer.heard] == [False, True, False]


# Links whose end would be taken for ours


def given_up(peer: Peer) -> None:
    """Ask, get no answer in time, and ask again on the next connection."""
    peer.link().speaks_for_us = True
    peer.ask("first", timeout_ms=100)
    peer.opened()
    peer.pass_time(100)
    assert peer.lost() == ["first"]
    peer.ask("second")
    peer.pass_time(REST_FIRST_MS)
    peer.opened(2)


def closed(peer: Peer) -> list[int]:
    return [effect.link for effect in peer.take() if isinstance(effect, CloseLink)]


def test_a_connection_that_speaks_for_us_ends_only_after_an_answer_on_the_next_one(
    peer: Peer,
) -> None:
    given_up(peer)
    assert closed(peer) == []

    peer.answer(1, number=2)

    assert closed(peer) == [1]
    assert peer.answered() == [("second", "c")]


def test_nothing_is_heard_of_a_connection_that_was_given_up_and_is_still_open(peer: Peer) -> None:
    given_up(peer)
    peer.answer(0, number=1)
    peer.closed(1)
    assert peer.lost() == ["first"]
    assert peer.answered() == []
    assert peer.link().is_open


def test_closing_a_link_ends_all_its_connections(peer: Peer) -> None:
    given_up(peer)
    peer.link().close(peer.now)
    assert closed(peer) == [2, 1]


def test_only_so_many_connections_wait_for_an_answer_on_the_next_one(peer: Peer) -> None:
    peer.link().speaks_for_us = True
    for number in range(1, GIVEN_UP_MOST + 3):
        peer.ask("again", timeout_ms=2 * REST_MOST_MS)
        peer.pass_time(REST_MOST_MS)
        peer.opened(number)
        peer.pass_time(REST_MOST_MS)
    assert closed(peer) == [1, 2]
