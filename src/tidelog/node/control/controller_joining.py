"""A controller process makes itself known: which listeners it has, which features it supports.

Invariant  It asks, again and again, until the log holds the incarnation of this very process.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from tidelog.controller.brokers import RegisterController
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.control.control_plane import ControlPlane
from tidelog.node.control.controller_channel import ControllerChannel
from tidelog.node.control.own_registration import registered_endpoints, supported_features
from tidelog.node.core.deadlines import Deadline
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.controller_locator import ControllerLocator
from tidelog.quorum.control_records import VoterEndpoint

AGAIN_MS: Final = 100


class ControllersJoining:
    """Registers the controller of this node with the active one."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        plane: ControlPlane,
        locator: ControllerLocator,
        control: ControllerChannel,
        endpoints: tuple[VoterEndpoint, ...],
        incarnation: UUID,
    ) -> None:
        """`endpoints` are where the quorum finds this controller."""
        self._runtime = runtime
        self._cluster = cluster
        self._plane = plane
        self._locator = locator
        self._control = control
        self._joining = RegisterController(
            cluster.node_id,
            incarnation,
            registered_endpoints(cluster.config, endpoints),
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
        leads = self._locator.leader_id == self._cluster.node_id
        if not self._plane.is_active and (leads or self._locator.address is None):
            self._wait(now)
        else:
            self._under_way = True
            self._control.register_controller(now, self._joining, self._joined)

    def _joined(self, outcome: Refusal | None, now: Now) -> None:
        self._under_way = False
        if outcome is not None and outcome.code is ErrorCode.unsupported_version:
            self.failure = f"the controller could not be registered: {outcome.why}"
        elif outcome is not None:
            self._wait(now)

    def _wait(self, now: Now) -> None:
        self._again = self._runtime.deadlines.at(now.monotonic_ms + AGAIN_MS, self.join)
