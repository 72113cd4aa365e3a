"""What befalls one of several log directories while the others go on, as scenes of the swarm.

Invariant  The first directory, with the metadata log in it, is left alone: without it a node stops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from tidelog.simulator.disk.machine_disk import FAILURES
from tidelog.simulator.faults.faults import FailDisk, HealDisk, Kill, Start, Stop, WipeDirectory
from tidelog.simulator.faults.quorum_scenes import Scene, while_ms
from tidelog.simulator.world.cluster import log_directories


class Shelf(NamedTuple):
    """Who has how many directories."""

    brokers: Sequence[int]
    directories: int

    def draw(self, dice: Random) -> tuple[int, str]:
        """A broker and one of its directories but the first."""
        node = dice.choice(self.brokers)
        return node, dice.choice(log_directories(node, self.directories)[1:])


def _fail(dice: Random, shelf: Shelf) -> Scene:
    """A directory fails under a running node, which goes on until somebody starts it again."""
    node, path = shelf.draw(dice)
    heals_ms = while_ms(dice)
    dies_ms = heals_ms + while_ms(dice)
    return (
        (0, FailDisk(node=node, how=dice.choice((*FAILURES,)), part=f"{path}/")),
        (heals_ms, HealDisk(node=node)),
        (dies_ms, Kill(node=node)),
        (dies_ms + while_ms(dice), Start(node=node)),
    )


def _start_without(dice: Random, shelf: Shelf) -> Scene:
    """A node starts while a directory cannot be written to, and again when it can."""
    node, path = shelf.draw(dice)
    again_ms = 300 + while_ms(dice)
    heals_ms = again_ms + while_ms(dice)
    return (
        (0, FailDisk(node=node, how=dice.choice(("full", "write", "sync")), part=f"{path}/")),
        (dice.randrange(300), Kill(node=node)),
        (again_ms, Start(node=node)),
        (heals_ms, HealDisk(node=node)),
        (heals_ms + 1, Kill(node=node)),
        (heals_ms + while_ms(dice), Start(node=node)),
    )


def _stop_by_halves(dice: Random, shelf: Shelf) -> Scene:
    """An orderly stop that one directory does not take part in: the others say it was clean."""
    node, path = shelf.draw(dice)
    ends_ms = 500 + while_ms(dice)
    return (
        (0, FailDisk(node=node, how=dice.choice(("full", "sync", "sync")), part=f"{path}/")),
        (dice.randrange(2_000), Stop(node=node)),
        (ends_ms, HealDisk(node=node)),
        (ends_ms + 1 + while_ms(dice), Start(node=node)),
    )


def _wipe(dice: Random, shelf: Shelf) -> Scene:
    """A node comes back with a blank disk among the others."""
    node, path = shelf.draw(dice)
    return (0, WipeDirectory(node=node, path=path)), (while_ms(dice), Start(node=node))


DIRECTORY_SCENES: Final[dict[str, Callable[[Random, Shelf], Scene]]] = {
    "fail": _fail,
    "start without": _start_without,
    "stop by halves": _stop_by_halves,
    "wipe": _wipe,
}
