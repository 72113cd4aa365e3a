"""What lies on the brokers' disks: the size of each log, and the room that is left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from tidelog.client.blocking import Client
from tidelog.client.errors import ClientError, require_accepted
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


class BrokerDisk(NamedTuple):
    """The log directories of one broker, taken together."""

    sizes: Mapping[TopicPartition, int]
    """Bytes of each log."""
    usable_bytes: int | None
    """None where the broker does not tell."""
    failed: tuple[str, ...]
    """Directories that are offline."""


def broker_disks(
    client: Client, brokers: Iterable[int], names: Collection[TopicPartition] | None = None
) -> dict[int, BrokerDisk]:
    """The disks of these brokers, with the logs that are named or all; without brokers that do not
    answer."""
    wanted = None
    if names is not None:
        wanted = [
            DescribableLogDirTopic(topic=topic, partitions=[each.partition for each in group])
            for topic, group in groupby(sorted(names), key=lambda each: each.topic)
        ]
    request = DescribeLogDirsRequest(topics=wanted)
    found: dict[int, BrokerDisk] = {}
    for broker in sorted(brokers):
        try:
            answer = client.broker(broker).call(request)
            require_accepted(answer, f"log directories of broker {broker}")
        except ClientError:
            continue
        found[broker] = _disk(answer)
    return found


def _disk(answer: DescribeLogDirsResponse) -> BrokerDisk:
    sizes = {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for result in answer.results
        for topic in result.topics
        for each in topic.partitions
        if not each.is_future_key
    }
    usable = [each.usable_bytes for each in answer.results if each.error_code is ErrorCode.none]
    known = bool(usable) and min(usable) >= 0
    failed = [each.log_dir for each in answer.results if each.error_code is not ErrorCode.none]
    return BrokerDisk(sizes, sum(usable) if known else None, tuple(failed))
