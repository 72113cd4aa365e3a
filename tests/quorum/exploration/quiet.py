"""A quorum left in peace: whoever is connected is heard at once, and time goes by for all alike."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from tests.quorum.exploration.behaviour import Behaviour, Outcome
from tests.quorum.exploration.ghost import RuleBroken, require
from tests.quorum.exploration.happenings import (
    AllLost,
    Happening,
    Synced,
    TimePassed,
)
from tests.quorum.exploration.seen import Seen

NOBODY: Final = -1
LOOKS_MOST: Final = 40
"""So often somebody's time is up at most before there must be a leader."""


class QuietWorld:
    """Some of the voters, connected; from the others nothing is heard. What was on its way when
    it became quiet is lost."""

    def __init__(
        self, behaviour: Behaviour, voters: tuple[int, ...], connected: Iterable[int]
    ) -> None:
        self.voters = list(voters)
        self._behaviour = behaviour
        self._connected = frozenset(connected)
        self._now_ms = 0
        self._due_ms: dict[int, int | None] = {}
        self._on_its_way: deque[int] = deque()
        self._parked: dict[int, list[int]] = {}
        """At each voter the fetches that it has nothing new for."""
        for node_id in sorted(self._connected):
            self._meets(node_id, AllLost())
        self.deliver()

    def seen(self, node_id: int) -> Seen:
        return self._behaviour.seen[self.voters[node_id - 1]]

    @property
    def leader(self) -> Seen | None:
        """The active leader that everybody who is connected follows, with the same log."""
        everybody = [self.seen(node_id) for node_id in sorted(self._connected)]
        for leader in everybody:
            if leader.is_active and all(
                (each.leader_id, each.epoch, each.log, each.high_watermark)
                == (leader.node_id, leader.epoch, leader.log, leader.high_watermark)
                for each in everybody
            ):
                return leader
        return None

    def until_led(self) -> Seen:
        """Let time pass until there is a leader."""
        for _ in range(LOOKS_MOST):
            if (leader := self.leader) is not None:
                return leader
            self._wait()
        roles = {node_id: self.seen(node_id).role for node_id in sorted(self._connected)}
        raise RuleBroken(f"a majority is connected, and nobody leads (L1): {roles}")

    def loses_patience(self, node_id: int) -> None:
        """The time of one voter is up."""
        ms = self.seen(node_id).stands_in_ms
        assert ms is not None
        self._meets(node_id, TimePassed(ms))
        self.deliver()

    def deliver(self) -> None:
        """Everything on its way arrives, and so does what is said to it."""
        while self._on_its_way:
            number = self._on_its_way.popleft()
            sender, to, _, answered_in = self._behaviour.routes[number]
            if not {sender, to} <= self._connected:
                continue
            before = self.voters[to - 1]
            outcome = self._behaviour.delivered(before, number)
            if outcome.voter == before and answered_in is not None:
                self._parked.setdefault(sender, []).extend(outcome.sent)
            else:
                self._became(to, outcome)
            if self.voters[to - 1] != before:
                self._on_its_way.extend(self._parked.pop(to, ()))

    def _meets(self, node_id: int, happening: Happening) -> None:
        self._became(node_id, self._behaviour.meets(self.voters[node_id - 1], happening))

    def _became(self, node_id: int, outcome: Outcome) -> None:
        self.voters[node_id - 1] = outcome.voter
        self._on_its_way.extend(outcome.sent)
        if self.seen(node_id).is_syncing:
            self._meets(node_id, Synced())

    def _wait(self) -> None:
        """Until the time of one of them is up."""
        for node_id in self._connected:
            wait_ms = self.seen(node_id).looks_in_ms
            due_ms = None if wait_ms is None else self._now_ms + wait_ms
            known_ms = self._due_ms.get(node_id)
            if due_ms is None or known_ms is None or due_ms < known_ms:
                self._due_ms[node_id] = due_ms
        waiting = {
            node_id: due_ms for node_id, due_ms in self._due_ms.items() if due_ms is not None
        }
        first = min(waiting, key=lambda node_id: (waiting[node_id], node_id))
        self._now_ms = max(self._now_ms, waiting[first])
        self._due_ms[first] = None
        ms = self.seen(first).looks_in_ms
        assert ms is not None
        self._meets(first, TimePassed(ms))
        self.deliver()


def require_leaders_after(behaviour: Behaviour, worlds: Iterable[tuple[int, ...]]) -> None:
    """Whichever majority of a world is left in peace gets a leader, as do all of them (L1)."""
    for connected, voters in sorted({each for world in worlds for each in _majorities(world)}):
        QuietWorld(behaviour, voters, connected).until_led()


def _majorities(world: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Those that may be connected, and the world as it is for them: nobody else matters."""
    everybody = tuple(range(1, len(world) + 1))
    yield everybody, world
    if len(world) > 2:
        for absent in everybody:
            voters = *world[: absent - 1], NOBODY, *world[absent:]
            yield tuple(node_id for node_id in everybody if node_id != absent), voters


def require_resignations_in(behaviour: Behaviour, worlds: Iterable[tuple[int, ...]]) -> None:
    """A leader that has heard from nobody for long enough leads nobody any more (C8)."""
    for voter in sorted({voter for world in worlds for voter in world}):
        seen = behaviour.seen[voter]
        if seen.role == "leader" and len(seen.voter_ids) > 1:
            assert seen.stands_in_ms is not None
            alone = behaviour.meets(voter, TimePassed(seen.stands_in_ms))
            require(
                behaviour.seen[alone.voter].role != "leader",
                f"{seen.node_id} still leads, without a majority (C8)",
            )
