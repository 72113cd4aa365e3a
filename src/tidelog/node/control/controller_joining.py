"""A controller process makes itself known: which listeners it has, which features it supports.

Invariant  It asks, again and again, until the log holds the incarnation of this very process.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from tidelog.controller.brokers import RegisterController
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.control.control_plane import ControlPlane
from tidelog.node.control.own_registration import registered_endpoints, supported_features
from tidelog.node.core.deadlines import Deadline
from tidelog.node.core.links import LinkLost
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.controller_locator import ControllerLocator
from tidelog.protocol.apis import ApiKey
from tidelog.quorum.control_records import VoterEndpoint

VERSION: Final = 0
PURPOSE: Final = "control"
AGAIN_MS: Final = 100


class ControllersJoining:
    """Registers the controller of this node with the active one."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        plane: ControlPlane,
        locator: ControllerLocator,
        endpoints: tuple[VoterEndpoint, ...],
        incarnation: UUID,
    ) -> None:
        """`endpoints` are where the quorum finds this controller."""
        self._runtime = runtime
        self._cluster = cluster
        self._plane = plane
        self._locator = locator
        self._joining = RegisterController(
            cluster.node_id,
            incarnation,
            registered_endpoints(endpoints),
            supported_features(),
        )
        self._again: Deadline | None = None
        self._under_way = False
        self.failure: str | None = None
        """Why this node cannot be a controller of its cluster."""

    def join(self, now: Now) -> None:
        """Ask the active controller, if it does not know this one yet."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        known = self._cluster.image.controllers.get(self._cluster.node_id)
        is_known = known is not None and known.incarnation_id == self._joining.incarnation_id
        if is_known or self._under_way:
            return
        address = self._locator.address
        if self._plane.is_active:
            self._under_way = True
            self._plane.propose(
                now, lambda controller: controller.register_controller(self._joining), self._joined
            )
        elif address is None or self._locator.leader_id == self._cluster.node_id:
            self._wait(now)
        else:
            self._under_way = True
            self._runtime.links.to(address, PURPOSE).ask_fields(
                now,
                ApiKey.CONTROLLER_REGISTRATION,
                VERSION,
                self._fields(),
                self._answered,
                timeout_ms=self._cluster.config.request_timeout_ms,
            )

    def _fields(self) -> dict[str, Any]:
        joining = self._joining
        return {
            "controller_id": joining.controller_id,
            "incarnation_id": joining.incarnation_id,
            "zk_migration_ready": False,
            "listeners": [
                {
                    "name": point.name,
                    "host": point.host,
                    "port": point.port,
                    "security_protocol": point.security_protocol,
                }
                for point in joining.endpoints
            ],
            "features": [
                {
                    "name": feature.name,
                    "min_supported_version": feature.min_supported_version,
                    "max_supported_version": feature.max_supported_version,
                }
                for feature in joining.features
            ],
        }

    def _answered(self, answer: Any, now: Now) -> None:
        if isinstance(answer, LinkLost):
            outcome: Refusal | None = Refusal(ErrorCode.network_exception, answer.reason)
        elif answer.error_code:
            outcome = Refusal(ErrorCode(answer.error_code), answer.error_message or "")
        else:
            outcome = None
        self._joined(outcome, now)

    def _joined(self, outcome: Refusal | None, now: Now) -> None:
        self._under_way = False
        if outcome is not None and outcome.code is ErrorCode.unsupported_version:
            self.failure = f"the controller could not be registered: {outcome.why}"
        elif outcome is not None:
            self._wait(now)

    def _wait(self, now: Now) -> None:
        self._again = self._runtime.deadlines.at(now.monotonic_ms + AGAIN_MS, self.join)
