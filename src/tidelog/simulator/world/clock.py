"""A machine's two clocks: one that only goes on, one that people set.

Invariant  Between two starts of the machine monotonic time never goes back, whatever happens to
           the wall clock.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.time import Now

EPOCH_MS: Final = 1_800_000_000_000
"""Wall-clock time when a run begins."""

_MILLION: Final = 1_000_000


class Clock:
    """Clocks with an offset and a rate of their own; `drift_ppm` is how much too fast they run."""

    __slots__ = ("_boot_ms", "_rate", "wall_offset_ms")

    def __init__(self, boot_ms: int, drift_ppm: int = 0) -> None:
        self._boot_ms = boot_ms
        self._rate = _MILLION + drift_ppm
        self.wall_offset_ms = 0

    def at(self, world_us: int) -> Now:
        """What the clocks show at a moment of virtual time."""
        elapsed_ms = world_us * self._rate // _MILLION // 1000
        return Now(self._boot_ms + elapsed_ms, EPOCH_MS + elapsed_ms + self.wall_offset_ms)

    def world_us(self, monotonic_ms: int) -> int:
        """The first moment of virtual time at which monotonic time has reached this."""
        elapsed_us = (monotonic_ms - self._boot_ms) * 1000
        return -(-elapsed_us * _MILLION // self._rate)

    def restart(self, boot_ms: int) -> None:
        """The machine lost power: monotonic time begins anew."""
        self._boot_ms = boot_ms
