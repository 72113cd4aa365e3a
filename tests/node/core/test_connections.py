from __future__ import annotations

from tidelog.model.time import Now
from tidelog.node.core.connections import RESUME_BELOW, UNANSWERED_MAX, Connection
from tidelog.node.core.deadlines import Deadlines
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


def reads(effects: list[Effect]) -> list[bool]:
    """What the shell was told: to read on, or not."""
    told = [each for each in effects if isinstance(each, PauseReading | ResumeReading)]
    effects.clear()
    return [isinstance(each, ResumeReading) for each in told]


def test_a_throttled_peer_is_read_again_when_the_longest_of_its_times_is_over() -> None:
    effects: list[Effect] = []
    deadlines = Deadlines()
    connection = Connection(1, "PLAINTEXT", "10.0.0.7", effects)
    connection.throttle(Now(0, 0), 500, deadlines)
    connection.throttle(Now(100, 0), 1_000, deadlines)
    connection.throttle(Now(200, 0), 10, deadlines)
    connection.answer_now([b"answer"])
    assert reads(effects[:1]) == [False]
    assert isinstance(effects.pop(), Send), "who is throttled is answered"
    effects.clear()
    deadlines.run_due(Now(1_099, 0))
    assert reads(effects) == []
    deadlines.run_due(Now(1_100, 0))
    assert reads(effects) == [True]


def test_a_peer_that_is_throttled_and_has_too_much_under_way_is_read_when_neither_is_so() -> None:
    effects: list[Effect] = []
    deadlines = Deadlines()
    connection = Connection(1, "PLAINTEXT", "10.0.0.7", effects)
    slots = [connection.reserve() for _ in range(UNANSWERED_MAX)]
    connection.throttle(Now(0, 0), 500, deadlines)
    assert reads(effects) == [False]
    deadlines.run_due(Now(500, 0))
    assert reads(effects) == []
    for slot in slots:
        connection.fill(slot, [b"answer"])
    assert reads(effects) == [True]
    connection.throttle(Now(600, 0), 500, deadlines)
    slots = [connection.reserve() for _ in range(UNANSWERED_MAX)]
    assert reads(effects) == [False]
    for slot in slots:
        connection.fill(slot, [b"answer"])
    assert reads(effects) == []
    deadlines.run_due(Now(1_100, 0))
    assert reads(effects) == [True]


def test_a_peer_that_left_while_it_was_throttled_is_not_read_again() -> None:
    effects: list[Effect] = []
    deadlines = Deadlines()
    connection = Connection(1, "PLAINTEXT", "10.0.0.7", effects)
    connection.throttle(Now(0, 0), 500, deadlines)
    connection.lost()
    effects.clear()
    deadlines.run_due(Now(500, 0))
    connection.throttle(Now(600, 0), 500, deadlines)
    assert effects == []


def test_nothing_is_kept_of_a_throttled_peer_that_left() -> None:
    deadlines = Deadlines()
    connection = Connection(1, "PLAINTEXT", "10.0.0.7", [])
    connection.throttle(Now(0, 0), 500, deadlines)
    connection.throttle(Now(0, 0), 900, deadlines)
    connection.lost()
    assert deadlines.next_ms is None
