"""The way from a node to the active controller, wherever that runs.

A broker tells the controller who it is and that it lives, proposes in-sync sets, takes producer
ids, and passes on what clients ask of the controller. What is asked, and how it reads as a message,
stands in `calls`; the transports differ in how it gets there. A controller in the same node decides
directly (`ControlPlane`); elsewhere the call travels in Kafka's own requests over links
(`RemoteController`); a node that may be the active one itself chooses (`ActiveController`).

Invariant  `then` is called exactly once: with what the controller decided, once that is committed,
           or with a `Refusal`. `network_exception` means that nobody can tell whether the
           controller did what it was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from tidelog.controller.alter_partition import AlteredTopics
from tidelog.controller.brokers import (
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    RegisterBroker,
    RegisterController,
)
from tidelog.controller.controller import Controller
from tidelog.controller.directories import AssignedReplicas, ReplicaDirectory
from tidelog.controller.producer_ids import ProducerIdBlock
from tidelog.controller.result import ControllerResult
from tidelog.controller.topics import NewTopic
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.control.calls.alter_partition import AlterPartitionCall, Proposals
from tidelog.node.control.calls.assign_replicas import AssignReplicasCall
from tidelog.node.control.calls.broker_heartbeat import BrokerHeartbeatCall
from tidelog.node.control.calls.controller_call import ControllerCall
from tidelog.node.control.calls.create_topics import CreatedTopics, CreateTopicsCall
from tidelog.node.control.calls.producer_ids import AllocateProducerIdsCall
from tidelog.node.control.calls.registration import RegisterBrokerCall, RegisterControllerCall
from tidelog.node.core.request import Later, Request
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.metadata_feed import MetadataFeed
from tidelog.protocol.message import RequestMessage, ResponseMessage

OutcomeT = TypeVar("OutcomeT")
ResponseT = TypeVar("ResponseT", bound=ResponseMessage)

_IMAGE_WITHIN_MS: Final = 1000
"""So long the answer to a client waits for what the controller has done to be seen here."""


class ControllerTransport(Protocol):
    """How a question gets to the active controller, and the answer back."""

    @property
    def leader_id(self) -> int:
        """The active controller, as far as this node knows; -1 when it knows none."""
        ...

    def ask(
        self,
        now: Now,
        call: ControllerCall[ResponseT, OutcomeT],
        then: Callable[[OutcomeT | Refusal, Now], None],
    ) -> None:
        """Let the controller decide on something of this node's own."""
        ...

    def decide(
        self,
        request: Request[RequestMessage[ResponseT]],
        decide: Callable[[Controller], ControllerResult[OutcomeT]],
        answer: Callable[[OutcomeT], ResponseT],
        refused: Callable[[Refusal], ResponseT],
        why: str = "",
    ) -> ResponseT | Later:
        """Answer a client by a decision of the controller: made here, or where it is passed on.

        `why` is told as the cause of what the decision does to brokers.
        """
        ...


class ControllerChannel:
    """What a node asks of the active controller."""

    def __init__(
        self, cluster: ClusterView, metadata: MetadataFeed, transport: ControllerTransport
    ) -> None:
        self._cluster = cluster
        self._metadata = metadata
        self._transport = transport
        self.decide: Final = transport.decide
        """For clients: see `ControllerTransport.decide`."""

    @property
    def leader_id(self) -> int:
        """The active controller, as far as this node knows; -1 when it knows none."""
        return self._transport.leader_id

    def register_broker(
        self, now: Now, registration: RegisterBroker, then: Callable[[int | Refusal, Now], None]
    ) -> None:
        """Join the cluster; the answer is the broker's epoch."""
        self._transport.ask(now, RegisterBrokerCall(registration), then)

    def register_controller(
        self, now: Now, joining: RegisterController, then: Callable[[Refusal | None, Now], None]
    ) -> None:
        """Say who the controller of this node is."""
        self._transport.ask(now, RegisterControllerCall(joining), then)

    def heartbeat(
        self,
        now: Now,
        heartbeat: BrokerHeartbeat,
        then: Callable[[BrokerHeartbeatReply | Refusal, Now], None],
    ) -> None:
        """Say that this broker lives, and hear where the controller sees it."""
        self._transport.ask(now, BrokerHeartbeatCall(heartbeat), then)

    def alter_partitions(
        self, now: Now, proposals: Proposals, then: Callable[[AlteredTopics | Refusal, Now], None]
    ) -> None:
        """Propose in-sync sets of partitions this broker leads; the broker's epoch is added.

        The answer has an outcome for each proposal: the partition afterwards, or a refusal.
        """
        node_id, epoch = self._cluster.node_id, self._cluster.broker_epoch
        self._transport.ask(now, AlterPartitionCall(node_id, epoch, proposals), then)

    def allocate_producer_ids(self, now: Now, then: Callable[[range | Refusal], None]) -> None:
        """A block of producer ids for this broker."""

        def allocated(outcome: ProducerIdBlock | Refusal, later: Now) -> None:
            if isinstance(outcome, ProducerIdBlock):
                then(range(outcome.first, outcome.first + outcome.length))
            else:
                then(outcome)

        node_id, epoch = self._cluster.node_id, self._cluster.broker_epoch
        self._transport.ask(now, AllocateProducerIdsCall(node_id, epoch), allocated)

    def assign_directories(
        self,
        now: Now,
        places: Sequence[ReplicaDirectory],
        then: Callable[[AssignedReplicas | Refusal, Now], None],
    ) -> None:
        """Say in which directories replicas of this broker lie; the broker's epoch is added."""
        node_id, epoch = self._cluster.node_id, self._cluster.broker_epoch
        self._transport.ask(now, AssignReplicasCall(node_id, epoch, places), then)

    def create_topics(
        self, now: Now, topics: Sequence[NewTopic], then: Callable[[dict[str, Refusal]], None]
    ) -> None:
        """Create topics that brokers need; those that could not be created, and why.

        One that somebody else has created is there; what is there is seen in the image of this
        node before `then` is called, unless that takes too long.
        """

        def created(outcome: CreatedTopics | Refusal, later: Now) -> None:
            if isinstance(outcome, Refusal):
                why = _try_again(outcome)
                then({topic.name: why for topic in topics})
                return
            refusals = {
                name: result
                for name, result in outcome
                if isinstance(result, Refusal) and result.code is not ErrorCode.topic_already_exists
            }
            there = {topic.name for topic in topics} - set(refusals)
            self._metadata.once(
                lambda image: there <= image.topics_by_name.keys(),
                later,
                _IMAGE_WITHIN_MS,
                lambda: then(refusals),
            )

        call = CreateTopicsCall(topics, self._cluster.config.request_timeout_ms)
        self._transport.ask(now, call, created)


def _try_again(refusal: Refusal) -> Refusal:
    """That the controller could not be reached, as clients know it."""
    if refusal.code is ErrorCode.network_exception:
        return Refusal(ErrorCode.leader_not_available, refusal.why)
    return refusal
