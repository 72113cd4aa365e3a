from __future__ import annotations

from tidelog.node.core.connections import RESUME_BELOW, UNANSWERED_MAX, Connection
from tidelog.node.core.effects import Close, Effect, PauseReading, ResumeReading, Send


def connected() -> tuple[Connection, list[Effect]]:
    effects: list[Effect] = []
    return Connection(7, "PLAINTEXT", "127.0.0.1", effects), effects


def test_an_answer_leaves_at_once_when_nothing_is_due_before_it() -> None:
    connection, effects = connected()
    connection.answer_now([b"one"])
    assert effects == [Send(7, [b"one"])]


def test_a_parked_request_holds_the_later_answers() -> None:
    connection, effects = connected()
    parked = connection.reserve()
    connection.answer_now([b"second"])
    assert effects == []

    connection.fill(parked, [b"first"])
    assert effects == [Send(7, [b"first"]), Send(7, [b"second"])]


def test_parked_requests_filled_out_of_order_are_answered_in_order() -> None:
    connection, effects = connected()
    first, second = connection.reserve(), connection.reserve()
    connection.fill(second, [b"second"])
    assert effects == []
    connection.fill(first, [b"first"])
    assert effects == [Send(7, [b"first"]), Send(7, [b"second"])]


def test_a_peer_with_too_many_unanswered_requests_is_not_read_until_some_are_answered() -> None:
    connection, effects = connected()
    slots = [connection.reserve() for _ in range(UNANSWERED_MAX)]
    assert [type(effect) for effect in effects] == [PauseReading]

    for slot in slots[: UNANSWERED_MAX - RESUME_BELOW]:
        connection.fill(slot, [b""])
    assert ResumeReading not in {type(effect) for effect in effects}
    connection.fill(slots[UNANSWERED_MAX - RESUME_BELOW], [b""])
    assert isinstance(effects[-1], ResumeReading)


def test_a_closed_connection_is_answered_nothing() -> None:
    connection, effects = connected()
    slot = connection.reserve()
    connection.close("malformed request")
    connection.fill(slot, [b"late"])
    assert effects == [Close(7, "malformed request")]
