"""Where a partition begins, ends, or was at a moment: ListOffsets for many partitions at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from tidelog.client.blocking import Client
from tidelog.client.errors import RequestRefused
from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import ApiKey

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3


class Isolation(IntEnum):
    """Whether records of open and aborted transactions are seen."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


def find_offsets(
    client: Client,
    topic: str,
    wanted: Mapping[int, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[int, int]:
    """The offset for each partition's timestamp (or `LATEST`, `EARLIEST`); -1 where no record is
    that young."""
    return client.retrying(lambda: _ask(client, topic, wanted, isolation))


def partition_bounds(
    client: Client,
    topic: str,
    partitions: Iterable[int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[int, tuple[int, int]]:
    """First offset and end offset of each partition."""
    indexes = list(partitions)
    starts = find_offsets(client, topic, dict.fromkeys(indexes, EARLIEST), isolation)
    ends = find_offsets(client, topic, dict.fromkeys(indexes, LATEST), isolation)
    return {index: (starts[index], ends[index]) for index in indexes}


def _ask(
    client: Client, topic: str, wanted: Mapping[int, int], isolation: Isolation
) -> dict[int, int]:
    found: dict[int, int] = {}
    for leader, partitions in client.leaders(topic, wanted).items():
        asked = [
            {"partition_index": index, "current_leader_epoch": -1, "timestamp": wanted[index]}
            for index in partitions
        ]
        fields = {
            "replica_id": -1,
            "isolation_level": int(isolation),
            "topics": [{"name": topic, "partitions": asked}],
            "timeout": int(client.request_timeout_s * 1000),
        }
        body = client.broker(leader).call(ApiKey.LIST_OFFSETS, fields)
        for each in (each for answered in body.topics for each in answered.partitions):
            code = ErrorCode(each.error_code)
            if code is not ErrorCode.none:
                raise RequestRefused(code, f"{topic}-{int(each.partition_index)}")
            found[int(each.partition_index)] = int(each.offset)
    return found
