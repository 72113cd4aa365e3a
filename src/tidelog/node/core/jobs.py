"""Blocking work that runs away from the loop, and what happens when it is done.

Invariant  Every job reports back exactly once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TypeAlias

from tidelog.model.time import Now
from tidelog.node.core.effects import Effect, Lane, RunJob

Finished: TypeAlias = Callable[[Now, str | None], None]


class Jobs:
    """The jobs under way."""

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._ids = count(1)
        self._under_way: dict[int, Finished] = {}

    @property
    def are_done(self) -> bool:
        """Whether nothing is under way."""
        return not self._under_way

    def run(self, lane: Lane, work: Callable[[], None], finished: Finished) -> None:
        """Run `work` elsewhere, then call `finished` with the error it raised, if any."""
        job_id = next(self._ids)
        self._under_way[job_id] = finished
        self._effects.append(RunJob(job_id, work, lane))

    def finished(self, job_id: int, now: Now, error: str | None) -> None:
        """A job has ended."""
        self._under_way.pop(job_id)(now, error)
