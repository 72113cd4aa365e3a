"""How fast the world is when nothing is wrong: network, disks and processors of one run."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple


class Conditions(NamedTuple):
    """The everyday of one run, in microseconds and bytes."""

    latency_us: int = 100
    """The least time a message is under way."""
    jitter_us: int = 200
    """How much longer it takes on average."""
    loss_ppm: int = 0
    """Messages lost, of a million; each costs the time until it is sent again."""
    bytes_per_s: int = 1_000_000_000
    step_us: int = 20
    """Processor time of one step of a node."""
    write_us: int = 0
    """How long a change of a file blocks the node's loop."""
    sync_us: int = 2_000
    """How long a job (an fsync) takes on average."""
    drift_ppm: int = 0
    """The most a machine's clock may be too fast or too slow."""


EVERYDAY: Final = Conditions()


def draw_conditions(dice: Random) -> Conditions:
    """A data centre, a busy network or a bad line, as the dice fall."""
    latency_us, jitter_us = dice.choice(((50, 100), (200, 500), (1_000, 4_000), (10_000, 20_000)))
    return Conditions(
        latency_us=latency_us,
        jitter_us=jitter_us,
        loss_ppm=dice.choice((0, 0, 0, 1_000, 20_000)),
        bytes_per_s=dice.choice((1_000_000_000, 100_000_000, 5_000_000)),
        step_us=dice.choice((20, 20, 100, 500)),
        write_us=dice.choice((0, 0, 10, 200)),
        sync_us=dice.choice((500, 2_000, 2_000, 15_000)),
        drift_ppm=dice.choice((0, 0, 100, 2_000)),
    )
