"""What can be done to a world, as values: a plan is a list of them, each with its moment.

Invariant  A fault says everything about itself: struck at the same moment of the same run it does
           the same. What it chooses by chance it chooses with the `draw` it carries.
Invariant  Any fault may be left out of a plan and the rest still makes sense.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tidelog.simulator.world.paths import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The process dies, the disk keeps everything written.

    `after` 0 or more: in the middle of a step, at the change of a file that many changes later.
    """

    node: int
    after: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class KillBeforeEffects:
    """The process dies after a step that decided something, before anybody hears of it."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCut:
    """The machine loses power; `fate` of what was not synced: drawn, lost or kept."""

    node: int
    fate: str = "drawn"
    after: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Power on if need be, and a new process if there is none."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """SIGTERM."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """SIGSTOP."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """SIGCONT."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wipe:
    """The disk is replaced by a blank one, formatted anew; the node stays down."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeDirectory:
    """One log directory is replaced by a blank one, formatted anew; the node stays down."""

    node: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyDisk:
    """A copy of the disk is taken while the node runs."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreDisk:
    """The copy takes the place of the disk; the node stays down."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk:
    """Every change of a file blocks the loop, and every job takes this long on average."""

    node: int
    write_ms: int
    sync_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailDisk:
    """Operations fail from now on: full, write, read or sync; only on paths with `part`."""

    node: int
    how: str
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealDisk:
    """The disk works again, as fast as before."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A file of a kind (log, index, snapshot, epochs, checkpoint) is damaged: flip, cut, remove.

    A bit is flipped under the running process; the others wait until it is down.
    """

    node: int
    kind: str
    draw: int
    how: str = "flip"


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpClock:
    """Somebody sets the wall clock."""

    node: int
    by_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Depose:
    """Whoever leads the quorum at that moment is struck, and for so long: it is killed or paused,
    cut off from the other controllers, or hung up on by everybody (reset, which lasts no time)."""

    how: str
    for_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Nothing gets through from the first to the second host of each pair."""

    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """A bad line from the first to the second host of each pair."""

    pairs: tuple[Pair, ...]
    latency_ms: int
    loss_ppm: int = 0
    bytes_per_s: int = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mend:
    """These paths are open and fast again."""

    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MendAll:
    """All paths are open and fast again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Every connection between the hosts of each pair breaks, in the middle of what it carries."""

    pairs: tuple[Pair, ...]


MachineFault: TypeAlias = (
    Kill
    | KillBeforeEffects
    | PowerCut
    | Start
    | Stop
    | Pause
    | Resume
    | Wipe
    | WipeDirectory
    | CopyDisk
    | RestoreDisk
    | SlowDisk
    | FailDisk
    | HealDisk
    | Damage
    | JumpClock
)
"""What befalls one machine."""
Fault: TypeAlias = MachineFault | Depose | Cut | Slow | Mend | MendAll | Reset


class TimedFault(NamedTuple):
    """A fault and the moment at which it strikes."""

    at_ms: int
    fault: Fault
