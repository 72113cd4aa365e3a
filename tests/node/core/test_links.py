"""Links to other nodes: questions leave in order, and every one is answered once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.node.link_peer import NOTHING, PEER, Peer
from tests.protocol.kio_messages.entity_messages import decode_request
from tests.tiers import examples

from tidelog.model.time import Now
from tidelog.node.core.effects import CloseLink, OpenLink, SendOnLink
from tidelog.node.core.links import LinkLost
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import (
    FetchedPartition,
    FetchResponse,
    decode_fetch,
    encode_fetch_response,
    joined,
)
from tidelog.protocol.frame import read_request_header


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


@settings(max_examples=examples(300), deadline=None)
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
