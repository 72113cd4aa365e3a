"""When clients work and when all of them rest: members of a group, and producers.

Invariant  Nobody rests in the calm.
"""

from __future__ import annotations

from random import Random
from typing import Final

from tidelog.simulator.world.dice import stream

WORK_MS: Final = (4_000, 8_000, 14_000)
REST_MS: Final = (1_500, 3_000)
BURST_MS: Final = (100, 400, 900)
SILENCE_MS: Final = (50, 500, 2_000)
"""So much longer than the lag that is allowed to a follower."""
SILENCES: Final = 0.25
"""In so many runs producers write in bursts, with long silences between them."""


class Shifts:
    """Work and rest in turns, the same for everybody who asks."""

    def __init__(self, dice: Random, stop_ms: int) -> None:
        self._work_ms = dice.choice(WORK_MS)
        self._turn_ms = self._work_ms + dice.choice(REST_MS)
        self._stop_ms = stop_ms

    def are_over(self, now_ms: int) -> bool:
        """Whether it is time to rest."""
        return now_ms < self._stop_ms and now_ms % self._turn_ms >= self._work_ms


class Bursts:
    """Everybody writes as fast as he can for a moment, then nobody writes for longer than a
    follower may lag behind."""

    def __init__(self, dice: Random, lag_max_ms: int, stop_ms: int) -> None:
        self._burst_ms = dice.choice(BURST_MS)
        self._turn_ms = self._burst_ms + lag_max_ms + dice.choice(SILENCE_MS)
        self._stop_ms = stop_ms

    def silence_ms(self, now_ms: int) -> int:
        """How long nobody writes from now on."""
        if now_ms >= self._stop_ms or now_ms % self._turn_ms < self._burst_ms:
            return 0
        return self._turn_ms - now_ms % self._turn_ms


def has_silences(seed: int) -> bool:
    """Whether producers write in bursts in the run of a seed."""
    return stream(seed, "silences").random() < SILENCES
