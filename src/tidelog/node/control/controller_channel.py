"""The way from a broker to the active controller, wherever that runs.

A broker tells the controller who it is and that it lives, proposes in-sync sets, takes producer
ids, and passes on what clients ask of the controller. Where the controller runs in the same node,
its decisions are taken directly (`LocalController`); elsewhere they travel in Kafka's own requests
over links (`RemoteController`).

Invariant  `then` is called exactly once: with what the controller decided, once that is committed,
           or with a `Refusal`. `network_exception` means that nobody can tell whether the
           controller did what it was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar
from uuid import UUID

from tidelog.controller.alter_partition import AlteredTopics, IsrProposal
from tidelog.controller.brokers import BrokerHeartbeat, BrokerHeartbeatReply, RegisterBroker
from tidelog.controller.controller import Controller
from tidelog.controller.directories import AssignedReplicas, ReplicaDirectory
from tidelog.controller.result import ControllerResult
from tidelog.controller.topics import NewTopic
from tidelog.model.errors import Refusal
from tidelog.model.time import Now
from tidelog.node.core.request import Answer, Reply, Request

R = TypeVar("R")
Proposals: TypeAlias = Sequence[tuple[UUID, Sequence[IsrProposal]]]
"""By topic id, what the leader of each partition wants its in-sync set to be."""


class ControllerChannel(Protocol):
    """What a broker asks of the active controller."""

    @property
    def leader_id(self) -> int:
        """The active controller, as far as this node knows; -1 when it knows none."""
        ...

    def register_broker(
        self, now: Now, registration: RegisterBroker, then: Callable[[int | Refusal, Now], None]
    ) -> None:
        """Join the cluster; the answer is the broker's epoch."""
        ...

    def heartbeat(
        self,
        now: Now,
        heartbeat: BrokerHeartbeat,
        then: Callable[[BrokerHeartbeatReply | Refusal, Now], None],
    ) -> None:
        """Say that this broker lives, and hear where the controller sees it."""
        ...

    def alter_partitions(
        self, now: Now, proposals: Proposals, then: Callable[[AlteredTopics | Refusal, Now], None]
    ) -> None:
        """Propose in-sync sets of partitions this broker leads; the broker's epoch is added.

        The answer has an outcome for each proposal: the partition afterwards, or a refusal.
        """
        ...

    def allocate_producer_ids(self, now: Now, then: Callable[[range | Refusal], None]) -> None:
        """A block of producer ids for this broker."""
        ...

    def assign_directories(
        self,
        now: Now,
        places: Sequence[ReplicaDirectory],
        then: Callable[[AssignedReplicas | Refusal, Now], None],
    ) -> None:
        """Say in which directories replicas of this broker lie; the broker's epoch is added."""
        ...

    def create_topics(
        self, now: Now, wishes: Sequence[NewTopic], then: Callable[[dict[str, Refusal]], None]
    ) -> None:
        """Create topics that brokers need; those that could not be created, and why."""
        ...

    def decide(
        self,
        request: Request[Any],
        decide: Callable[[Controller], ControllerResult[R]],
        answer: Callable[[R], Answer],
        refused: Callable[[Refusal], Answer],
        why: str = "",
    ) -> Reply:
        """Answer a client by a decision of the controller: made here, or where it is passed on.

        `why` is told as the cause of what the decision does to brokers.
        """
        ...
