"""How much of what can happen is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tests.quorum.exploration.seen import Seen

from tidelog.quorum.voters import VoterChange

if TYPE_CHECKING:
    from tests.quorum.exploration.behaviour import Behaviour


class Rules(NamedTuple):
    """What all voters of a world have in common."""

    voters: int
    fetch_bytes: int = 1 << 20
    slow_syncs: bool = False
    """Whether the world decides when a sync is done; otherwise it is at once."""
    gossip: bool = False
    """Whether voters that know no leader ask around for one, and hear answers to what they asked
    in an earlier epoch. Both only tell of epochs and leaders."""


class Budget(NamedTuple):
    """How much may still happen that does not come of itself."""

    timeouts: int = 0
    restarts: int = 0
    hang_ups: int = 0
    repeats: int = 0
    writes: int = 0
    changes: int = 0


class Opened(NamedTuple):
    """The voters a search begins with, and what is on its way between them."""

    voters: tuple[int, ...]
    network: tuple[int, ...]


Opening: TypeAlias = Callable[["Behaviour"], Opened]
Rule: TypeAlias = Callable[[tuple[Seen, ...]], None]


class Scope(NamedTuple):
    """How much is looked at."""

    rules: Rules
    budget: Budget
    opening: Opening
    """What it begins with."""
    impatient: frozenset[int]
    """Whose timeouts fire."""
    fallible: frozenset[int] = frozenset()
    """Who may restart."""
    cut: frozenset[frozenset[int]] = frozenset()
    """Who cannot hear each other."""
    changes: tuple[VoterChange, ...] = ()
    """What a leader may be asked to change."""
    power_fails: bool = False
    """Whether restarts lose what was not synced."""
    rule: Rule | None = None
    """What must hold besides."""
