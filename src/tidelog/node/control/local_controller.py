"""The channel to a controller in this very node: decisions are taken directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tidelog.controller.alter_partition import AlteredTopics
from tidelog.controller.brokers import BrokerHeartbeat, BrokerHeartbeatReply, RegisterBroker
from tidelog.controller.controller import Controller
from tidelog.controller.directories import AssignedReplicas, ReplicaDirectory
from tidelog.controller.producer_ids import ProducerIdBlock
from tidelog.controller.result import ControllerResult
from tidelog.controller.topics import CreatedTopic, NewTopic
from tidelog.model.errors import Refusal
from tidelog.model.time import Now
from tidelog.node.control.control_plane import ControlPlane
from tidelog.node.control.controller_channel import Proposals
from tidelog.node.control.decision_events import REGISTERED, heartbeat_words
from tidelog.node.core.request import Answer, Reply, Request
from tidelog.node.metadata.cluster_view import ClusterView

R = TypeVar("R")


class LocalController:
    """A `ControllerChannel` that goes nowhere."""

    def __init__(self, cluster: ClusterView, plane: ControlPlane) -> None:
        self._cluster = cluster
        self._plane = plane

    @property
    def leader_id(self) -> int:
        return self._plane.leader_id

    def register_broker(
        self, now: Now, registration: RegisterBroker, then: Callable[[int | Refusal, Now], None]
    ) -> None:
        self._plane.propose(
            now,
            lambda controller: controller.register_broker(
                registration, next_offset=self._plane.next_offset, now=now
            ),
            then,
            REGISTERED,
        )

    def heartbeat(
        self,
        now: Now,
        heartbeat: BrokerHeartbeat,
        then: Callable[[BrokerHeartbeatReply | Refusal, Now], None],
    ) -> None:
        self._plane.propose(
            now,
            lambda controller: controller.broker_heartbeat(
                heartbeat, next_offset=self._plane.next_offset, now=now
            ),
            then,
            heartbeat_words(heartbeat),
        )

    def alter_partitions(
        self, now: Now, proposals: Proposals, then: Callable[[AlteredTopics | Refusal, Now], None]
    ) -> None:
        node_id, epoch = self._cluster.node_id, self._cluster.broker_epoch
        self._plane.propose(
            now, lambda controller: controller.alter_partition(node_id, epoch, proposals), then
        )

    def allocate_producer_ids(self, now: Now, then: Callable[[range | Refusal], None]) -> None:
        def allocated(outcome: ProducerIdBlock | Refusal, later: Now) -> None:
            if isinstance(outcome, ProducerIdBlock):
                then(range(outcome.first, outcome.first + outcome.length))
            else:
                then(outcome)

        node_id, epoch = self._cluster.node_id, self._cluster.broker_epoch
        self._plane.propose(
            now, lambda controller: controller.allocate_producer_ids(node_id, epoch), allocated
        )

    def assign_directories(
        self,
        now: Now,
        places: Sequence[ReplicaDirectory],
        then: Callable[[AssignedReplicas | Refusal, Now], None],
    ) -> None:
        node_id, epoch = self._cluster.node_id, self._cluster.broker_epoch
        self._plane.propose(
            now,
            lambda controller: controller.assign_replicas_to_directories(node_id, epoch, places),
            then,
        )

    def create_topics(
        self, now: Now, wishes: Sequence[NewTopic], then: Callable[[dict[str, Refusal]], None]
    ) -> None:
        def created(
            outcome: list[tuple[str, CreatedTopic | Refusal]] | Refusal, later: Now
        ) -> None:
            if isinstance(outcome, Refusal):
                then({wish.name: outcome for wish in wishes})
            else:
                then({name: result for name, result in outcome if isinstance(result, Refusal)})

        self._plane.propose(now, lambda controller: controller.create_topics(wishes), created)

    def decide(
        self,
        request: Request[Any],
        decide: Callable[[Controller], ControllerResult[R]],
        answer: Callable[[R], Answer],
        refused: Callable[[Refusal], Answer],
        why: str = "",
    ) -> Reply:
        return self._plane.decide(request, decide, answer, refused, why)
