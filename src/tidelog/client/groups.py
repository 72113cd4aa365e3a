"""Consumer groups from outside: who is in them, how far they have come, and moving them.

Invariant  Every method either did what it was asked, or raises the broker's refusal in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple, TypeVar

from tidelog.client.blocking import Client
from tidelog.client.coordinators import KeyType, coordinator
from tidelog.client.errors import Answered, RequestRefused, Unreachable, require_accepted
from tidelog.coordinator.groups.consumer_protocol import read_assignment
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.message import RequestMessage, ResponseT
from tidelog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponseMember,
)
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest
from tidelog.protocol.messages.describe_groups import DescribedGroupMember, DescribeGroupsRequest
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

T = TypeVar("T", bound=Answered)
NOT_A_MEMBER: Final = -1
NOT_OF_THIS_PROTOCOL: Final = (ErrorCode.group_id_not_found, ErrorCode.unsupported_version)
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


class ListedGroup(NamedTuple):
    """One group in a listing."""

    group: str
    state: str
    type: str
    protocol: str
    coordinator: int


class GroupMember(NamedTuple):
    """A member and what it reads."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class DescribedGroup(NamedTuple):
    """All that the coordinator knows of a group."""

    group: str
    state: str
    type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]


class Groups:
    """The requests about groups."""

    def __init__(self, client: Client) -> None:
        self._client = client

    # -- looking -------------------------------------------------------------------------------

    def list(self, missed: list[int] | None = None) -> list[ListedGroup]:
        """The groups of all coordinators, in order.

        With `missed`, brokers that do not answer in time are noted there and left out.
        """
        found = []
        for node_id in self._client.retrying(self._client.refresh).brokers:
            try:
                answer = self._client.retrying(partial(self._list_at, node_id))
            except Unreachable:
                if missed is None:
                    raise
                missed.append(node_id)
                continue
            found += [
                ListedGroup(
                    each.group_id,
                    each.group_state,
                    each.group_type or CLASSIC,
                    each.protocol_type,
                    node_id,
                )
                for each in answer.groups
            ]
        return sorted(found)

    def _list_at(self, node_id: int) -> ListGroupsResponse:
        answer = self._client.broker(node_id).call(ListGroupsRequest())
        require_accepted(answer, f"groups of broker {node_id}")
        return answer

    def describe(self, group: str) -> DescribedGroup:
        """What its coordinator knows, whichever protocol it speaks."""
        request = ConsumerGroupDescribeRequest(group_ids=[group])
        try:
            node_id, found = self._ask(group, request, lambda answer: answer.groups[0])
        except RequestRefused as refusal:
            if refusal.code not in NOT_OF_THIS_PROTOCOL:
                raise
            return self._describe_classic(group)
        members = tuple(_consumer(each) for each in found.members)
        return DescribedGroup(
            group, found.group_state, CONSUMER, found.assignor_name, node_id, members
        )

    def _describe_classic(self, group: str) -> DescribedGroup:
        request = DescribeGroupsRequest(groups=[group])
        node_id, found = self._ask(group, request, lambda answer: answer.groups[0])
        members = tuple(_classic_member(each) for each in found.members)
        return DescribedGroup(
            group, found.group_state, CLASSIC, found.protocol_data, node_id, members
        )

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        """Everything that a group has committed, in order."""
        asked = OffsetFetchRequestGroup(
            group_id=group, member_id=None, member_epoch=NOT_A_MEMBER, topics=None
        )
        request = OffsetFetchRequest(
            groups=[asked], group_id=group, topics=None, require_stable=True
        )

        def read(answer: OffsetFetchResponse) -> OffsetFetchResponse | OffsetFetchResponseGroup:
            return answer.groups[0] if answer.groups else answer

        _, found = self._ask(group, request, read)
        committed = {}
        for topic in found.topics:
            name = self._name_of(topic)
            for each in topic.partitions:
                partition = TopicPartition(name, each.partition_index)
                require_accepted(each, f"offset of {partition}")
                committed[partition] = each.committed_offset
        return dict(sorted(committed.items()))

    def _name_of(self, topic: OffsetFetchResponseTopic | OffsetFetchResponseTopics) -> str:
        if isinstance(topic, OffsetFetchResponseTopic) or topic.topic_id is None:
            return topic.name
        by_id = {each.topic_id: each.name for each in self._client.refresh().topics.values()}
        return by_id[topic.topic_id]

    # -- changing ------------------------------------------------------------------------------

    def move(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group that has no members."""
        view = self._client.refresh({each.topic for each in offsets})
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                topic_id=view.topic(name).topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=each.partition,
                        committed_offset=offsets[each],
                        committed_metadata="",
                    )
                    for each in partitions
                ],
            )
            for name, partitions in groupby(sorted(offsets), key=lambda each: each.topic)
        ]
        request = OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=NOT_A_MEMBER, topics=topics
        )

        def read(answer: OffsetCommitResponse) -> OffsetCommitResponsePartition:
            results = [each for topic in answer.topics for each in topic.partitions]
            return next((each for each in results if each.error_code), results[0])

        try:
            self._ask(group, request, read)
        except RequestRefused as refusal:
            if refusal.code is ErrorCode.unknown_member_id:
                why = "the group has members; stop them first"
                raise RequestRefused(ErrorCode.non_empty_group, f"group {group}", why) from refusal
            raise

    def delete(self, group: str) -> None:
        """Forget a group that has no members, and all its offsets."""
        request = DeleteGroupsRequest(groups_names=[group])
        self._ask(group, request, lambda answer: answer.results[0])

    def _ask(
        self, group: str, request: RequestMessage[ResponseT], read: Callable[[ResponseT], T]
    ) -> tuple[int, T]:
        """Ask the group's coordinator, wherever that is by now."""

        def attempt() -> tuple[int, T]:
            found = coordinator(self._client, group, KeyType.GROUP)
            result = read(found.connection.call(request))
            require_accepted(result, f"group {group}")
            return found.node_id, result

        return self._client.retrying(attempt)


def _consumer(member: ConsumerGroupDescribeResponseMember) -> GroupMember:
    partitions = tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    )
    return GroupMember(
        member.member_id, member.instance_id, member.client_id, member.client_host, partitions
    )


def _classic_member(member: DescribedGroupMember) -> GroupMember:
    partitions = tuple(
        TopicPartition(topic.topic, partition)
        for topic in read_assignment(member.member_assignment)
        for partition in topic.partitions
    )
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        partitions,
    )
