"""ConsumerGroupDescribe (key 69, versions 0-1): groups of the consumer protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final

from tidelog.controller.features import GROUP_VERSION
from tidelog.coordinator.groups.listing import DescribedConsumer, DescribedConsumerGroup
from tidelog.coordinator.groups.topics import IdPartition
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.api.describe_groups import OPERATIONS_NOT_ASKED
from tidelog.node.core.authorization import GROUP_DENIED
from tidelog.node.core.promise import gather
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from tidelog.security.acls import AclOperation, ResourceType

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
TOPICS_DENIED: Final = Refusal(
    ErrorCode.topic_authorization_failed,
    "The group has described topic(s) that the client is not authorized to describe.",
)
NO_NAME: Final = Refusal(ErrorCode.invalid_group_id, "a group has a name")


def handle(
    context: GroupsContext, request: Request[ConsumerGroupDescribeRequest]
) -> ConsumerGroupDescribeResponse | Later:
    """Describe each group for itself."""
    group_ids = request.body.group_ids
    if not context.cluster.image.features.get(GROUP_VERSION):
        why = "The cluster's group.version does not have the consumer protocol."
        unsupported = Refusal(ErrorCode.unsupported_version, why)
        refused = [_refused(group_id, unsupported) for group_id in group_ids]
        return ConsumerGroupDescribeResponse(groups=refused)
    later = request.park()
    denied = context.authorization.denied(
        request, AclOperation.DESCRIBE, ResourceType.GROUP, group_ids
    )

    def answer(outcomes: list[DescribedConsumerGroup | Refusal]) -> None:
        groups = [
            _refused(group_id, outcome)
            if isinstance(outcome, Refusal)
            else _seen(context, request, _group(context, request, group_id, outcome))
            for group_id, outcome in zip(group_ids, outcomes, strict=True)
        ]
        request.answer(ConsumerGroupDescribeResponse(groups=groups))

    def ask(group_id: str, then: Callable[[DescribedConsumerGroup | Refusal], None]) -> None:
        if group_id in denied or not group_id:
            then(GROUP_DENIED if group_id in denied else NO_NAME)
            return
        context.groups.ask(
            request.now, group_id, lambda shard: shard.describe_consumer_group(group_id), then
        )

    gather(group_ids, ask, answer)
    return later


def _refused(group_id: str, refusal: Refusal) -> ConsumerGroupDescribeResponseDescribedGroup:
    return ConsumerGroupDescribeResponseDescribedGroup(
        error_code=refusal.code,
        error_message=refusal.why,
        group_id=group_id,
        authorized_operations=OPERATIONS_NOT_ASKED,
    )


def _seen(
    context: GroupsContext,
    request: Request[ConsumerGroupDescribeRequest],
    group: ConsumerGroupDescribeResponseDescribedGroup,
) -> ConsumerGroupDescribeResponseDescribedGroup:
    """The group, if its client may describe every topic that its members read."""
    if context.authorization.authorizer is None:
        return group
    names = (
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    )
    if context.authorization.denied(request, AclOperation.DESCRIBE, ResourceType.TOPIC, names):
        return _refused(group.group_id, TOPICS_DENIED)
    return group


def _group(
    context: GroupsContext,
    request: Request[ConsumerGroupDescribeRequest],
    group_id: str,
    group: DescribedConsumerGroup,
) -> ConsumerGroupDescribeResponseDescribedGroup:
    operations = OPERATIONS_NOT_ASKED
    if request.body.include_authorized_operations:
        operations = context.authorization.operations(request, ResourceType.GROUP, group_id)
    return ConsumerGroupDescribeResponseDescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=[_member(context, member) for member in group.members],
        authorized_operations=operations,
    )


def _member(
    context: GroupsContext, member: DescribedConsumer
) -> ConsumerGroupDescribeResponseMember:
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        subscribed_topic_regex=member.expression,
        assignment=_assignment(context, member.assigned),
        target_assignment=_assignment(context, member.target),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(
    context: GroupsContext, partitions: Iterable[IdPartition]
) -> ConsumerGroupDescribeResponseAssignment:
    """Partitions of topics that still exist."""
    return ConsumerGroupDescribeResponseAssignment(
        topic_partitions=[
            ConsumerGroupDescribeResponseTopicPartitions(
                topic_id=topic_id,
                topic_name=name,
                partitions=[each.partition for each in of_topic],
            )
            for topic_id, of_topic in groupby(sorted(partitions), key=lambda each: each.topic_id)
            if (name := context.cluster.topic_name(topic_id)) is not None
        ]
    )
