"""Which brokers the active controller has heard of lately; gone when it loses leadership.

Invariant  A broker is fenced only after its whole session has passed since it was last heard of,
           or the grace time since its heartbeat connection closed (C17).
Invariant  A broker that was gone counts as hard to reach for a grace time after its return; a new
           active controller, which was not there to see who returned, takes everyone for such.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class BrokerSession:
    """What the controller knows about a broker beyond the log."""

    deadline_ms: int
    """On the monotonic clock: not heard of until then, it is fenced."""
    heard_of: bool = False
    """Whether the broker spoke to this very controller; without that, a process that takes its
    place after a restart of both is not held up."""
    metadata_offset: int = -1
    """The last metadata offset it said it has applied."""
    shutdown_offset: int | None = None
    """Where its controlled shutdown stands in the log, while it is in one."""
    hung_up: bool = False
    """Its heartbeat connection closed, and it was not heard of since."""
    is_known_to_clients: bool = True
    """Whether it was in the cluster before, so that clients may have tried it in vain."""
    hard_to_reach_until_ms: int = 0
    """On the monotonic clock: until then clients may not have tried it again."""


class BrokerSessions:
    """The sessions by broker."""

    def __init__(
        self, *, timeout_ms: int, disconnect_grace_ms: int, reconnect_grace_ms: int = 0
    ) -> None:
        self._timeout_ms = timeout_ms
        self._disconnect_grace_ms = disconnect_grace_ms
        self._reconnect_grace_ms = reconnect_grace_ms
        self._sessions: dict[int, BrokerSession] = {}

    def restart(self, broker_ids: Iterable[int], now_ms: int) -> None:
        """A new active controller gives every broker a whole session."""
        self._sessions = {
            broker_id: BrokerSession(
                now_ms + self._timeout_ms,
                hard_to_reach_until_ms=now_ms + self._reconnect_grace_ms,
            )
            for broker_id in broker_ids
        }

    def begin(self, broker_id: int, now_ms: int, *, is_known_to_clients: bool = True) -> None:
        """A broker registered as a new incarnation."""
        self._sessions[broker_id] = BrokerSession(
            now_ms + self._timeout_ms, heard_of=True, is_known_to_clients=is_known_to_clients
        )

    def unfenced(self, broker_id: int, now_ms: int) -> None:
        """A broker is about to serve clients, who may have tried it in vain."""
        session = self._sessions.get(broker_id)
        if session is None:
            return
        if session.is_known_to_clients:
            session.hard_to_reach_until_ms = now_ms + self._reconnect_grace_ms
        session.is_known_to_clients = True

    def hard_to_reach(self, now_ms: int) -> dict[int, int]:
        """The brokers that clients may not have tried again, and until when."""
        return {
            broker_id: session.hard_to_reach_until_ms
            for broker_id, session in self._sessions.items()
            if session.hard_to_reach_until_ms > now_ms
        }

    def touch(self, broker_id: int, now_ms: int) -> BrokerSession:
        """A broker was heard of."""
        session = self._sessions.get(broker_id)
        if session is None:
            session = self._sessions[broker_id] = BrokerSession(0)
        session.deadline_ms = now_ms + self._timeout_ms
        session.heard_of = True
        session.hung_up = False
        return session

    def applied(self, broker_id: int, metadata_offset: int) -> None:
        """A broker is seen to have applied the metadata up to an offset; no sign of its life."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.metadata_offset = max(session.metadata_offset, metadata_offset)

    def disconnected(self, broker_id: int, now_ms: int) -> None:
        """The connection a broker sends its heartbeats on closed: evidence that it is gone."""
        session = self._sessions.get(broker_id)
        if session is not None and self._disconnect_grace_ms > 0:
            deadline_ms = now_ms + self._disconnect_grace_ms
            session.deadline_ms = min(session.deadline_ms, deadline_ms)
            session.hung_up = True

    def end(self, broker_id: int) -> None:
        """A broker is no longer registered."""
        self._sessions.pop(broker_id, None)

    def is_live(self, broker_id: int, now_ms: int) -> bool:
        """Whether a broker was heard of within its session."""
        session = self._sessions.get(broker_id)
        return session is not None and session.heard_of and now_ms < session.deadline_ms

    def overdue(self, broker_ids: Iterable[int], now_ms: int) -> int | None:
        """Of these brokers the one that has been overdue for the longest."""
        late = [
            (session.deadline_ms, broker_id)
            for broker_id in broker_ids
            if (session := self._sessions.get(broker_id)) and session.deadline_ms <= now_ms
        ]
        return min(late)[1] if late else None

    def why_overdue(self, broker_id: int) -> str:
        """What an overdue broker has not done, in words."""
        session = self._sessions.get(broker_id)
        if session is not None and session.hung_up:
            grace_ms = self._disconnect_grace_ms
            return f"closed its connection and did not come back within {grace_ms} ms"
        return f"was not heard of for {self._timeout_ms} ms"

    def next_deadline_ms(self, broker_ids: Iterable[int]) -> int | None:
        """When the next of these brokers would be overdue."""
        return min(
            (
                self._sessions[broker_id].deadline_ms
                for broker_id in broker_ids
                if broker_id in self._sessions
            ),
            default=None,
        )

    def lowest_metadata_offset(self, broker_ids: Iterable[int]) -> int | None:
        """How far the slowest of these brokers has applied the metadata."""
        return min(
            (
                session.metadata_offset
                for broker_id in broker_ids
                if (session := self._sessions.get(broker_id)) is not None
            ),
            default=None,
        )
