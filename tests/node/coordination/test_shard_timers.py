"""The timers of a coordinator."""

from __future__ import annotations

from typing import Any

from tidelog.coordinator.result import CoordinatorResult
from tidelog.model.time import Now
from tidelog.node.coordination.shard_timers import AGAIN_MS, Command, ShardTimers
from tidelog.node.core.deadlines import Deadlines

LATER_MS = 600_000


def test_what_could_not_be_written_is_asked_for_again_even_if_it_sets_itself() -> None:
    deadlines = Deadlines()
    asked_at: list[int] = []

    def run(now: Now, command: Command[Any]) -> bool:
        command(now)
        return len(asked_at) > 1

    def check(now: Now) -> CoordinatorResult[object, None]:
        asked_at.append(now.monotonic_ms)
        timers.set("check", now.monotonic_ms + LATER_MS, check)
        return CoordinatorResult((), None)

    timers = ShardTimers(deadlines, run)
    timers.set("check", 0, check)
    for at_ms in (0, AGAIN_MS, 2 * AGAIN_MS, AGAIN_MS + LATER_MS):
        deadlines.run_due(Now(at_ms, at_ms))

    assert asked_at == [0, AGAIN_MS, AGAIN_MS + LATER_MS]
