"""The channel to the active controller for a node that may have it itself.

Invariant  Whoever leads at the moment of a question is asked. What was asked of somebody who lost
           the lead meanwhile is asked again of the next, if a client asked it, or else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tidelog.controller.alter_partition import AlteredTopics
from tidelog.controller.brokers import BrokerHeartbeat, BrokerHeartbeatReply, RegisterBroker
from tidelog.controller.controller import Controller
from tidelog.controller.directories import AssignedReplicas, ReplicaDirectory
from tidelog.controller.result import ControllerResult
from tidelog.controller.topics import NewTopic
from tidelog.model.errors import Refusal
from tidelog.model.time import Now
from tidelog.node.control.control_plane import ControlPlane
from tidelog.node.control.controller_channel import ControllerChannel, Proposals
from tidelog.node.control.remote_controller import RemoteController
from tidelog.node.core.request import Answer, Later, Reply, Request

R = TypeVar("R")


class ActiveController:
    """A `ControllerChannel` to this node's own controller or to another's."""

    def __init__(
        self,
        plane: ControlPlane,
        local: ControllerChannel,
        remote: RemoteController,
        controller_names: frozenset[str],
    ) -> None:
        """`controller_names` are the listeners on which this very controller is meant."""
        self._plane = plane
        self._local = local
        self._remote = remote
        self._controller_names = controller_names

    @property
    def _current(self) -> ControllerChannel:
        return self._local if self._plane.is_active else self._remote

    @property
    def leader_id(self) -> int:
        return self._plane.leader_id

    def register_broker(
        self, now: Now, registration: RegisterBroker, then: Callable[[int | Refusal, Now], None]
    ) -> None:
        self._current.register_broker(now, registration, then)

    def heartbeat(
        self,
        now: Now,
        heartbeat: BrokerHeartbeat,
        then: Callable[[BrokerHeartbeatReply | Refusal, Now], None],
    ) -> None:
        self._current.heartbeat(now, heartbeat, then)

    def alter_partitions(
        self, now: Now, proposals: Proposals, then: Callable[[AlteredTopics | Refusal, Now], None]
    ) -> None:
        self._current.alter_partitions(now, proposals, then)

    def allocate_producer_ids(self, now: Now, then: Callable[[range | Refusal], None]) -> None:
        self._current.allocate_producer_ids(now, then)

    def assign_directories(
        self,
        now: Now,
        places: Sequence[ReplicaDirectory],
        then: Callable[[AssignedReplicas | Refusal, Now], None],
    ) -> None:
        self._current.assign_directories(now, places, then)

    def create_topics(
        self, now: Now, wishes: Sequence[NewTopic], then: Callable[[dict[str, Refusal]], None]
    ) -> None:
        self._current.create_topics(now, wishes, then)

    def decide(
        self,
        request: Request[Any],
        decide: Callable[[Controller], ControllerResult[R]],
        answer: Callable[[R], Answer],
        refused: Callable[[Refusal], Answer],
        why: str = "",
    ) -> Reply:
        if request.connection.listener in self._controller_names:
            # Who asks on a controller's listener wants this very controller.
            return self._local.decide(request, decide, answer, refused, why)
        if not self._plane.is_active:
            return self._remote.decide(request, decide, answer, refused, why)
        held = self._remote.forwarding.hold(request, refused)
        reply = self._plane.decide(request, decide, answer, refused, why, held.send)
        if not isinstance(reply, Later):
            request.let_go()
        return reply
