"""Where a partition begins, ends, or was at a moment: ListOffsets for many partitions at once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import Final

from tidelog.client.blocking import Client
from tidelog.client.errors import ClientError, RequestRefused
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.wire.apis import ApiKey

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
_AGAIN_S: Final = 0.1


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


class BoundsSurvey:
    """First and end offsets of partitions as far as their leaders answer.

    Invariant  A leader that does not answer is waited for once, however many partitions it leads.
    """

    def __init__(self, client: Client, patience_s: float = 2.0) -> None:
        self._client = client
        self._patience_s = patience_s
        self._silent: set[int] = set()

    def of(self, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int] | str]:
        """The bounds of each partition, or why they are not known."""
        found: dict[int, tuple[int, int] | str] = {}
        missing = set(partitions)
        deadline = time.monotonic() + self._patience_s
        if topic not in self._client.view.topics:
            self._client.refresh([topic])
        while missing:
            self._ask_leaders(topic, missing, found)
            missing = {index for index in missing if isinstance(found[index], str)}
            view = self._client.view
            leaders = {view.leader_of(topic, index) for index in missing} - {NO_LEADER}
            if time.monotonic() > deadline:
                self._silent |= leaders
            if leaders <= self._silent:
                break
            time.sleep(_AGAIN_S)
            self._client.refresh([topic])
        return found

    def _ask_leaders(
        self, topic: str, partitions: Iterable[int], found: dict[int, tuple[int, int] | str]
    ) -> None:
        led: dict[int, list[int]] = {}
        for index in partitions:
            led.setdefault(self._client.view.leader_of(topic, index), []).append(index)
        for leader, indexes in led.items():
            found.update(dict.fromkeys(indexes, self._why_unknown(leader)))
            if leader == NO_LEADER or leader in self._silent:
                continue
            with suppress(ClientError):
                first, end = (
                    _ask_leader(
                        self._client,
                        leader,
                        topic,
                        dict.fromkeys(indexes, moment),
                        Isolation.READ_UNCOMMITTED,
                    )
                    for moment in (EARLIEST, LATEST)
                )
                found.update({index: (first[index], end[index]) for index in indexes})

    def _why_unknown(self, leader: int) -> str:
        return "no leader" if leader == NO_LEADER else f"leader {leader} does not answer"


def _ask(
    client: Client, topic: str, wanted: Mapping[int, int], isolation: Isolation
) -> dict[int, int]:
    found: dict[int, int] = {}
    for leader, partitions in client.leaders(topic, wanted).items():
        asked = {index: wanted[index] for index in partitions}
        found.update(_ask_leader(client, leader, topic, asked, isolation))
    return found


def _ask_leader(
    client: Client, leader: int, topic: str, wanted: Mapping[int, int], isolation: Isolation
) -> dict[int, int]:
    asked = [
        {"partition_index": index, "current_leader_epoch": -1, "timestamp": moment}
        for index, moment in wanted.items()
    ]
    fields = {
        "replica_id": -1,
        "isolation_level": int(isolation),
        "topics": [{"name": topic, "partitions": asked}],
        "timeout": int(client.request_timeout_s * 1000),
    }
    found: dict[int, int] = {}
    body = client.broker(leader).call(ApiKey.LIST_OFFSETS, fields)
    for each in (each for answered in body.topics for each in answered.partitions):
        code = ErrorCode(each.error_code)
        if code is not ErrorCode.none:
            raise RequestRefused(code, f"{topic}-{int(each.partition_index)}")
        found[int(each.partition_index)] = int(each.offset)
    return found
