"""How this broker joins its cluster: register, catch up, load its logs, be unfenced.

Invariant  A process is a new incarnation; it serves nobody before the controller has unfenced it.
Invariant  Logs are loaded once the metadata holds our own registration, so that what lies on disk
           is judged by what the cluster knows.
"""

from __future__ import annotations

from tidelog.controller.brokers import Heartbeat, Registration
from tidelog.controller.controllers import ControllerJoining
from tidelog.controller.features import SUPPORTED_FEATURES
from tidelog.controller.records import Endpoint, FeatureRange
from tidelog.model.errors import ConfigError, Refusal, invariant
from tidelog.model.settings.endpoints import Endpoint as Listener
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.effects import OpenListeners
from tidelog.node.hosting import Hosting
from tidelog.node.housekeeping import Housekeeping
from tidelog.observe.events import NodeStarted

PLAINTEXT = 0


class Lifecycle:
    """From the start of the process to the first client, and the heartbeats from then on."""

    def __init__(self, broker: BrokerState, hosting: Hosting, housekeeping: Housekeeping) -> None:
        self._broker = broker
        self._hosting = hosting
        self._housekeeping = housekeeping
        self._incarnation = broker.entropy.uuid()
        self._broker_epoch = -1
        self._is_serving = False

    @property
    def broker_epoch(self) -> int:
        """The epoch of our registration; -1 before it is known."""
        return self._broker_epoch

    @property
    def controller_endpoints(self) -> tuple[Endpoint, ...]:
        """Where other controllers would find us."""
        return _registered_endpoints(self._broker.config.controller_endpoints)

    def controller_is_active(self, now: Now) -> None:
        """The first thing to tell the controller is who we are."""
        broker = self._broker
        features = tuple(
            FeatureRange(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
        )
        joining = ControllerJoining(
            broker.node_id,
            self._incarnation,
            self.controller_endpoints,
            features,
        )
        broker.control.propose(
            now, lambda controller: controller.register_controller(joining), self._joined
        )
        registration = Registration(
            broker_id=broker.node_id,
            cluster_id=broker.cluster_id,
            incarnation_id=self._incarnation,
            endpoints=_registered_endpoints(broker.config.advertised_endpoints),
            features=features,
            rack=broker.config.broker_rack,
            log_dirs=tuple(
                sorted(directory.identity.directory_id for directory in broker.directories)
            ),
            previous_broker_epoch=self._hosting.previous_broker_epoch,
        )
        broker.control.propose(
            now,
            lambda controller: controller.register_broker(
                registration, next_offset=broker.control.next_offset, now=now
            ),
            self._registered,
        )

    def _joined(self, outcome: Refusal | None, now: Now) -> None:
        if outcome is not None:
            raise ConfigError(f"the controller could not be registered: {outcome.why}")

    def _registered(self, outcome: int | Refusal, now: Now) -> None:
        if isinstance(outcome, Refusal):
            raise ConfigError(f"the cluster refused this broker: {outcome.why}")
        self._broker_epoch = outcome
        self._hosting.load(now)
        self._housekeeping.start(now)
        self._heartbeat(now)
        interval_ms = self._broker.config.broker_heartbeat_interval_ms
        self._broker.deadlines.every(now.monotonic_ms + interval_ms, interval_ms, self._heartbeat)

    def _heartbeat(self, now: Now) -> None:
        broker = self._broker
        heartbeat = Heartbeat(
            broker_id=broker.node_id,
            broker_epoch=self._broker_epoch,
            metadata_offset=broker.image.end_offset - 1,
            want_fence=False,
            want_shut_down=False,
            offline_log_dirs=self._hosting.offline_directories(),
        )
        broker.control.propose(
            now,
            lambda controller: controller.broker_heartbeat(
                heartbeat, next_offset=broker.control.next_offset, now=now
            ),
            lambda outcome, later: self._heard(outcome),
        )

    def _heard(self, outcome: object) -> None:
        invariant(not isinstance(outcome, Refusal), f"our own controller refuses us: {outcome}")
        broker = self._broker
        if not self._is_serving and broker.is_live(broker.node_id):
            self._is_serving = True
            broker.effects.append(
                OpenListeners(tuple(endpoint.name for endpoint in broker.config.endpoints))
            )
            broker.announce(
                NodeStarted(
                    node_id=broker.node_id,
                    cluster_id=broker.cluster_id,
                    roles=broker.config.process_roles,
                    cause=f"unfenced in broker epoch {self._broker_epoch}",
                )
            )


def _registered_endpoints(endpoints: tuple[Listener, ...]) -> tuple[Endpoint, ...]:
    """Where others find us."""
    return tuple(
        Endpoint(
            name=endpoint.name,
            host=endpoint.host or "localhost",
            port=endpoint.port,
            security_protocol=PLAINTEXT,
        )
        for endpoint in endpoints
    )
