"""The channel to a controller in another node: Kafka's own requests, over links.

Heartbeats have a link of their own, so that its end tells the controller about ours and nothing
waits behind them; so have requests that clients want passed on, which may take long. One that is
given up stays open until the next has been heard, so that its end tells nobody that we are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from tidelog.controller.alter_partition import AlteredPartition, AlteredTopics
from tidelog.controller.brokers import BrokerHeartbeat, BrokerHeartbeatReply, RegisterBroker
from tidelog.controller.controller import Controller
from tidelog.controller.directories import AssignedReplicas, ReplicaDirectory
from tidelog.controller.result import ControllerResult
from tidelog.controller.topics import NewTopic
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.model.time import Now
from tidelog.node.control.controller_channel import Proposals
from tidelog.node.control.forwarding import Forwarding
from tidelog.node.core.links import LinkLost
from tidelog.node.core.request import Answer, Reply, Request
from tidelog.node.core.runtime import Runtime
from tidelog.node.core.signal import Signal
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.controller_locator import ControllerLocator
from tidelog.node.metadata.metadata_feed import MetadataFeed
from tidelog.protocol.apis import ApiKey
from tidelog.quorum.messages import Address

R = TypeVar("R")
ALLOCATE_PRODUCER_IDS_VERSION: Final = 0
ALTER_PARTITION_VERSION: Final = 3
ASSIGN_DIRECTORIES_VERSION: Final = 0
CREATE_TOPICS_VERSION: Final = 7
HEARTBEAT_VERSION: Final = 1
REGISTRATION_VERSION: Final = 4
HEARTBEAT: Final = "heartbeat"
CONTROL: Final = "control"
RETRY_MS: Final = 20
NOBODY_LEADS: Final = LinkLost("nobody is known to lead the quorum")
_IMAGE_WITHIN_MS: Final = 1000
"""So long the answer to a client waits for what the controller has done to be seen here."""


class RemoteController:
    """A `ControllerChannel` to wherever the quorum's leader is."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        metadata: MetadataFeed,
        locator: ControllerLocator,
        forwarding: Forwarding,
        hung_up: Signal[[Now]],
    ) -> None:
        """`hung_up` tells that the connection of our heartbeats is gone."""
        self._runtime = runtime
        self._cluster = cluster
        self._metadata = metadata
        self._hung_up = hung_up
        self._locator = locator
        self.forwarding = forwarding
        self._heartbeat_timeout_ms = cluster.config.heartbeat_timeout_ms
        self._timeout_ms = cluster.config.request_timeout_ms
        self._address: Address | None = None

    @property
    def leader_id(self) -> int:
        return self._locator.leader_id

    def register_broker(
        self, now: Now, registration: RegisterBroker, then: Callable[[int | Refusal, Now], None]
    ) -> None:
        fields = {
            "broker_id": registration.broker_id,
            "cluster_id": registration.cluster_id,
            "incarnation_id": registration.incarnation_id,
            "listeners": [
                {
                    "name": point.name,
                    "host": point.host,
                    "port": point.port,
                    "security_protocol": point.security_protocol,
                }
                for point in registration.endpoints
            ],
            "features": [
                {
                    "name": feature.name,
                    "min_supported_version": feature.min_supported_version,
                    "max_supported_version": feature.max_supported_version,
                }
                for feature in registration.features
            ],
            "rack": registration.rack,
            "is_migrating_zk_broker": False,
            "log_dirs": list(registration.log_dirs),
            "previous_broker_epoch": registration.previous_broker_epoch,
        }

        def registered(answer: Any, later: Now) -> None:
            refusal = _refusal(answer, "the registration")
            then(answer.broker_epoch if refusal is None else refusal, later)

        self._ask_alive(now, ApiKey.BROKER_REGISTRATION, REGISTRATION_VERSION, fields, registered)

    def heartbeat(
        self,
        now: Now,
        heartbeat: BrokerHeartbeat,
        then: Callable[[BrokerHeartbeatReply | Refusal, Now], None],
    ) -> None:
        fields = {
            "broker_id": heartbeat.broker_id,
            "broker_epoch": heartbeat.broker_epoch,
            "current_metadata_offset": heartbeat.metadata_offset,
            "want_fence": heartbeat.want_fence,
            "want_shut_down": heartbeat.want_shut_down,
            "offline_log_dirs": list(heartbeat.offline_log_dirs),
        }

        def heard(answer: Any, later: Now) -> None:
            refusal = _refusal(answer, "the heartbeat")
            if refusal is not None:
                then(refusal, later)
                return
            reply = BrokerHeartbeatReply(
                is_caught_up=answer.is_caught_up,
                is_fenced=answer.is_fenced,
                should_shut_down=answer.should_shut_down,
            )
            then(reply, later)

        self._ask_alive(now, ApiKey.BROKER_HEARTBEAT, HEARTBEAT_VERSION, fields, heard)

    def alter_partitions(
        self, now: Now, proposals: Proposals, then: Callable[[AlteredTopics | Refusal, Now], None]
    ) -> None:
        fields = {
            "broker_id": self._cluster.node_id,
            "broker_epoch": self._cluster.broker_epoch,
            "topics": [
                {
                    "topic_id": topic_id,
                    "partitions": [
                        {
                            "partition_index": proposal.partition,
                            "leader_epoch": proposal.leader_epoch,
                            "new_isr_with_epochs": [
                                {"broker_id": member.broker_id, "broker_epoch": member.broker_epoch}
                                for member in proposal.isr
                            ],
                            "leader_recovery_state": proposal.recovery_state,
                            "partition_epoch": proposal.partition_epoch,
                        }
                        for proposal in partitions
                    ],
                }
                for topic_id, partitions in proposals
            ],
        }

        def altered(answer: Any, later: Now) -> None:
            refusal = _refusal(answer, "the in-sync sets")
            then(_altered(answer) if refusal is None else refusal, later)

        self._ask(now, ApiKey.ALTER_PARTITION, ALTER_PARTITION_VERSION, fields, altered)

    def allocate_producer_ids(self, now: Now, then: Callable[[range | Refusal], None]) -> None:
        fields = {"broker_id": self._cluster.node_id, "broker_epoch": self._cluster.broker_epoch}

        def allocated(answer: Any, later: Now) -> None:
            refusal = _refusal(answer, "producer ids")
            if refusal is not None:
                then(refusal)
                return
            first = answer.producer_id_start
            then(range(first, first + answer.producer_id_len))

        version = ALLOCATE_PRODUCER_IDS_VERSION
        self._ask(now, ApiKey.ALLOCATE_PRODUCER_IDS, version, fields, allocated)

    def assign_directories(
        self,
        now: Now,
        places: Sequence[ReplicaDirectory],
        then: Callable[[AssignedReplicas | Refusal, Now], None],
    ) -> None:
        fields = {
            "broker_id": self._cluster.node_id,
            "broker_epoch": self._cluster.broker_epoch,
            "directories": [
                {
                    "id_": place.directory_id,
                    "topics": [
                        {
                            "topic_id": place.topic_id,
                            "partitions": [{"partition_index": place.partition}],
                        }
                    ],
                }
                for place in places
            ],
        }

        def assigned(answer: Any, later: Now) -> None:
            then(_refusal(answer, "the directories") or _assigned(answer), later)

        version = ASSIGN_DIRECTORIES_VERSION
        self._ask(now, ApiKey.ASSIGN_REPLICAS_TO_DIRS, version, fields, assigned)

    def create_topics(
        self, now: Now, wishes: Sequence[NewTopic], then: Callable[[dict[str, Refusal]], None]
    ) -> None:
        fields = {
            "topics": [
                {
                    "name": wish.name,
                    "num_partitions": wish.partitions,
                    "replication_factor": wish.replication_factor,
                    "assignments": [],
                    "configs": [
                        {"name": name, "value": value} for name, value in wish.configs.items()
                    ],
                }
                for wish in wishes
            ],
            "timeout": self._timeout_ms,
            "validate_only": False,
        }

        def created(answer: Any, later: Now) -> None:
            if isinstance(answer, LinkLost):
                lost = Refusal(ErrorCode.leader_not_available, answer.reason)
                then({wish.name: lost for wish in wishes})
                return
            refusals = {
                topic.name: Refusal(topic.error_code, topic.error_message or "")
                for topic in answer.topics
                if topic.error_code not in (ErrorCode.none, ErrorCode.topic_already_exists)
            }
            there = {wish.name for wish in wishes} - set(refusals)
            self._metadata.once(
                lambda image: there <= image.topics_by_name.keys(),
                later,
                _IMAGE_WITHIN_MS,
                lambda: then(refusals),
            )

        self._ask(now, ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, fields, created)

    def decide(
        self,
        request: Request[Any],
        decide: Callable[[Controller], ControllerResult[R]],
        answer: Callable[[R], Answer],
        refused: Callable[[Refusal], Answer],
        why: str = "",
    ) -> Reply:
        return self.forwarding.forward(request, refused)

    # Asking

    def _ask_alive(
        self,
        now: Now,
        api_key: ApiKey,
        version: int,
        fields: Mapping[str, Any],
        then: Callable[[Any, Now], None],
    ) -> None:
        self._ask(now, api_key, version, fields, then, HEARTBEAT, self._heartbeat_timeout_ms)

    def _ask(
        self,
        now: Now,
        api_key: ApiKey,
        version: int,
        fields: Mapping[str, Any],
        then: Callable[[Any, Now], None],
        purpose: str = CONTROL,
        timeout_ms: int | None = None,
    ) -> None:
        address = self._locator.address
        if address is None:
            self._runtime.deadlines.at(
                now.monotonic_ms + RETRY_MS, lambda later: then(NOBODY_LEADS, later)
            )
            return
        self._address = address
        link = self._runtime.links.to(address, purpose)
        if purpose == HEARTBEAT:
            link.on_lost = self._hung_up.tell
            link.speaks_for_us = True
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        link.ask_fields(now, api_key, version, fields, then, timeout_ms=timeout_ms)

    def leader_changed(self, now: Now) -> None:
        """Somebody else is to be asked: what is under way to the one before is given up."""
        before, address = self._address, self._locator.address
        if before is not None and address is not None and before != address:
            self._address = address
            for purpose in (HEARTBEAT, CONTROL):
                self._runtime.links.to(before, purpose).close(now, "another controller leads")


