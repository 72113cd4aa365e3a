"""Drawing a run from its seed: which faults there are, how often, and in what kind of world.

Each seed draws its own mix. A run with everything at once hides what a run with one kind of fault
all the time brings to light, so most kinds are absent from most runs.

Invariant  Every fault that lasts has its end in the plan, so that a run can go on after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Final, TypeVar

from tidelog.simulator.clients.shifts import has_silences
from tidelog.simulator.faults.directory_scenes import DIRECTORY_SCENES, Shelf
from tidelog.simulator.faults.faults import (
    CopyDisk,
    Cut,
    Damage,
    FailDisk,
    Fault,
    HealDisk,
    JumpClock,
    Kill,
    KillBeforeEffects,
    Mend,
    Pause,
    PowerCut,
    Reset,
    RestoreDisk,
    Resume,
    Slow,
    SlowDisk,
    Start,
    Stop,
    TimedFault,
    Wipe,
)
from tidelog.simulator.faults.quorum_scenes import (
    QUORUM_SCENES,
    Cast,
    Scene,
    quorum_settings,
    while_ms,
)
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.world.cluster import broker_ids, controller_ids
from tidelog.simulator.world.conditions import draw_conditions
from tidelog.simulator.world.dice import stream
from tidelog.simulator.world.paths import CLIENTS, Pair, apart, one_way, ring

QUIET_MS: Final = 3_000
"""No fault strikes before the cluster had this long to form."""

_ACTIVE: Final = 0.35
_UNDISTURBED: Final = 0.3
C = TypeVar("C")

QUORUMS: Final = ((3, False), (3, False), (3, False), (3, True), (1, False))
"""How many controllers there are, and whether they are nodes of their own; equally likely."""


QUORUM_FAULTS_MS: Final = 25_000
"""So long at most faults strike a quorum: more nodes and more faults make up for the time."""


DIRECTORIES: Final = (1, 1, 1, 2, 3)
"""How many log directories brokers have; equally likely."""


def draw_plan(
    seed: int,
    *,
    brokers: int = 3,
    controllers: int | None = None,
    separate: bool = False,
    directories: int | None = None,
) -> Plan:
    """The run of a seed; how many vote, and how many directories brokers have, unless that is
    given, is for the seed to say."""
    dice, quorum_dice = stream(seed, "swarm"), stream(seed, "quorum")
    directory_dice = stream(seed, "directories")
    drawn_directories = directory_dice.choice(DIRECTORIES)
    if directories is None:
        directories = drawn_directories
    if controllers is None:
        controllers, separate = quorum_dice.choice(QUORUMS) if brokers >= 3 else (1, False)
    nodes = broker_ids(brokers)
    voters = controller_ids(controllers, separate=separate)
    everybody = (*nodes, *voters) if separate else nodes
    faults_ms = dice.choice((10_000, 15_000, 20_000, 40_000))
    if controllers > 1:
        faults_ms = min(faults_ms, QUORUM_FAULTS_MS)
    settings, conditions = _draw_settings(dice, brokers), draw_conditions(dice)
    faults = [
        timed
        for timed in _draw_faults(dice, _SCENES, everybody, faults_ms)
        if not _costs_a_vote(timed.fault, voters)
    ]
    dead = _draw_dead(dice, everybody)
    if has_silences(seed):
        settings = _with_silences(stream(seed, "silences of followers"), settings)
    if controllers > 1:
        settings += quorum_settings(quorum_dice)
        cast = Cast(voters=voters, brokers=nodes)
        faults += _draw_faults(quorum_dice, QUORUM_SCENES, cast, faults_ms)
    if directories > 1:
        shelf = Shelf(brokers=nodes, directories=directories)
        faults += _draw_faults(directory_dice, DIRECTORY_SCENES, shelf, faults_ms)
    if is_undisturbed(seed):
        faults, dead = [], ()
    return Plan(
        seed=seed,
        brokers=brokers,
        controllers=controllers,
        separate=separate,
        directories=directories,
        settings=settings,
        conditions=conditions,
        faults=tuple(sorted(faults, key=lambda each: each.at_ms)),
        faults_ms=faults_ms,
        calm_ms=120_000,
        dead=dead,
        loss_budget=min(1, brokers - 1),
    )


def is_undisturbed(seed: int) -> bool:
    """Whether the run of a seed has silences and nothing else: nobody may leave anything (L22)."""
    return has_silences(seed) and stream(seed, "undisturbed").random() < _UNDISTURBED


def _with_silences(
    dice: Random, settings: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """Short enough a lag for many silences; some followers wait at their leader for just as long,
    which is the most that makes sense."""
    lag_max_ms = dice.choice((1_500, 3_000))
    wait_ms = dice.choice((500, lag_max_ms))
    given = {"replica.lag.time.max.ms": lag_max_ms, "replica.fetch.wait.max.ms": wait_ms}
    return tuple((dict(settings) | {name: str(value) for name, value in given.items()}).items())


def _costs_a_vote(fault: Fault, controllers: Sequence[int]) -> bool:
    """Whether a voter would come back with less than it promised: an older disk, which no quorum
    survives, or a blank one if there is no other voter."""
    is_only = len(controllers) == 1
    kinds = Wipe | RestoreDisk if is_only else RestoreDisk
    return isinstance(fault, kinds) and fault.node in controllers


def _draw_settings(dice: Random, brokers: int) -> tuple[tuple[str, str], ...]:
    heartbeat_ms = dice.choice((500, 2_000))
    settings = {
        "default.replication.factor": min(3, brokers),
        "min.insync.replicas": min(2, brokers),
        "broker.heartbeat.interval.ms": heartbeat_ms,
        "broker.session.timeout.ms": heartbeat_ms * dice.choice((4, 9)),
        "broker.disconnect.grace.ms": dice.choice((0, 200)),
        "broker.reconnect.grace.ms": 0 if heartbeat_ms == 500 else 3_000,
        "replica.lag.time.max.ms": dice.choice((1_500, 5_000, 30_000)),
        "replica.fetch.backoff.ms": dice.choice((100, 1_000)),
        "replica.high.watermark.checkpoint.interval.ms": dice.choice((500, 5_000)),
        "leader.imbalance.check.interval.seconds": dice.choice((5, 30, 300)),
        "log.initial.task.delay.ms": dice.choice((500, 30_000)),
    }
    return tuple((name, str(value)) for name, value in settings.items())


def _draw_dead(dice: Random, nodes: Sequence[int]) -> tuple[int, ...]:
    """Now and then one node never comes back: the others are enough."""
    followers = nodes[1:]
    return (dice.choice(followers),) if len(nodes) >= 3 and dice.random() < 0.15 else ()


def _draw_faults(
    dice: Random, scenes: Mapping[str, Callable[[Random, C], Scene]], cast: C, end_ms: int
) -> list[TimedFault]:
    faults: list[TimedFault] = []
    for name, scene in scenes.items():
        own = Random(f"{dice.getrandbits(64)}/{name}")
        if own.random() >= _ACTIVE:
            continue
        interval_ms = own.choice((2_000, 6_000, 15_000))
        at_ms = QUIET_MS + int(own.expovariate(1 / interval_ms))
        while at_ms < end_ms:
            faults += (TimedFault(at_ms + after_ms, fault) for after_ms, fault in scene(own, cast))
            at_ms += 1 + int(own.expovariate(1 / interval_ms))
    return sorted((each for each in faults if each.at_ms < end_ms), key=lambda each: each.at_ms)


def _kill(dice: Random, nodes: Sequence[int]) -> Scene:
    node = dice.choice(nodes)
    after = dice.choice((-1, -1, dice.randrange(40)))
    return (0, Kill(node=node, after=after)), (while_ms(dice), Start(node=node))


def _kill_before_effects(dice: Random, nodes: Sequence[int]) -> Scene:
    node = dice.choice(nodes)
    return (0, KillBeforeEffects(node=node)), (while_ms(dice), Start(node=node))


def _kill_all(dice: Random, nodes: Sequence[int]) -> Scene:
    dead = [(dice.randrange(50), Kill(node=node)) for node in nodes]
    return *dead, *((100 + while_ms(dice), Start(node=node)) for node in nodes)


def _power_cut(dice: Random, nodes: Sequence[int]) -> Scene:
    node = dice.choice(nodes)
    fate = dice.choice(("drawn", "drawn", "lost", "kept"))
    after = dice.choice((-1, -1, dice.randrange(40)))
    cut = PowerCut(node=node, fate=fate, after=after)
    return (0, cut), (while_ms(dice), Start(node=node))


def _stop(dice: Random, nodes: Sequence[int]) -> Scene:
    node = dice.choice(nodes)
    return (0, Stop(node=node)), (500 + while_ms(dice), Start(node=node))


def _pause(dice: Random, nodes: Sequence[int]) -> Scene:
    node = dice.choice(nodes)
    return (0, Pause(node=node)), (while_ms(dice), Resume(node=node))


def _wipe(dice: Random, nodes: Sequence[int]) -> Scene:
    node = _expendable(dice, nodes)
    return () if node is None else ((0, Wipe(node=node)), (while_ms(dice), Start(node=node)))


def _restore(dice: Random, nodes: Sequence[int]) -> Scene:
    node = _expendable(dice, nodes)
    if node is None:
        return ()
    later_ms = 1_000 + while_ms(dice)
    return (
        (0, CopyDisk(node=node)),
        (later_ms, RestoreDisk(node=node)),
        (later_ms + while_ms(dice), Start(node=node)),
    )


def _slow_disk(dice: Random, nodes: Sequence[int]) -> Scene:
    node = dice.choice(nodes)
    slow = SlowDisk(node=node, write_ms=dice.choice((0, 1, 20)), sync_ms=dice.choice((100, 2_000)))
    return (0, slow), (while_ms(dice), HealDisk(node=node))


def _fail_disk(dice: Random, nodes: Sequence[int]) -> Scene:
    node = dice.choice(nodes)
    ends_ms = while_ms(dice)
    how = dice.choice(("full", "write", "read", "sync"))
    return (
        (0, FailDisk(node=node, how=how)),
        (ends_ms, HealDisk(node=node)),
        (ends_ms + 1, Kill(node=node)),
        (ends_ms + 1 + while_ms(dice), Start(node=node)),
    )


def _flip(dice: Random, nodes: Sequence[int]) -> Scene:
    kind = dice.choice(("log", "log", "index", "snapshot", "epochs", "checkpoint"))
    damage = Damage(node=dice.choice(nodes), kind=kind, draw=dice.getrandbits(32))
    return ((0, damage),)


def _damage_at_rest(dice: Random, nodes: Sequence[int]) -> Scene:
    node = dice.choice(nodes)
    kind = dice.choice(("index", "snapshot", "epochs", "checkpoint"))
    how = dice.choice(("cut", "remove", "flip"))
    return (
        (0, Kill(node=node)),
        (1, Damage(node=node, kind=kind, draw=dice.getrandbits(32), how=how)),
        (1 + while_ms(dice), Start(node=node)),
    )


def _jump_clock(dice: Random, nodes: Sequence[int]) -> Scene:
    node, by_ms = dice.choice(nodes), dice.choice((-1, 1)) * dice.randint(1, 3_600_000)
    jumps = dice.choice((1, 2, 8))
    return tuple(
        (200 * jump, JumpClock(node=node, by_ms=by_ms if jump % 2 == 0 else -by_ms))
        for jump in range(jumps)
    )


def _partition(dice: Random, nodes: Sequence[int]) -> Scene:
    names = [str(node) for node in nodes]
    dice.shuffle(names)
    pairs: tuple[Pair, ...]
    match dice.choice(("alone", "deaf", "mute", "ring", "split", "pair", "clients", "unanswered")):
        case "alone":
            pairs = apart(names[:1], names[1:])
        case "deaf":
            pairs = one_way(names[1:], names[:1])
        case "mute":
            pairs = one_way(names[:1], names[1:])
        case "ring":
            pairs = ring(names)
        case "clients":
            pairs = apart(names[:1], [CLIENTS])
        case "unanswered":
            pairs = one_way(names[:1], [CLIENTS])
        case "pair":
            pairs = apart(names[:1], names[1:2])
        case _:
            half = dice.randint(1, max(1, len(names) - 1))
            pairs = apart(names[:half], names[half:])
    return (0, Cut(pairs=pairs)), (while_ms(dice), Mend(pairs=pairs))


def _swizzle(dice: Random, nodes: Sequence[int]) -> Scene:
    """Stop a random subset of the hosts one by one, restore them in another order."""
    names = [str(node) for node in nodes]
    chosen = dice.sample(names, dice.randint(1, len(names)))
    scene: list[tuple[int, Fault]] = []
    at_ms = 0
    for name in chosen:
        pairs = apart([name], [other for other in names if other != name])
        scene.append((at_ms, Cut(pairs=pairs)))
        at_ms += dice.randint(10, 2_000)
    dice.shuffle(chosen)
    for name in chosen:
        pairs = apart([name], [other for other in names if other != name])
        scene.append((at_ms, Mend(pairs=pairs)))
        at_ms += dice.randint(10, 2_000)
    return scene


def _reset(dice: Random, nodes: Sequence[int]) -> Scene:
    names = [*(str(node) for node in nodes), CLIENTS]
    dice.shuffle(names)
    return ((0, Reset(pairs=tuple(pairwise(names[: dice.randint(2, len(names))])))),)


def _slow_path(dice: Random, nodes: Sequence[int]) -> Scene:
    names = [str(node) for node in nodes]
    dice.shuffle(names)
    pairs = dice.choice((apart, one_way))(names[:1], names[1:])
    slow = Slow(
        pairs=pairs,
        latency_ms=dice.choice((5, 100, 1_000)),
        loss_ppm=dice.choice((0, 10_000, 300_000)),
        bytes_per_s=dice.choice((125_000, 1_000_000_000)),
    )
    return (0, slow), (while_ms(dice), Mend(pairs=pairs))


def _expendable(dice: Random, nodes: Sequence[int]) -> int | None:
    """A node whose disk the cluster can do without: any but the first, which may be the only
    controller."""
    return dice.choice(nodes[1:]) if len(nodes) > 1 else None


_SCENES: Final[dict[str, Callable[[Random, Sequence[int]], Scene]]] = {
    "kill": _kill,
    "kill before effects": _kill_before_effects,
    "kill all": _kill_all,
    "power cut": _power_cut,
    "stop": _stop,
    "pause": _pause,
    "wipe": _wipe,
    "restore": _restore,
    "slow disk": _slow_disk,
    "fail disk": _fail_disk,
    "flip": _flip,
    "damage at rest": _damage_at_rest,
    "jump clock": _jump_clock,
    "partition": _partition,
    "swizzle": _swizzle,
    "reset": _reset,
    "slow path": _slow_path,
}
