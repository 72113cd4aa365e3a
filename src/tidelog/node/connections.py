"""Connections and their response slots.

Requests of one connection are worked on as they arrive, several at once; their answers leave in
the order of the requests. A parked request therefore holds the later answers, not the later work.

Invariant  Every request that expects an answer gets exactly one, in request order.
Invariant  At most `UNANSWERED_MAX` requests of one connection wait; then its peer is not read.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from tidelog.node.effects import Close, Effect, PauseReading, ResumeReading, Send
from tidelog.wire.fetch import Part

UNANSWERED_MAX: Final = 256
RESUME_BELOW: Final = UNANSWERED_MAX // 2


class Slot:
    """The place in the queue of answers that one request holds."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Part] | None = None


class Waiting(Protocol):
    """Something parked on behalf of a peer."""

    def cancel(self) -> None:
        """The peer left."""
        ...


class Connection:
    """One peer: who it is, and the answers it waits for."""

    __slots__ = (
        "_effects",
        "_slots",
        "closed",
        "heartbeats_of",
        "id",
        "listener",
        "paused",
        "peer_host",
        "waiting",
    )

    def __init__(self, id: int, listener: str, peer_host: str, effects: list[Effect]) -> None:
        self.id = id
        self.listener = listener
        self.peer_host = peer_host
        self.closed = False
        self.heartbeats_of: int | None = None
        """The broker that says on this connection that it lives."""
        self.paused = False
        self.waiting: dict[Waiting, None] = {}
        self._slots: deque[Slot] = deque()
        self._effects = effects

    def answer_now(self, parts: list[Part]) -> None:
        """Answer the request just read, behind the answers that are still due."""
        if not self._slots:
            self._effects.append(Send(self.id, parts))
            return
        self.reserve().parts = parts

    def reserve(self) -> Slot:
        """Keep the place of a request that will be answered later."""
        slot = Slot()
        self._slots.append(slot)
        if len(self._slots) >= UNANSWERED_MAX and not self.paused and not self.closed:
            self.paused = True
            self._effects.append(PauseReading(self.id))
        return slot

    def fill(self, slot: Slot, parts: list[Part]) -> None:
        """The answer of a reserved slot is there; send whatever is now first in line."""
        slot.parts = parts
        if self.closed:
            return
        slots = self._slots
        while slots and (ready := slots[0].parts) is not None:
            slots.popleft()
            self._effects.append(Send(self.id, ready))
        if self.paused and len(slots) < RESUME_BELOW:
            self.paused = False
            self._effects.append(ResumeReading(self.id))

    def close(self, reason: str) -> None:
        """Hang up; answers still due are dropped."""
        if not self.closed:
            self.lost()
            self._effects.append(Close(self.id, reason))

    def lost(self) -> None:
        """The peer is gone."""
        self.closed = True
        self._slots.clear()
        waiting, self.waiting = self.waiting, {}
        for parked in waiting:
            parked.cancel()
