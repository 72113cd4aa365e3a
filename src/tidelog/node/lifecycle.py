"""A broker's life in its cluster: register, catch up, load its logs, be unfenced, leave.

    joining       the controller is asked for a broker epoch, again and again
    catching up   until the metadata holds our own registration; we ask to stay fenced
    starting      the logs are loaded; we ask to be unfenced
    serving       the listeners are open
    leaving       our leaderships move to others; until the controller lets us go

Invariant  A process is a new incarnation; it serves nobody before the controller has unfenced it.
Invariant  Logs are loaded once the metadata holds our own registration, so that what lies on disk
           is judged by what the cluster knows.
Invariant  One heartbeat is under way at a time, or a pause before the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.controller.brokers import Heartbeat, HeartbeatReply, Registration
from tidelog.controller.controllers import ControllerJoining
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.records import Endpoint
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.deadlines import Deadline
from tidelog.node.effects import OpenListeners
from tidelog.node.hosting import Hosting
from tidelog.node.housekeeping import Housekeeping
from tidelog.node.opening import registered_endpoints, supported_features
from tidelog.observe.events import NodeStarted

JOIN_AGAIN_MS: Final = 100
STARTING_MS: Final = 10
LEAVING_MS: Final = 50
HOPELESS: Final = frozenset(
    {
        ErrorCode.inconsistent_cluster_id,
        ErrorCode.invalid_registration,
        ErrorCode.unsupported_version,
        ErrorCode.broker_id_not_registered,
    }
)
"""Refusals that asking again does not change."""


class Lifecycle:
    """From the start of the process to its end, as the controller sees it."""

    def __init__(self, broker: BrokerState, hosting: Hosting, housekeeping: Housekeeping) -> None:
        self._broker = broker
        self._hosting = hosting
        self._housekeeping = housekeeping
        self._incarnation = broker.entropy.uuid()
        self._join_until_ms = 0
        self._is_loaded = False
        self._is_serving = False
        self._in_flight = False
        self._next: Deadline | None = None
        self._left: Callable[[Now], None] | None = None
        self.failure: str | None = None
        """Why this node cannot take part and must stop."""

    @property
    def controller_endpoints(self) -> tuple[Endpoint, ...]:
        """Where other controllers would find us."""
        return registered_endpoints(self._broker.config.controller_endpoints)

    # Joining

    def controller_is_active(self, now: Now) -> None:
        """The first thing to tell a controller in this node is who we are."""
        broker = self._broker
        joining = ControllerJoining(
            broker.node_id, self._incarnation, self.controller_endpoints, supported_features()
        )

        def joined(outcome: Refusal | None, later: Now) -> None:
            if outcome is not None:
                self.failure = f"the controller could not be registered: {outcome.why}"

        broker.control_plane.propose(
            now, lambda controller: controller.register_controller(joining), joined
        )
        self.join(now)

    def join(self, now: Now) -> None:
        """Begin to ask for a place in the cluster."""
        timeout_ms = self._broker.config.initial_broker_registration_timeout_ms
        self._join_until_ms = now.monotonic_ms + timeout_ms
        self._register(now)

    def _register(self, now: Now) -> None:
        broker = self._broker
        registration = Registration(
            broker_id=broker.node_id,
            cluster_id=broker.cluster_id,
            incarnation_id=self._incarnation,
            endpoints=registered_endpoints(broker.config.advertised_endpoints),
            features=supported_features(),
            rack=broker.config.broker_rack,
            log_dirs=tuple(
                sorted(directory.identity.directory_id for directory in broker.directories)
            ),
            previous_broker_epoch=self._hosting.previous_broker_epoch,
        )
        self._in_flight = True
        broker.control.register_broker(now, registration, self._registered)

    def _registered(self, outcome: int | Refusal, now: Now) -> None:
        self._in_flight = False
        if not isinstance(outcome, Refusal):
            self._broker.broker_epoch = outcome
            self._load_if_caught_up(now)
            self._heartbeat(now)
        elif outcome.code in HOPELESS:
            self.failure = f"the cluster refused this broker: {outcome.why}"
        elif now.monotonic_ms >= self._join_until_ms:
            self.failure = f"this broker could not join the cluster in time: {outcome.why}"
        else:
            wait_ms = min(JOIN_AGAIN_MS, self._broker.config.broker_heartbeat_interval_ms)
            self._next = self._broker.deadlines.at(now.monotonic_ms + wait_ms, self._register)

    # Following the metadata

    def metadata_changed(self, delta: ImageDelta, now: Now) -> None:
        """The image holds something new, perhaps about this broker."""
        if self._broker.node_id in delta.brokers:
            was_loaded = self._is_loaded
            self._load_if_caught_up(now)
            self._serve_if_unfenced()
            if self._is_loaded and not was_loaded and not self._in_flight:
                self._heartbeat(now)

    def _load_if_caught_up(self, now: Now) -> None:
        broker = self._broker
        own = broker.image.brokers.get(broker.node_id)
        if self._is_loaded or own is None or own.broker_epoch != broker.broker_epoch:
            return
        self._hosting.load(now)
        self._housekeeping.start(now)
        self._is_loaded = True

    def _serve_if_unfenced(self) -> None:
        broker = self._broker
        own = broker.image.brokers.get(broker.node_id)
        if (
            self._is_serving
            or not self._is_loaded
            or own is None
            or own.broker_epoch != broker.broker_epoch
            or own.fenced
        ):
            return
        self._is_serving = True
        broker.effects.append(
            OpenListeners(tuple(endpoint.name for endpoint in broker.config.endpoints))
        )
        broker.announce(
            NodeStarted(
                node_id=broker.node_id,
                cluster_id=broker.cluster_id,
                roles=broker.config.process_roles,
                cause=f"unfenced in broker epoch {broker.broker_epoch}",
            )
        )

    # Living

    def hung_up(self, now: Now) -> None:
        """The connection of our heartbeats is gone: let the controller hear from us at once."""
        if not self._in_flight and self._broker.broker_epoch >= 0:
            self._heartbeat(now)

    def _heartbeat(self, now: Now) -> None:
        broker = self._broker
        if self._next is not None:
            self._next.cancel()
            self._next = None
        heartbeat = Heartbeat(
            broker_id=broker.node_id,
            broker_epoch=broker.broker_epoch,
            metadata_offset=broker.image.end_offset - 1,
            want_fence=not self._is_loaded,
            want_shut_down=self._left is not None,
            offline_log_dirs=self._hosting.offline_directories(),
        )
        self._in_flight = True
        broker.control.heartbeat(now, heartbeat, self._heard)

    def _heard(self, outcome: HeartbeatReply | Refusal, now: Now) -> None:
        self._in_flight = False
        if self.failure is not None:
            return
        if isinstance(outcome, HeartbeatReply):
            if self._left is not None and outcome.should_shut_down:
                self._left(now)
                return
            self._serve_if_unfenced()
        elif outcome.code is ErrorCode.network_exception:
            self._heartbeat(now)  # it waits for a connection on its own
            return
        elif outcome.code is ErrorCode.stale_broker_epoch and self._left is None:
            self.join(now)
            return
        pause_ms = self._pause_ms
        self._next = self._broker.deadlines.at(now.monotonic_ms + pause_ms, self._heartbeat)

    @property
    def _pause_ms(self) -> int:
        if self._left is not None:
            return LEAVING_MS
        interval_ms = self._broker.config.broker_heartbeat_interval_ms
        return interval_ms if self._is_serving else min(STARTING_MS, interval_ms)

    # Leaving

    def leave(self, now: Now, left: Callable[[Now], None]) -> None:
        """Let our leaderships move to others, if there are any; then, or in time, call `left`."""
        broker = self._broker
        others = any(
            other.active
            for other in broker.image.brokers.values()
            if other.broker_id != broker.node_id
        )
        if not self._is_serving or not others or not broker.config.controlled_shutdown_enable:
            left(now)
            return
        has_left = False

        def once(later: Now) -> None:
            nonlocal has_left
            if not has_left:
                has_left = True
                left(later)

        self._left = once
        # After a whole session without a heartbeat we would be fenced anyway.
        broker.deadlines.at(now.monotonic_ms + broker.config.broker_session_timeout_ms, once)
        if not self._in_flight:
            self._heartbeat(now)
