"""When the members of a group work, and when all of them rest.

Invariant  Nobody rests in the calm.
"""

from __future__ import annotations

from random import Random
from typing import Final

WORK_MS: Final = (4_000, 8_000, 14_000)
REST_MS: Final = (1_500, 3_000)


class Shifts:
    """Work and rest in turns, the same for everybody who asks."""

    def __init__(self, dice: Random, stop_ms: int) -> None:
        self._work_ms = dice.choice(WORK_MS)
        self._turn_ms = self._work_ms + dice.choice(REST_MS)
        self._stop_ms = stop_ms

    def are_over(self, now_ms: int) -> bool:
        """Whether it is time to rest."""
        return now_ms < self._stop_ms and now_ms % self._turn_ms >= self._work_ms
