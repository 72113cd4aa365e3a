"""ConsumerGroupHeartbeat (key 68, versions 0-1): be a member of the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from tidelog.controller.features import GROUP_VERSION
from tidelog.coordinator.groups.consumer.messages import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    invalid,
)
from tidelog.coordinator.groups.topics import IdPartition
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.authorization import GROUP_DENIED, TOPIC_DENIED
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from tidelog.security.acls import AclOperation, ResourceType


def handle(
    context: GroupsContext, request: Request[ConsumerGroupHeartbeatRequest]
) -> ConsumerGroupHeartbeatResponse | Later:
    """Join, stay or leave; hear what to read."""
    if not context.cluster.image.features.get(GROUP_VERSION):
        why = "The cluster's group.version does not have the consumer protocol."
        return _refused(Refusal(ErrorCode.unsupported_version, why))
    denied = _denied(context, request)
    if denied is not None:
        return _refused(denied)
    beat = _heartbeat(request)
    refusal = invalid(beat, request.api_version, context.cluster.config.group_consumer_assignors)
    if refusal is not None:
        return _refused(refusal)
    if context.authorization.authorizer is not None:
        beat = beat._replace(
            may_describe=lambda topic: context.authorization.allows(
                request, AclOperation.DESCRIBE, ResourceType.TOPIC, topic, quietly=True
            )
        )
    if not beat.member_id:
        beat = beat._replace(member_id=str(context.runtime.entropy.uuid()))
    later = request.park()

    def answer(outcome: ConsumerGroupHeartbeatReply | Refusal) -> None:
        request.answer(_refused(outcome) if isinstance(outcome, Refusal) else _response(outcome))

    context.groups.ask(
        request.now,
        beat.group_id,
        lambda shard: shard.consumer_heartbeat(beat, request.now),
        answer,
    )
    return later


def _denied(
    context: GroupsContext, request: Request[ConsumerGroupHeartbeatRequest]
) -> Refusal | None:
    """Whether the group may not be read, or one of the topics that are named not be described."""
    body, authorization = request.body, context.authorization
    if not authorization.allows(request, AclOperation.READ, ResourceType.GROUP, body.group_id):
        return GROUP_DENIED
    names = body.subscribed_topic_names or ()
    if authorization.denied(request, AclOperation.DESCRIBE, ResourceType.TOPIC, names):
        return TOPIC_DENIED
    return None


def _heartbeat(request: Request[ConsumerGroupHeartbeatRequest]) -> ConsumerGroupHeartbeat:
    body = request.body
    names, owned = body.subscribed_topic_names, body.topic_partitions
    return ConsumerGroupHeartbeat(
        group_id=body.group_id,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        subscribed_topic_names=None if names is None else tuple(names),
        subscribed_topic_regex=body.subscribed_topic_regex,
        server_assignor=body.server_assignor,
        owned=None if owned is None else _owned(owned),
        client_id=request.client_id or "",
        client_host=f"/{request.client_host}",
    )


def _owned(
    topics: Iterable[ConsumerGroupHeartbeatRequestTopicPartitions],
) -> frozenset[IdPartition]:
    return frozenset(
        IdPartition(topic.topic_id or ZERO_UUID, partition)
        for topic in topics
        for partition in topic.partitions
    )


def _refused(refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=refusal.why)


def _response(reply: ConsumerGroupHeartbeatReply) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None if reply.assignment is None else _assignment(reply.assignment),
    )


def _assignment(partitions: Iterable[IdPartition]) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(
                topic_id=topic_id, partitions=[each.partition for each in of_topic]
            )
            for topic_id, of_topic in groupby(sorted(partitions), key=lambda each: each.topic_id)
        ]
    )