def _code(answer: Any) -> ErrorCode:
    return ErrorCode(getattr(answer, "error_code", ErrorCode.none))


def _refusal(answer: Any, what: str) -> Refusal | None:
    """Why there is no good answer; None when there is one."""
    if isinstance(answer, LinkLost):
        return Refusal(ErrorCode.network_exception, answer.reason)
    code = _code(answer)
    if code is ErrorCode.none:
        return None
    return Refusal(code, f"the controller refused {what}: {code.name}")


def _assigned(answer: Any) -> AssignedReplicas:
    return [
        (
            ReplicaDirectory(directory.id_, topic.topic_id, partition.partition_index),
            _refusal(partition, "its directory"),
        )
        for directory in answer.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]


def _altered(answer: Any) -> AlteredTopics:
    return [
        (
            topic.topic_id or ZERO_UUID,
            [(each.partition_index, _altered_partition(each)) for each in topic.partitions],
        )
        for topic in answer.topics
    ]


def _altered_partition(partition: Any) -> AlteredPartition | Refusal:
    code = ErrorCode(partition.error_code)
    if code is not ErrorCode.none:
        return Refusal(code, f"the controller refused the in-sync set: {code.name}")
    return AlteredPartition(
        leader=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=tuple(partition.isr),
        recovery_state=partition.leader_recovery_state,
    )
