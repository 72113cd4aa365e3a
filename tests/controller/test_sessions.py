"""Which brokers the controller has heard of lately."""

from __future__ import annotations

from tidelog.controller.sessions import BrokerSessions


def sessions(*, grace_ms: int = 200) -> BrokerSessions:
    made = BrokerSessions(timeout_ms=9000, disconnect_grace_ms=grace_ms)
    made.begin(1, 0)
    made.begin(2, 1000)
    return made


def test_a_broker_is_live_until_its_session_has_passed() -> None:
    made = sessions()

    assert made.is_live(1, 8999)
    assert not made.is_live(1, 9000)
    assert not made.is_live(7, 0)


def test_a_heartbeat_begins_the_session_anew() -> None:
    made = sessions()
    made.touch(1, 5000)

    assert made.is_live(1, 13_999)
    assert made.overdue([1, 2], 10_000) == 2


def test_the_longest_overdue_comes_first() -> None:
    made = sessions()

    assert made.overdue([1, 2], 8999) is None
    assert made.overdue([1, 2], 20_000) == 1
    assert made.overdue([2], 20_000) == 2
    assert made.next_deadline_ms([1, 2]) == 9000
    assert made.next_deadline_ms([]) is None


def test_a_closed_connection_shortens_the_session_to_the_grace_time() -> None:
    made = sessions()
    made.disconnected(1, 3000)
    made.disconnected(7, 3000)

    assert made.overdue([1, 2], 3199) is None
    assert made.overdue([1, 2], 3200) == 1


def test_a_broker_that_reconnects_in_time_is_not_overdue() -> None:
    made = sessions()
    made.disconnected(1, 3000)
    made.touch(1, 3100)

    assert made.overdue([1, 2], 3200) is None


def test_a_closed_connection_never_lengthens_a_session() -> None:
    made = sessions()
    made.disconnected(1, 8950)

    assert made.overdue([1], 9000) == 1


def test_without_grace_time_a_closed_connection_says_nothing() -> None:
    made = sessions(grace_ms=0)
    made.disconnected(1, 3000)

    assert made.overdue([1], 8999) is None


def test_a_new_controller_gives_every_broker_a_whole_session() -> None:
    made = sessions()
    made.restart([1, 2, 3], 50_000)

    assert made.overdue([1, 2, 3], 58_999) is None
    assert made.overdue([1, 2, 3], 59_000) == 1


def test_a_broker_this_controller_never_heard_of_is_not_live() -> None:
    made = sessions()
    made.restart([1], 0)

    assert not made.is_live(1, 1)
    made.touch(1, 1)
    assert made.is_live(1, 2)


def test_the_slowest_broker_sets_the_lowest_metadata_offset() -> None:
    made = sessions()
    made.touch(1, 0).metadata_offset = 40
    made.touch(2, 0).metadata_offset = 30

    assert made.lowest_metadata_offset([1, 2, 9]) == 30
    assert made.lowest_metadata_offset([]) is None


def test_an_unregistered_broker_has_no_session() -> None:
    made = sessions()
    made.end(1)
    made.end(1)

    assert not made.is_live(1, 0)


def test_what_a_broker_has_applied_never_falls_and_is_no_sign_of_life() -> None:
    sessions = BrokerSessions(timeout_ms=9000, disconnect_grace_ms=200)
    sessions.applied(1, 7)
    assert sessions.lowest_metadata_offset([1]) is None
    sessions.begin(1, 1000)
    sessions.applied(1, 7)
    sessions.applied(1, 5)
    assert sessions.lowest_metadata_offset([1]) == 7
    assert not sessions.is_live(1, 10_000)
