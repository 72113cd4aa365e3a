"""Simulated members of a group whose records are copied in transactions.

Invariant  While a transaction is under way the member keeps what it reads: what it is to give up
           it gives up afterwards, as a consumer does that polls between transactions.
Invariant  A member that fell asleep knows nothing of what happened meanwhile: it goes on as if it
           still were what it was, and is a zombie if it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from tidelog.simulator.clients.groups import SESSION_MS, Member

COPIERS: Final = "copiers"
FALLS_ASLEEP: Final = 0.02
"""How likely a member with something to read sleeps instead of sending its next heartbeat."""
SLEEPS_MS: Final = (2_000, 9_000, SESSION_MS + 4_000, SESSION_MS + 4_000)
"""Past nothing, past the time of a transaction, past the session."""
OVERSLEEPS_MS: Final = 1_500
"""So much earlier its copier is awake, and goes on with what it had."""


class CopierMember(Member):
    """The consumer inside a copier; `turn` counts the times that it got something else to read."""

    def __init__(self, name: str, nodes: Sequence[int], topic: str, stop_ms: int) -> None:
        super().__init__(name, nodes, topic, stop_ms, group=COPIERS)
        self.turn = 0
        self.is_busy = False
        """A transaction is under way."""
        self._wanted: frozenset[tuple[UUID, int]] | None = None
        self._sleeps_until_ms = 0

    @property
    def lets_sleep(self) -> bool:
        """Whether the copier sleeps as well."""
        return self.now_ms < self._sleeps_until_ms - OVERSLEEPS_MS

    @property
    def epoch(self) -> int:
        """Of its membership; 0 while it is no member."""
        return self._epoch

    @property
    def owned(self) -> frozenset[tuple[UUID, int]]:
        """What it was given; only the coordinator can tell it that others have that."""
        return self._owned

    def settle(self) -> None:
        """No transaction is under way: be what the group wants."""
        self.is_busy = False
        told, self._wanted = self._wanted, None
        if told is not None and told != self._owned:
            self._owned = told
            self.turn += 1

    def act(self) -> None:
        if self.now_ms < self._sleeps_until_ms:
            return
        may_sleep = self.now_ms < self.stop_ms and bool(self.reads)
        if may_sleep and self.dice.random() < FALLS_ASLEEP:
            self._sleeps_until_ms = self.now_ms + self.dice.choice(SLEEPS_MS)
            return
        super().act()

    def _wants_to_leave(self) -> bool:
        return not self.is_busy and super()._wants_to_leave()

    def _assigned(self, places: frozenset[tuple[UUID, int]]) -> None:
        self._wanted = places
        if not self.is_busy:
            self.settle()

    def _give_up(self) -> None:
        super()._give_up()
        self._wanted = None
        self.turn += 1
