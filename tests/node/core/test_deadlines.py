from __future__ import annotations

from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadlines


def at(monotonic_ms: int) -> Now:
    return Now(monotonic_ms, 0)


def test_deadlines_fire_in_order_of_their_due_time() -> None:
    deadlines = Deadlines()
    fired: list[str] = []
    deadlines.at(20, lambda now: fired.append("later"))
    deadlines.at(10, lambda now: fired.append("sooner"))
    deadlines.at(10, lambda now: fired.append("sooner, set second"))

    assert deadlines.next_ms == 10
    deadlines.run_due(at(15))
    assert fired == ["sooner", "sooner, set second"]
    assert deadlines.next_ms == 20


def test_time_passes_between_two_runs_of_what_is_done_again_and_again() -> None:
    deadlines = Deadlines()
    fired: list[int] = []
    deadlines.every(10, 0, lambda now: fired.append(now.monotonic_ms))

    deadlines.run_due(at(10))
    deadlines.run_due(at(11))
    assert fired == [10, 11]


def test_a_cancelled_deadline_never_fires() -> None:
    deadlines = Deadlines()
    fired: list[str] = []
    deadlines.at(10, lambda now: fired.append("cancelled")).cancel()

    assert deadlines.next_ms is None
    deadlines.run_due(at(10))
    assert fired == []


def test_cancelled_deadlines_do_not_pile_up() -> None:
    deadlines = Deadlines()
    fired: list[int] = []
    deadlines.at(7, lambda now: fired.append(now.monotonic_ms))
    for _ in range(10_000):
        deadlines.at(1_000_000, lambda now: fired.append(-1)).cancel()
    assert len(deadlines) < 2000

    deadlines.run_due(at(7))
    assert fired == [7]


def test_many_live_deadlines_are_all_kept() -> None:
    deadlines = Deadlines()
    fired: list[int] = []
    for due_ms in range(5000, 0, -1):
        deadlines.at(due_ms, lambda now, due_ms=due_ms: fired.append(due_ms))  # type: ignore[misc]
    deadlines.run_due(at(5000))
    assert fired == list(range(1, 5001))


def test_a_repeated_deadline_comes_back_after_its_interval() -> None:
    deadlines = Deadlines()
    fired: list[int] = []
    deadlines.every(5, 10, lambda now: fired.append(now.monotonic_ms))

    deadlines.run_due(at(5))
    assert deadlines.next_ms == 15
    deadlines.run_due(at(40))
    assert fired == [5, 40]
    assert deadlines.next_ms == 50
