"""Connections and their response slots.

Requests of one connection are worked on as they arrive, several at once; their answers leave in
the order of the requests. A parked request therefore holds the later answers, not the later work.

Invariant  Every request that expects an answer gets exactly one, in request order.
Invariant  At most `UNANSWERED_MAX` requests of one connection wait; then its peer is not read.
Invariant  What requests take in memory while another node is asked about them is bounded in bytes,
           for a connection and for the node: who is at the bound is not read, answers or none. One
           request is always let in, however large it is.
Invariant  A peer that is throttled gets its answers, and is not read until its time is over.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from tidelog.model.principal import ANONYMOUS, Principal
from tidelog.model.time import Now
from tidelog.node.core.authentication import Authentication
from tidelog.node.core.deadlines import Deadline, Deadlines
from tidelog.node.core.effects import Close, Effect, PauseReading, ResumeReading, Send
from tidelog.protocol.fetch import Part

UNANSWERED_MAX: Final = 256
RESUME_BELOW: Final = UNANSWERED_MAX // 2


QUEUED_BYTES_MAX: Final = 256 << 20
CONNECTIONS_AT_MOST: Final = 8
"""So many connections can queue as much as one may before all of them are at the node's bound."""


class QueuedBytes:
    """What queued requests of all connections take; some of these may be gone already."""

    def __init__(self, most: int = QUEUED_BYTES_MAX) -> None:
        self.most = most
        self.most_of_one = most // CONNECTIONS_AT_MOST
        self.total = 0
        self._queued: dict[Connection, int] = {}
        """How many bytes each connection has queued."""

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be queued."""
        return self.total >= self.most

    def of(self, connection: Connection) -> int:
        return self._queued.get(connection, 0)

    def add(self, connection: Connection, size: int) -> None:
        """A request of the connection is kept in memory."""
        was_full = self.is_full
        self._add(connection, size)
        for each in (connection,) if was_full is self.is_full else tuple(self._queued):
            each.read_or_not()

    def remove(self, connection: Connection, size: int) -> None:
        """It is kept no longer."""
        before = self.total
        self._add(connection, -size)
        all_may_go_on = before * 2 >= self.most > self.total * 2
        for each in (connection, *self._queued) if all_may_go_on else (connection,):
            each.read_or_not()

    def _add(self, connection: Connection, size: int) -> None:
        self.total += size
        left = self._queued.get(connection, 0) + size
        if left:
            self._queued[connection] = left
        else:
            self._queued.pop(connection, None)


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
        "_throttle_over",
        "_throttled_until_ms",
        "authentication",
        "closed",
        "heartbeats_of",
        "id",
        "listener",
        "memory",
        "paused",
        "peer_host",
        "principal",
        "waiting",
    )

    def __init__(
        self,
        id: int,
        listener: str,
        peer_host: str,
        effects: list[Effect],
        memory: QueuedBytes | None = None,
    ) -> None:
        self.id = id
        self.listener = listener
        self.peer_host = peer_host
        self.principal: Principal = ANONYMOUS
        """Who the peer is, once it has proved it."""
        self.authentication: Authentication | None = None
        """Where peers have to prove who they are: how far this one has come."""
        self.closed = False
        self.heartbeats_of: int | None = None
        """The broker that says on this connection that it lives."""
        self.paused = False
        """Whether there is too much under way."""
        self._throttled_until_ms = 0
        """0 while it is not throttled."""
        self._throttle_over: Deadline | None = None
        self.waiting: dict[Waiting, None] = {}
        self._slots: deque[Slot] = deque()
        self._effects = effects
        self.memory = memory or QueuedBytes()

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
        if len(self._slots) >= UNANSWERED_MAX:
            self.read_or_not()
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
        if self.paused:
            self.read_or_not()

    def read_or_not(self) -> None:
        """Stop reading a peer with too much under way; go on once it is half of that."""
        if self.closed:
            return
        slots, memory = len(self._slots), self.memory
        queued = memory.of(self)
        if not self.paused:
            is_too_much = queued >= memory.most_of_one or memory.is_full
            if slots >= UNANSWERED_MAX or (queued and is_too_much):
                self.paused = True
                if not self._throttled_until_ms:
                    self._effects.append(PauseReading(self.id))
        elif slots < RESUME_BELOW and (
            queued == 0 or (queued * 2 < memory.most_of_one and memory.total * 2 < memory.most)
        ):
            self.paused = False
            if not self._throttled_until_ms:
                self._effects.append(ResumeReading(self.id))

    def throttle(self, now: Now, time_ms: int, deadlines: Deadlines) -> None:
        """Do not read the peer for this time; the longest counts if there are several."""
        until_ms = now.monotonic_ms + time_ms
        if self.closed or until_ms <= self._throttled_until_ms:
            return
        if not (self.paused or self._throttled_until_ms):
            self._effects.append(PauseReading(self.id))
        self._throttled_until_ms = until_ms
        if self._throttle_over is not None:
            self._throttle_over.cancel()
        self._throttle_over = deadlines.at(until_ms, self._throttle_ends)

    def _throttle_ends(self, now: Now) -> None:
        if self.closed or now.monotonic_ms < self._throttled_until_ms:
            return
        self._throttled_until_ms = 0
        if not self.paused:
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
        if self._throttle_over is not None:
            self._throttle_over.cancel()
        waiting, self.waiting = self.waiting, {}
        for parked in waiting:
            parked.cancel()
