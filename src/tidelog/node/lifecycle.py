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

from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from tidelog.controller.brokers import BrokerHeartbeat, BrokerHeartbeatReply, RegisterBroker
from tidelog.controller.image_delta import ImageDelta
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.control.controller_channel import ControllerChannel
from tidelog.node.control.own_registration import registered_endpoints, supported_features
from tidelog.node.core.deadlines import Deadline
from tidelog.node.core.effects import OpenListeners
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.replicas.hosting import Hosting
from tidelog.node.replicas.housekeeping import Housekeeping
from tidelog.observe.events import NodeStarted
from tidelog.storage.log_directory import LogDirectory

JOIN_AGAIN_MS: Final = 100
STARTING_MS: Final = 10
LEAVING_MS: Final = 50
LEAVE_ALONE_MS: Final = 1000
"""So long a broker that leaves looks for a controller to tell, before it goes without."""
HOPELESS: Final = frozenset(
    {
        ErrorCode.inconsistent_cluster_id,
        ErrorCode.invalid_registration,
        ErrorCode.unsupported_version,
        ErrorCode.broker_id_not_registered,
    }
)
"""Refusals that asking again does not change."""
NO_CONTROLLER_YET: Final = frozenset({ErrorCode.not_controller, ErrorCode.network_exception})
"""Refusals by which nobody has decided anything: the next try may find who can."""


