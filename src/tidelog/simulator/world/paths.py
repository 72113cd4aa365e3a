"""Who can hear whom, and how well: the state of every one-way path between two hosts.

A partition is a set of one-way cuts, so that symmetric, one-way, bridge and ring shapes are all
the same thing with other pairs.

Invariant  A path nobody spoke about is open and as fast as the run's conditions say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

CLIENTS: Final = "clients"
"""Stands for every client in a pair."""

Pair: TypeAlias = tuple[str, str]
"""From one host to another, by name or, for all clients at once, by `CLIENTS`."""


class Slowness(NamedTuple):
    """What a bad path adds."""

    latency_us: int
    loss_ppm: int
    bytes_per_s: int


class Place(Protocol):
    """A host as paths know it; `zone` is its name, or the one it shares with others."""

    @property
    def name(self) -> str: ...

    @property
    def zone(self) -> str: ...


class Paths:
    """The paths that are cut or slow."""

    def __init__(self) -> None:
        self._cut: set[Pair] = set()
        self._slow: dict[Pair, Slowness] = {}

    @property
    def cuts(self) -> list[Pair]:
        """Every path that is cut."""
        return sorted(self._cut)

    def is_cut(self, one: Place, other: Place) -> bool:
        """Whether nothing gets through from the one to the other."""
        cut = self._cut
        return bool(cut) and ((one.name, other.name) in cut or (one.zone, other.zone) in cut)

    def slowness(self, one: Place, other: Place) -> Slowness | None:
        slow = self._slow
        if not slow:
            return None
        return slow.get((one.name, other.name)) or slow.get((one.zone, other.zone))

    def cut(self, pairs: Iterable[Pair]) -> None:
        """Let nothing through from the first to the second host of each pair."""
        self._cut.update(pairs)

    def slow(self, pairs: Iterable[Pair], slowness: Slowness) -> None:
        self._slow.update((pair, slowness) for pair in pairs)

    def mend(self, pairs: Iterable[Pair]) -> None:
        """Open these paths again, at full speed."""
        for pair in pairs:
            self._cut.discard(pair)
            self._slow.pop(pair, None)

    def mend_all(self) -> None:
        self._cut.clear()
        self._slow.clear()


def apart(left: Iterable[str], right: Sequence[str]) -> tuple[Pair, ...]:
    """The pairs whose cut keeps two groups from hearing each other."""
    return tuple(pair for one in left for other in right for pair in ((one, other), (other, one)))


def one_way(senders: Iterable[str], receivers: Sequence[str]) -> tuple[Pair, ...]:
    """The pairs whose cut makes the receivers deaf to the senders."""
    return tuple((sender, receiver) for sender in senders for receiver in receivers)


def ring(hosts: Sequence[str]) -> tuple[Pair, ...]:
    """The pairs whose cut lets every host hear only its two neighbours."""
    count = len(hosts)
    return tuple(
        (hosts[one], hosts[other])
        for one in range(count)
        for other in range(count)
        if (one - other) % count not in (0, 1, count - 1)
    )
