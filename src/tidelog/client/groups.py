"""Consumer groups from outside: who is in them, how far they have come, and moving them.

Invariant  Every method either did what it was asked, or raises the broker's refusal in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

from tidelog.client.blocking import Client
from tidelog.client.coordinators import KeyType, coordinator
from tidelog.client.errors import RequestRefused
from tidelog.coordinator.groups.consumer_protocol import read_assignment
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.apis import ApiKey

T = TypeVar("T")
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

    def list(self) -> list[ListedGroup]:
        """The groups of all coordinators, in order."""
        found = []
        for node_id in self._client.retrying(self._client.refresh).brokers:
            answer = self._client.retrying(partial(self._list_at, node_id))
            found += [
                ListedGroup(
                    each.group_id,
                    getattr(each, "group_state", ""),
                    getattr(each, "group_type", CLASSIC),
                    each.protocol_type,
                    node_id,
                )
                for each in answer
            ]
        return sorted(found)

    def _list_at(self, node_id: int) -> Sequence[Any]:
        fields: dict[str, Any] = {"states_filter": [], "types_filter": []}
        answer = self._client.broker(node_id).call(ApiKey.LIST_GROUPS, fields)
        _check(answer, f"groups of broker {node_id}")
        return tuple(answer.groups)

    def describe(self, group: str) -> DescribedGroup:
        """What its coordinator knows, whichever protocol it speaks."""
        fields = {"group_ids": [group], "include_authorized_operations": False}
        try:
            node_id, found = self._ask(
                group, ApiKey.CONSUMER_GROUP_DESCRIBE, fields, lambda answer: answer.groups[0]
            )
        except RequestRefused as refusal:
            if refusal.code not in NOT_OF_THIS_PROTOCOL:
                raise
            return self._describe_classic(group)
        members = tuple(_consumer(each) for each in found.members)
        return DescribedGroup(
            group, found.group_state, CONSUMER, found.assignor_name, node_id, members
        )

    def _describe_classic(self, group: str) -> DescribedGroup:
        fields = {"groups": [group], "include_authorized_operations": False}
        node_id, found = self._ask(
            group, ApiKey.DESCRIBE_GROUPS, fields, lambda answer: answer.groups[0]
        )
        members = tuple(_classic_member(each) for each in found.members)
        return DescribedGroup(
            group, found.group_state, CLASSIC, found.protocol_data, node_id, members
        )

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        """Everything that a group has committed, in order."""
        asked = {"group_id": group, "member_id": None, "member_epoch": NOT_A_MEMBER, "topics": None}
        fields = {"groups": [asked], "group_id": group, "topics": None, "require_stable": True}

        def read(answer: Any) -> Any:
            return answer.groups[0] if hasattr(answer, "groups") else answer

        _, found = self._ask(group, ApiKey.OFFSET_FETCH, fields, read)
        committed = {}
        for topic in found.topics:
            name = self._name_of(topic)
            for each in topic.partitions:
                partition = TopicPartition(name, int(each.partition_index))
                _check(each, f"offset of {partition}")
                committed[partition] = int(each.committed_offset)
        return dict(sorted(committed.items()))

    def _name_of(self, topic: Any) -> str:
        name = getattr(topic, "name", None)
        if name is not None:
            return str(name)
        by_id = {each.topic_id: each.name for each in self._client.refresh().topics.values()}
        return by_id[topic.topic_id]

    # -- changing ------------------------------------------------------------------------------

    def move(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group that has no members."""
        view = self._client.refresh({each.topic for each in offsets})
        topics = [
            {
                "name": name,
                "topic_id": view.topic(name).topic_id,
                "partitions": [
                    {
                        "partition_index": each.partition,
                        "committed_offset": offsets[each],
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                    for each in partitions
                ],
            }
            for name, partitions in groupby(sorted(offsets), key=lambda each: each.topic)
        ]
        fields = {
            "group_id": group,
            "generation_id_or_member_epoch": NOT_A_MEMBER,
            "member_id": "",
            "group_instance_id": None,
            "retention_time": -1,
            "topics": topics,
        }

        def read(answer: Any) -> Any:
            results = [each for topic in answer.topics for each in topic.partitions]
            return next((each for each in results if each.error_code), results[0])

        try:
            self._ask(group, ApiKey.OFFSET_COMMIT, fields, read)
        except RequestRefused as refusal:
            if refusal.code is ErrorCode.unknown_member_id:
                why = "the group has members; stop them first"
                raise RequestRefused(ErrorCode.non_empty_group, f"group {group}", why) from refusal
            raise

    def delete(self, group: str) -> None:
        """Forget a group that has no members, and all its offsets."""
        fields = {"groups_names": [group]}
        self._ask(group, ApiKey.DELETE_GROUPS, fields, lambda answer: answer.results[0])

    def _ask(
        self, group: str, api_key: ApiKey, fields: Mapping[str, Any], read: Callable[[Any], T]
    ) -> tuple[int, T]:
        """Ask the group's coordinator, wherever that is by now."""

        def attempt() -> tuple[int, T]:
            found = coordinator(self._client, group, KeyType.GROUP)
            result = read(found.connection.call(api_key, fields))
            _check(result, f"group {group}")
            return found.node_id, result

        return self._client.retrying(attempt)


def _check(answer: Any, what: str) -> None:
    code = ErrorCode(answer.error_code)
    if code is not ErrorCode.none:
        raise RequestRefused(code, what, getattr(answer, "error_message", None))


def _consumer(member: Any) -> GroupMember:
    partitions = tuple(
        TopicPartition(topic.topic_name, int(partition))
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    )
    return GroupMember(
        member.member_id, member.instance_id, member.client_id, member.client_host, partitions
    )


def _classic_member(member: Any) -> GroupMember:
    partitions = tuple(
        TopicPartition(topic.topic, int(partition))
        for topic in read_assignment(member.member_assignment)
        for partition in topic.partitions
    )
    return GroupMember(
        member.member_id,
        getattr(member, "group_instance_id", None),
        member.client_id,
        member.client_host,
        partitions,
    )
