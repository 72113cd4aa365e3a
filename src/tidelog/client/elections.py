"""Elections of leaders that an operator asks for, and who could win them without a loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import groupby

from tidelog.client.blocking import Client
from tidelog.client.errors import RequestRefused, require_accepted
from tidelog.client.metadata import PartitionView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopicRequest,
)
from tidelog.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
)


class Electorate(IntEnum):
    """Who may be elected."""

    PREFERRED = 0
    """The first replica, if it is in sync."""
    UNCLEAN = 1
    """Any replica that lives, in a partition that has no leader."""


def not_led_as_preferred(
    there: Mapping[TopicPartition, PartitionView],
) -> dict[TopicPartition, PartitionView]:
    """Those of these partitions in which an election may change something."""
    return {name: each for name, each in there.items() if each.leader != each.replicas[0]}


def elect_leaders(
    client: Client, electorate: Electorate, names: Iterable[TopicPartition]
) -> dict[TopicPartition, RequestRefused]:
    """Hold an election in each partition; the refusals of those that got no new leader, without
    partitions that need none."""
    request = ElectLeadersRequest(
        election_type=int(electorate),
        topic_partitions=[
            ElectLeadersRequestTopicPartitions(
                topic=topic, partitions=[each.partition for each in group]
            )
            for topic, group in groupby(sorted(names), key=lambda each: each.topic)
        ],
        timeout_ms=int(client.request_timeout_s * 1000),
    )

    def attempt() -> dict[TopicPartition, RequestRefused]:
        answer = client.call(request)
        require_accepted(answer, "election")
        return {
            name: RequestRefused(each.error_code, str(name), each.error_message)
            for topic in answer.replica_election_results
            for each in topic.partition_result
            if each.error_code not in (ErrorCode.none, ErrorCode.election_not_needed)
            for name in [TopicPartition(topic.topic, each.partition_id)]
        }

    return client.retrying(attempt)


def last_in_sync(client: Client, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of each partition that have all that was acknowledged, as far as the cluster
    remembers; of nothing where brokers cannot tell."""
    named = [DescribeTopicPartitionsRequestTopicRequest(name=each) for each in sorted(set(topics))]
    found: dict[TopicPartition, tuple[int, ...]] = {}
    cursor: DescribeTopicPartitionsRequestCursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=named, cursor=cursor)
        try:
            answer = client.call(request)
        except RequestRefused as refusal:
            if refusal.code is not ErrorCode.unsupported_version:
                raise
            return {}
        for topic in answer.topics:
            for each in topic.partitions:
                eligible = (*each.isr_nodes, *(each.eligible_leader_replicas or ()))
                name = TopicPartition(topic.name or "", each.partition_index)
                found[name] = eligible or tuple(each.last_known_elr or ())
        following = answer.next_cursor
        if following is None:
            return found
        cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=following.topic_name, partition_index=following.partition_index
        )
