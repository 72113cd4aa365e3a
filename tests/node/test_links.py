from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.model.time import Now
from tidelog.node.deadlines import Deadlines
from tidelog.node.effects import CloseLink, Effect, OpenLink, SendOnLink
from tidelog.node.inputs import LinkClosed, LinkFrame, LinkOpened
from tidelog.node.links import REST_FIRST_MS, REST_MOST_MS, Answer, Link, LinkLost, Links
from tidelog.wire.apis import ApiKey
from tidelog.wire.fetch import (
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    decode_fetch,
    encode_fetch_response,
    joined,
)
from tidelog.wire.frame import read_request_header
from tidelog.wire.messages import decode_request, encode_response

PEER = ("127.0.0.1", 9093)
NOTHING = FetchRequest(101, 7, 500, 1, 1024, 0, 0, 0, [], [], "", None)


class Peer:
    """Plays the shell and the node at the other end, one moment at a time."""

    def __init__(self) -> None:
        self.now = Now(1_000, 5_000)
        self.effects: list[Effect] = []
        self.deadlines = Deadlines()
        self.links = Links(self.effects, self.deadlines, "broker-101")
        self.heard: list[tuple[str, Answer]] = []

    def link(self, purpose: str = "control") -> Link:
        return self.links.to(PEER, purpose)

    def ask(self, name: str, link: Link | None = None, timeout_ms: int = 1_000) -> None:
        """Ask for the description of a cluster; the answer is kept under `name`."""

        def then(answer: Answer, now: Now) -> None:
            assert now == self.now
            self.heard.append((name, answer))

        fields = {"include_cluster_authorized_operations": False}
        link = link or self.link()
        link.ask(self.now, ApiKey.DESCRIBE_CLUSTER, 0, fields, then, timeout_ms=timeout_ms)

    def take(self) -> list[Effect]:
        effects = self.effects[:]
        self.effects.clear()
        return effects

    def sent(self) -> list[int]:
        """The correlation ids of what was sent since the last time."""
        return [
            read_request_header(joined(effect.parts)).correlation_id
            for effect in self.take()
            if isinstance(effect, SendOnLink)
        ]

    def opened(self, number: int = 1) -> None:
        self.links.opened(LinkOpened(self.now, number))

    def answer(self, correlation_id: int, number: int = 1, cluster_id: str = "c") -> None:
        frame = encode_response(
            ApiKey.DESCRIBE_CLUSTER, 0, correlation_id, {"cluster_id": cluster_id}
        )
        self.frame(frame, number)

    def frame(self, frame: bytes | bytearray, number: int = 1) -> None:
        self.links.frame_arrived(LinkFrame(self.now, number, memoryview(frame)))

    def closed(self, number: int = 1, reason: str = "connection refused") -> None:
        self.links.closed(LinkClosed(self.now, number, reason))

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, from deadline to deadline."""
        until = self.now.monotonic_ms + milliseconds
        while (due := self.deadlines.next_ms) is not None and due <= until:
            self.now = Now(max(due, self.now.monotonic_ms), 5_000)
            self.deadlines.run_due(self.now)
        self.now = Now(until, 5_000)

    def lost(self) -> list[str]:
        """Who heard that the link was lost."""
        return [name for name, answer in self.heard if isinstance(answer, LinkLost)]

    def answered(self) -> list[tuple[str, str]]:
        return [
            (name, answer.cluster_id)
            for name, answer in self.heard
            if not isinstance(answer, LinkLost)
        ]


@pytest.fixture
def peer() -> Peer:
    return Peer()


def test_a_link_opens_with_the_first_question(peer: Peer) -> None:
    link = peer.link()
    assert peer.take() == []

    peer.ask("first")
    peer.ask("second")

    assert peer.take() == [OpenLink(1, *PEER)]
    assert not link.is_open


def test_questions_wait_for_the_connection_and_leave_in_order(peer: Peer) -> None:
    peer.ask("first")
    peer.ask("second")
    peer.take()

    peer.opened()

    assert peer.link().is_open
    assert peer.sent() == [0, 1]
    peer.ask("third")
    assert peer.sent() == [2]


def test_a_question_is_what_kafka_would_send(peer: Peer) -> None:
    peer.ask("who")
    peer.opened()

    (request,) = (joined(effect.parts) for effect in peer.take() if isinstance(effect, SendOnLink))
    header = read_request_header(request)
    assert header[:4] == (ApiKey.DESCRIBE_CLUSTER, 0, 0, "broker-101")
    body = decode_request(ApiKey.DESCRIBE_CLUSTER, 0, memoryview(request)[header.body_offset :])
    assert body.include_cluster_authorized_operations is False


def test_answers_reach_those_who_asked_in_order(peer: Peer) -> None:
    peer.ask("first")
    peer.ask("second")
    peer.opened()

    peer.answer(0, cluster_id="one")
    peer.answer(1, cluster_id="two")

    assert peer.answered() == [("first", "one"), ("second", "two")]
    assert peer.link().pending == 0


def test_each_purpose_has_a_connection_of_its_own(peer: Peer) -> None:
    assert peer.link("control") is peer.link("control")
    assert peer.link("control") is not peer.link("fetch")
    peer.ask("one", peer.link("control"))
    peer.ask("two", peer.link("fetch"))
    assert peer.take() == [OpenLink(1, *PEER), OpenLink(2, *PEER)]

    peer.opened(2)
    peer.answer(0, number=2)
    peer.closed(1)

    assert peer.answered() == [("two", "c")]
    assert peer.lost() == ["one"]


def test_an_answer_to_another_question_closes_the_link(peer: Peer) -> None:
    peer.ask("first")
    peer.ask("second")
    peer.opened()
    peer.take()

    peer.answer(1)

    assert peer.lost() == ["first", "second"]
    (closed,) = peer.take()
    assert isinstance(closed, CloseLink)
    assert "answered question 1 instead of 0" in closed.reason


def test_an_answer_nobody_asked_for_closes_the_link(peer: Peer) -> None:
    peer.ask("only")
    peer.opened()
    peer.answer(0)
    peer.take()

    peer.answer(1)

    assert [type(effect) for effect in peer.take()] == [CloseLink]
    assert not peer.link().is_open


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\0", b"\0\0\0\0\0\0\0\0\0\xff\xff\xff"])
def test_an_unreadable_answer_closes_the_link(peer: Peer, frame: bytes) -> None:
    peer.ask("only")
    peer.opened()

    peer.frame(frame)

    assert peer.lost() == ["only"]
    assert isinstance(peer.take()[-1], CloseLink)


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

    def ask_again(answer: Answer, now: Now) -> None:
        assert isinstance(answer, LinkLost)
        peer.link().ask(now, ApiKey.DESCRIBE_CLUSTER, 0, {}, ask_again, timeout_ms=60_000)

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
    def close(answer: Answer, now: Now) -> None:
        peer.heard.append(("first", answer))
        peer.link().close(now)

    peer.link().ask(peer.now, ApiKey.DESCRIBE_CLUSTER, 0, {}, close, timeout_ms=1_000)
    peer.ask("second")
    peer.opened()

    peer.answer(0)

    assert peer.answered() == [("first", "c")]
    assert peer.lost() == ["second"]


def test_correlation_ids_wrap_around(peer: Peer) -> None:
    peer.link()._next_correlation_id = 2**31 - 1
    peer.ask("last")
    peer.ask("first again")
    peer.opened()
    assert peer.sent() == [2**31 - 1, 0]
    peer.answer(2**31 - 1)
    peer.answer(0)
    assert [name for name, _ in peer.answered()] == ["last", "first again"]


def test_fetched_records_are_views_of_the_frame(peer: Peer) -> None:
    heard: list[FetchResponse | LinkLost] = []
    seen: list[bytes] = []

    def then(answer: FetchResponse | LinkLost, now: Now) -> None:
        heard.append(answer)
        assert isinstance(answer, FetchResponse)
        records = answer.topics[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert records.obj is frame
        seen.append(bytes(records))

    peer.link("fetch").ask_fetch(peer.now, 17, NOTHING, then, timeout_ms=1_000)
    peer.opened()
    (request,) = (joined(effect.parts) for effect in peer.take() if isinstance(effect, SendOnLink))
    header = read_request_header(request)
    assert header[:4] == (ApiKey.FETCH, 17, 0, "broker-101")
    assert decode_fetch(memoryview(request)[header.body_offset :], 17) == NOTHING

    fetched = FetchedPartition(0, 0, 12, records=b"r" * 5_000)
    frame = bytearray(joined(encode_fetch_response(17, 0, 0, 3, [(None, None, [fetched])])))
    peer.frame(frame)

    assert seen == [b"r" * 5_000]
    assert isinstance(heard[0], FetchResponse)
    assert heard[0].session_id == 3


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_every_question_is_completed_exactly_once_whatever_happens(data: st.DataObject) -> None:
    peer = Peer()
    asked = 0
    connecting: set[int] = set()
    opened: dict[int, list[int]] = {}
    for _ in range(data.draw(st.integers(1, 40))):
        action = data.draw(
            st.sampled_from(["ask", "open", "answer", "wrong", "lose", "time", "close"])
        )
        if action == "ask":
            peer.ask(str(asked), timeout_ms=data.draw(st.sampled_from([1, 30, 500, 5_000])))
            asked += 1
        elif action == "open" and connecting:
            number = connecting.pop()
            opened[number] = []
            peer.opened(number)
        elif action in ("answer", "wrong") and opened:
            number = max(opened)
            if opened[number]:
                correlation_id = opened[number].pop(0)
                peer.answer(correlation_id + (action == "wrong"), number)
        elif action == "lose" and (connecting or opened):
            number = data.draw(st.sampled_from(sorted(connecting | set(opened))))
            connecting.discard(number)
            opened.pop(number, None)
            peer.closed(number)
        elif action == "time":
            peer.pass_time(data.draw(st.sampled_from([1, 25, 700])))
        elif action == "close":
            peer.link().close(peer.now)
        for effect in peer.take():
            match effect:
                case OpenLink():
                    connecting.add(effect.link)
                case CloseLink():
                    connecting.discard(effect.link)
                    opened.pop(effect.link, None)
                case SendOnLink():
                    header = read_request_header(joined(effect.parts))
                    opened[effect.link].append(header.correlation_id)
        assert len(connecting) + len(opened) <= 1
        assert len(peer.heard) + peer.link().pending == asked

    peer.pass_time(10_000)

    assert sorted(int(name) for name, _ in peer.heard) == list(range(asked))


def test_a_peer_that_hangs_up_is_told_apart_from_one_that_is_silent(peer: Peer) -> None:
    peer.ask("silent", timeout_ms=100)
    peer.opened()
    peer.pass_time(100)
    peer.pass_time(10_000)
    peer.ask("closed", timeout_ms=1_000)
    peer.opened(2)
    peer.closed(2, "Connection reset by peer")
    assert [answer.by_peer for _, answer in peer.heard] == [False, True]
