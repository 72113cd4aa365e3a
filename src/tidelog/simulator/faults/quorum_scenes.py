"""What befalls a quorum of several controllers in particular, as scenes of the swarm.

Invariant  No scene takes more from the quorum for good than a minority of its votes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple, TypeAlias

from tidelog.simulator.faults.faults import (
    Cut,
    Depose,
    Fault,
    Kill,
    Mend,
    Pause,
    Reset,
    Resume,
    Start,
    Wipe,
)
from tidelog.simulator.world.paths import Pair, apart, one_way

Scene: TypeAlias = Sequence[tuple[int, Fault]]
"""Faults that belong together, each with its distance from the first in milliseconds."""


class Cast(NamedTuple):
    """Who takes part in a scene; a node may be both."""

    voters: Sequence[int]
    brokers: Sequence[int]


def while_ms(dice: Random) -> int:
    """How long something lasts: a blink, a session, or half of the run."""
    return dice.choice(
        (dice.randint(5, 300), dice.randint(300, 4_000), dice.randint(4_000, 12_000))
    )


def quorum_settings(dice: Random) -> tuple[tuple[str, str], ...]:
    """How patient controllers are, how often they write snapshots, and whether one that lost its
    disk gets a vote again by itself."""
    settings = {
        "controller.quorum.election.timeout.ms": dice.choice((300, 1_000)),
        "controller.quorum.fetch.timeout.ms": dice.choice((600, 2_000)),
        "controller.quorum.auto.join.enable": dice.choice(("false", "true")),
        "metadata.log.max.record.bytes.between.snapshots": dice.choice((2_000, 20 << 20)),
        "metadata.max.retention.bytes": dice.choice((4_000, 100 << 20)),
    }
    return tuple((name, str(value)) for name, value in settings.items())


def _storm(dice: Random, _cast: Cast) -> Scene:
    """One active controller after the other is deposed, before or after it has settled."""
    hows = dice.choice((("kill",), ("pause",), ("cut",), ("kill", "pause", "cut", "reset")))
    scene: list[tuple[int, Fault]] = []
    at_ms = 0
    for _ in range(dice.randint(2, 6)):
        scene.append((at_ms, Depose(how=dice.choice(hows), for_ms=while_ms(dice))))
        at_ms += dice.choice((dice.randint(20, 400), dice.randint(400, 4_000)))
    return scene


def _loss(dice: Random, cast: Cast) -> Scene:
    """A majority of the controllers is gone for a while."""
    lost = dice.sample(cast.voters, len(cast.voters) // 2 + 1)
    scene: list[tuple[int, Fault]] = []
    for node in lost:
        begins_ms, ends_ms = dice.randrange(50), 100 + while_ms(dice)
        if dice.random() < 0.5:
            scene += ((begins_ms, Kill(node=node)), (ends_ms, Start(node=node)))
        else:
            scene += ((begins_ms, Pause(node=node)), (ends_ms, Resume(node=node)))
    return scene


def _split(dice: Random, cast: Cast) -> Scene:
    """The controllers do not hear each other; each broker hears those of one side, or all."""
    names = [str(node) for node in cast.voters]
    dice.shuffle(names)
    half = dice.randint(1, len(names) - 1)
    left, right = names[:half], names[half:]
    pairs: tuple[Pair, ...]
    match dice.choice(("halves", "all", "deaf", "sides")):
        case "halves":
            pairs = apart(left, right)
        case "all":
            pairs = tuple(pair for name in names for pair in one_way([name], names))
        case "deaf":
            pairs = one_way(left, right)
        case _:
            others = [str(node) for node in cast.brokers if node not in cast.voters]
            near = [name for name in others if dice.random() < 0.5]
            far = [name for name in others if name not in near]
            pairs = apart([*left, *near], [*right, *far])
    return (0, Cut(pairs=pairs)), (while_ms(dice), Mend(pairs=pairs))


def _hang_up(dice: Random, cast: Cast) -> Scene:
    """A node that lives loses all its connections to the controllers, again and again."""
    node = dice.choice(cast.brokers)
    voters = [str(voter) for voter in cast.voters if voter != node]
    reset = Reset(pairs=one_way([str(node)], voters))
    times, every_ms = dice.choice((1, 2, 6)), dice.randint(20, 1_000)
    return tuple((time * every_ms, reset) for time in range(times))


def _sleeper(dice: Random, _cast: Cast) -> Scene:
    """The active controller sleeps until everybody has forgotten it, and wakes up."""
    return ((0, Depose(how="pause", for_ms=dice.randint(3_000, 12_000))),)


def _wipe(dice: Random, cast: Cast) -> Scene:
    """A controller comes back with a blank disk."""
    node = dice.choice(cast.voters)
    return (0, Wipe(node=node)), (while_ms(dice), Start(node=node))


QUORUM_SCENES: Final[dict[str, Callable[[Random, Cast], Scene]]] = {
    "storm": _storm,
    "loss": _loss,
    "split": _split,
    "hang up": _hang_up,
    "sleeper": _sleeper,
    "wiped voter": _wipe,
}
