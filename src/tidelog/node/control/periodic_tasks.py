"""What the active controller does by the clock: watch sessions, balance leaders, stay audible.

Invariant  A broker is fenced for its silence only if this node was listening: after a pause of our
           own everybody gets as much more time as we slept. All such time together is at most a
           session, so that a node which is always late fences the dead nevertheless.
Invariant  The end of a connection is evidence that a broker is gone only if it was the newest one
           of the registered incarnation, or the last (L20). As long as heartbeats come on another
           one it is no evidence at all: what a broker has given up may end late, and say something
           late before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from tidelog.controller.brokers import BrokerHeartbeat
from tidelog.controller.controller import Controller
from tidelog.controller.elections import ElectionPass
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import Refusal
from tidelog.model.time import Now
from tidelog.node.core.connections import Connection
from tidelog.node.core.deadlines import Action, Deadline
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.protocol.stored.metadata import NoOpRecord

ASLEEP_MS: Final = 100
"""A look at the sessions that comes this much too late tells that we did not listen."""


R = TypeVar("R")


class DecidingPlane(Protocol):
    """What the tasks need of the control plane whose controller they serve."""

    last_append_ms: int

    def propose(
        self,
        now: Now,
        decide: Callable[[Controller], ControllerResult[R]],
        then: Callable[[R | Refusal, Now], None],
        why: str = "",
    ) -> None: ...

    def append(
        self, records: tuple[MetadataRecord, ...], now: Now, *, atomic: bool = True
    ) -> int: ...


class _HeartbeatConnections:
    """The open connections that brought heartbeats of one incarnation of a broker."""

    def __init__(self, broker_epoch: int) -> None:
        self.broker_epoch: Final = broker_epoch
        self._heard_ms: dict[Connection, int] = {}
        """When the last heartbeat came on each."""

    def heard(self, connection: Connection, now_ms: int) -> None:
        self._heard_ms[connection] = now_ms

    def has_newer(self, connection: Connection) -> bool:
        """Whether the broker has spoken on a connection that it opened later."""
        return any(other.id > connection.id for other in self._heard_ms)

    def closed(self, connection: Connection, now_ms: int, given_up_after_ms: int) -> bool:
        """Whether nothing speaks for the broker any more, now that this one is closed.

        Who gives a connection up has waited for an answer on it first, and said nothing meanwhile.
        """
        if self._heard_ms.pop(connection, None) is None:
            return False
        return all(
            other.id < connection.id and now_ms - heard_ms >= given_up_after_ms
            for other, heard_ms in self._heard_ms.items()
        )


class PeriodicTasks:
    """Built anew each time the controller of this node becomes the active one."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        plane: DecidingPlane,
        controller: Controller,
        now: Now,
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._plane = plane
        self._controller = controller
        self._stopped = False
        self._heartbeats: dict[int, _HeartbeatConnections] = {}
        self._watch: Deadline | None = None
        self._lenient_until_ms = 0
        self._lenient_for_ms = 0
        """How much time all looks that came too late, since the last one in time, have given."""
        config = cluster.config
        idle_ms = config.metadata_max_idle_interval_ms
        if idle_ms > 0:
            self._at(now.monotonic_ms + idle_ms, self._write_when_idle)
        balance_ms = config.leader_imbalance_check_interval_seconds * 1000
        self._at(now.monotonic_ms + balance_ms, self._balance_leaders)
        unclean_ms = config.unclean_leader_election_interval_ms
        self._at(now.monotonic_ms + unclean_ms, self._retry_unclean_elections)

    def stop(self) -> None:
        """The controller is not the active one any more."""
        self._stopped = True

    def _at(self, due_ms: int, action: Action) -> Deadline:
        """Do something later, if the controller is still the active one then."""

        def act(now: Now) -> None:
            if not self._stopped:
                action(now)

        return self._runtime.deadlines.at(due_ms, act)

    # Sessions

    def heard_from(
        self, broker_id: int, broker_epoch: int, connection: Connection, now: Now
    ) -> None:
        """The registered incarnation of a broker spoke on this connection."""
        known = self._heartbeats.get(broker_id)
        if known is None or known.broker_epoch != broker_epoch:
            known = self._heartbeats[broker_id] = _HeartbeatConnections(broker_epoch)
        known.heard(connection, now.monotonic_ms)
        connection.heartbeats_of = broker_id
        self.watch_sessions()

    def is_late(self, heartbeat: BrokerHeartbeat, connection: Connection) -> bool:
        """Whether a broker wanted to be fenced when it said so, and has gone on elsewhere since.

        It asks for that before it has loaded its logs, and never again until it shuts down.
        """
        known = self._heartbeats.get(heartbeat.broker_id)
        is_starting = heartbeat.want_fence and not heartbeat.want_shut_down
        return (
            is_starting
            and known is not None
            and known.broker_epoch == heartbeat.broker_epoch
            and known.has_newer(connection)
        )

    def applied(self, broker_id: int, metadata_offset: int) -> None:
        """A broker follows the log that far: what it would say with its next heartbeat."""
        self._controller.sessions.applied(broker_id, metadata_offset)

    def connection_closed(self, connection: Connection, now: Now) -> None:
        """If nothing speaks for a broker any more, it has a short while to come back."""
        broker_id = connection.heartbeats_of
        known = None if broker_id is None else self._heartbeats.get(broker_id)
        if broker_id is None or known is None:
            return
        given_up_after_ms = self._cluster.config.heartbeat_timeout_ms
        if known.closed(connection, now.monotonic_ms, given_up_after_ms):
            self._controller.broker_disconnected(broker_id, now)
            self.watch_sessions()

    def watch_sessions(self) -> None:
        """Look again when the first session would end; that a later one moved does not matter."""
        due_ms = self._controller.next_deadline_ms
        if due_ms is None:
            return
        due_ms = max(due_ms, self._lenient_until_ms)
        if self._watch is None or due_ms < self._watch.due_ms:
            if self._watch is not None:
                self._watch.cancel()
            self._watch = self._at(due_ms, self._look_at_sessions)

    def _look_at_sessions(self, now: Now) -> None:
        late_ms = 0 if self._watch is None else now.monotonic_ms - self._watch.due_ms
        self._watch = None
        left_ms = self._cluster.config.broker_session_timeout_ms - self._lenient_for_ms
        if late_ms > ASLEEP_MS and left_ms > 0:
            more_ms = min(late_ms, left_ms)
            self._lenient_for_ms += more_ms
            self._lenient_until_ms = now.monotonic_ms + more_ms
            self.watch_sessions()
            return
        if late_ms <= ASLEEP_MS:
            self._lenient_for_ms = 0
        controller = self._controller
        self._note_own_broker(controller, now)
        overdue = controller.sessions.overdue(
            (broker.broker_id for broker in controller.image.brokers.values() if not broker.fenced),
            now.monotonic_ms,
        )
        if overdue is not None:
            why = f"it {controller.sessions.why_overdue(overdue)}"
            self._plane.propose(now, lambda active: active.fence_one_overdue(now), _done, why)
        self.watch_sessions()

    def _note_own_broker(self, controller: Controller, now: Now) -> None:
        """The broker in this node lives, even if its heartbeat waits for a slow disk of ours."""
        node_id = self._cluster.node_id
        own = controller.image.brokers.get(node_id)
        if own is not None and own.broker_epoch == self._cluster.broker_epoch:
            controller.sessions.touch(node_id, now.monotonic_ms)

    # Elections

    def _balance_leaders(self, now: Now) -> None:
        self._pass(now, lambda controller: controller.balance_leaders(now), self._balance_leaders)

    def _retry_unclean_elections(self, now: Now) -> None:
        self._pass(
            now,
            lambda controller: controller.retry_unclean_elections(now),
            self._retry_unclean_elections,
        )

    def _pass(
        self,
        now: Now,
        decide: Callable[[Controller], ControllerResult[ElectionPass]],
        again: Callable[[Now], None],
    ) -> None:
        def passed(outcome: ElectionPass | Refusal, later: Now) -> None:
            if isinstance(outcome, ElectionPass):
                self._at(outcome.next_check_ms, again)

        self._plane.propose(now, decide, passed)

    # Being audible

    def _write_when_idle(self, now: Now) -> None:
        """A record that says nothing, so that whoever follows the log can tell it is alive."""
        idle_ms = self._cluster.config.metadata_max_idle_interval_ms
        self._at(now.monotonic_ms + idle_ms, self._write_when_idle)
        if now.monotonic_ms - self._plane.last_append_ms >= idle_ms:
            self._plane.append((NoOpRecord(),), now)


def _done(outcome: object, now: Now) -> None:
    """The records say it all."""