class Lifecycle:
    """From the start of the process to its end, as the controller sees it."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        directories: Sequence[LogDirectory],
        control: ControllerChannel,
        hosting: Hosting,
        housekeeping: Housekeeping,
        incarnation: UUID,
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._directories = directories
        self._control = control
        self._hosting = hosting
        self._housekeeping = housekeeping
        self.incarnation = incarnation
        self._join_until_ms = 0
        self._is_loading = self._is_loaded = False
        self._is_serving = False
        self._in_flight = False
        self._next: Deadline | None = None
        self._told_offline: tuple[UUID, ...] = ()
        """The failed directories that the controller was told of."""
        self._left: Callable[[Now], None] | None = None
        self._leave_alone_ms = 0
        self.failure: str | None = None
        """Why this node cannot take part and must stop."""

    @property
    def is_loaded(self) -> bool:
        """Whether all logs are loaded and have their roles."""
        return self._is_loaded

    @property
    def is_serving(self) -> bool:
        """Whether it was unfenced once, so that its listeners are open."""
        return self._is_serving

    @property
    def is_leaving(self) -> bool:
        """Whether it waits until its leaderships have moved to others."""
        return self._left is not None

    # Joining

    def begin(self, now: Now) -> None:
        """Be ready to join: once a controller is known, or to find out why there is none."""
        self._join_until_ms = now.monotonic_ms + self._join_within_ms
        self._next = self._runtime.deadlines.at(now.monotonic_ms + JOIN_AGAIN_MS, self._register)

    def join(self, now: Now) -> None:
        """Ask for a place in the cluster."""
        self._join_until_ms = now.monotonic_ms + self._join_within_ms
        self._register(now)

    @property
    def _join_within_ms(self) -> int:
        return self._cluster.config.initial_broker_registration_timeout_ms

    def _register(self, now: Now) -> None:
        registration = RegisterBroker(
            broker_id=self._cluster.node_id,
            cluster_id=self._cluster.cluster_id,
            incarnation_id=self.incarnation,
            endpoints=registered_endpoints(
                self._cluster.config, self._cluster.config.advertised_endpoints
            ),
            features=supported_features(),
            rack=self._cluster.config.broker_rack,
            log_dirs=tuple(
                sorted(directory.identity.directory_id for directory in self._directories)
            ),
            previous_broker_epoch=self._hosting.previous_broker_epoch,
        )
        self._in_flight = True
        self._next = None
        self._control.register_broker(now, registration, self._registered)

    def _registered(self, outcome: int | Refusal, now: Now) -> None:
        self._in_flight = False
        if not isinstance(outcome, Refusal):
            self._cluster.broker_epoch = outcome
            self._load_if_caught_up(now)
            self._heartbeat(now)
        elif outcome.code in HOPELESS:
            self.failure = f"the cluster refused this broker: {outcome.why}"
        elif now.monotonic_ms >= self._join_until_ms:
            self.failure = f"this broker could not join the cluster in time: {outcome.why}"
            if outcome.code is ErrorCode.duplicate_broker_registration:
                self.failure += f"; another process with node.id={self._cluster.node_id} is in it"
        else:
            self._next = self._runtime.deadlines.at(
                now.monotonic_ms + self._ask_again_ms(outcome), self._register
            )

    def _ask_again_ms(self, refusal: Refusal) -> int:
        if refusal.code in NO_CONTROLLER_YET:
            return self._cluster.config.controller_quorum_retry_backoff_ms
        return min(JOIN_AGAIN_MS, self._cluster.config.broker_heartbeat_interval_ms)

    def controller_changed(self, now: Now) -> None:
        """Another controller leads: let it hear from us, rather than wait until we are due."""
        due, self._next = self._next, None
        if due is None or due.action is None or self.failure is not None:
            return
        action = due.action
        due.cancel()
        action(now)

    # Following the metadata

    def metadata_changed(self, delta: ImageDelta, now: Now) -> None:
        """The image holds something new, perhaps about this broker."""
        if self._cluster.node_id in delta.brokers:
            self._load_if_caught_up(now)
            self._serve_if_unfenced()

    def _load_if_caught_up(self, now: Now) -> None:
        own = self._cluster.image.brokers.get(self._cluster.node_id)
        if self._is_loading or own is None or own.broker_epoch != self._cluster.broker_epoch:
            return
        self._is_loading = True
        self._hosting.load(now, self._loaded)

    def _loaded(self, now: Now) -> None:
        self._housekeeping.start(now)
        self._is_loaded = True
        self._serve_if_unfenced()
        if not self._in_flight and self.failure is None:
            self._heartbeat(now)

    def _serve_if_unfenced(self) -> None:
        own = self._cluster.image.brokers.get(self._cluster.node_id)
        if (
            self._is_serving
            or not self._is_loaded
            or own is None
            or own.broker_epoch != self._cluster.broker_epoch
            or own.fenced
        ):
            return
        self._is_serving = True
        self._runtime.effects.append(
            OpenListeners(
                tuple(endpoint.name for endpoint in self._cluster.config.broker_endpoints)
            )
        )
        self._runtime.announce(
            NodeStarted(
                cluster_id=self._cluster.cluster_id,
                roles=self._cluster.config.process_roles,
                cause=f"unfenced in broker epoch {self._cluster.broker_epoch}",
            )
        )

    # Living

    def hung_up(self, now: Now) -> None:
        """The connection of our heartbeats is gone: let the controller hear from us at once."""
        if not self._in_flight and self._cluster.broker_epoch >= 0:
            self._heartbeat(now)

    def tell_failures(self, now: Now) -> None:
        """Let the controller hear of failed directories before the next heartbeat is due."""
        if self._has_failures and not self._in_flight and self._cluster.broker_epoch >= 0:
            self._heartbeat(now)

    @property
    def _has_failures(self) -> bool:
        """Whether directories have failed that the controller was not told of."""
        return self._hosting.offline_directories() != self._told_offline

    def _heartbeat(self, now: Now) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        heartbeat = BrokerHeartbeat(
            broker_id=self._cluster.node_id,
            broker_epoch=self._cluster.broker_epoch,
            metadata_offset=self._cluster.image.end_offset - 1,
            want_fence=not self._is_loaded,
            want_shut_down=self._left is not None,
            offline_log_dirs=self._hosting.offline_directories(),
        )
        self._told_offline = heartbeat.offline_log_dirs
        self._in_flight = True
        self._control.heartbeat(now, heartbeat, self._heard)

    def _heard(self, outcome: BrokerHeartbeatReply | Refusal, now: Now) -> None:
        self._in_flight = False
        if self.failure is not None:
            return
        if isinstance(outcome, BrokerHeartbeatReply):
            if self._left is not None and outcome.should_shut_down:
                self._left(now)
                return
            self._serve_if_unfenced()
        elif self._left is not None and outcome.code in NO_CONTROLLER_YET:
            if now.monotonic_ms >= self._leave_alone_ms:
                self._left(now)
                return
        elif outcome.code is ErrorCode.network_exception:
            self._heartbeat(now)  # it waits for a connection on its own
            return
        elif outcome.code is ErrorCode.stale_broker_epoch and self._left is None:
            self.join(now)
            return
        pause_ms = self._pause_ms
        if isinstance(outcome, Refusal) and outcome.code in NO_CONTROLLER_YET:
            pause_ms = min(pause_ms, self._cluster.config.controller_quorum_retry_backoff_ms)
        self._next = self._runtime.deadlines.at(now.monotonic_ms + pause_ms, self._heartbeat)

    @property
    def _pause_ms(self) -> int:
        if self._left is not None:
            return LEAVING_MS
        if self._has_failures:
            return min(STARTING_MS, self._cluster.config.broker_heartbeat_interval_ms)
        interval_ms = self._cluster.config.broker_heartbeat_interval_ms
        return interval_ms if self._is_serving else min(STARTING_MS, interval_ms)

    # Leaving

    def leave(self, now: Now, left: Callable[[Now], None]) -> None:
        """Let our leaderships move to others, if there are any; then, or in time, call `left`."""
        others = any(
            other.active
            for other in self._cluster.image.brokers.values()
            if other.broker_id != self._cluster.node_id
        )
        if (
            not self._is_serving
            or not others
            or not self._cluster.config.controlled_shutdown_enable
        ):
            left(now)
            return
        has_left = False

        def once(later: Now) -> None:
            nonlocal has_left
            if not has_left:
                has_left = True
                left(later)

        self._left = once
        self._leave_alone_ms = now.monotonic_ms + LEAVE_ALONE_MS
        # After a whole session without a heartbeat we would be fenced anyway.
        self._runtime.deadlines.at(
            now.monotonic_ms + self._cluster.config.broker_session_timeout_ms, once
        )
        if not self._in_flight:
            self._heartbeat(now)
