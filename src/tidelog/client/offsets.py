"""Where a partition begins, ends, or was at a moment: ListOffsets for many partitions at once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from tidelog.client.blocking import Client
from tidelog.client.errors import ClientError, RequestRefused, Unreachable
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

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
    """First and end offsets of partitions as far as their leaders tell them.

    Invariant  A leader that does not answer, or refuses, is waited for once, however many
               partitions it leads.
    Invariant  What a leader refuses of one partition is told of that partition alone.
    """

    def __init__(self, client: Client, patience_s: float = 2.0) -> None:
        self._client = client
        self._patience_s = patience_s
        self._silent: set[int] = set()
        self._waited_for: set[int] = set()

    def of(self, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int] | str]:
        """The bounds of each partition, or why they are not known."""
        found: dict[int, tuple[int, int] | str] = {}
        missing = set(partitions)
        deadline = time.monotonic() + self._patience_s
        if topic not in self._client.view.topics:
            self._client.refresh([topic])
        while missing:
            silent = self._ask_leaders(topic, missing, found)
            missing = {index for index in missing if isinstance(found[index], str)}
            view = self._client.view
            leaders = {view.leader_of(topic, index) for index in missing} - {NO_LEADER}
            if time.monotonic() > deadline:
                self._silent |= silent
                self._waited_for |= leaders
            if leaders <= self._waited_for:
                break
            time.sleep(_AGAIN_S)
            self._client.refresh([topic])
        return found

    def _ask_leaders(
        self, topic: str, partitions: Iterable[int], found: dict[int, tuple[int, int] | str]
    ) -> set[int]:
        """Fill `found`; those who did not answer."""
        silent: set[int] = set()
        led: dict[int, list[int]] = {}
        for index in partitions:
            led.setdefault(self._client.view.leader_of(topic, index), []).append(index)
        for leader, indexes in led.items():
            if leader == NO_LEADER:
                found.update(dict.fromkeys(indexes, "no leader"))
                continue
            told = self._told_by(leader, topic, indexes)
            if told is None:
                silent.add(leader)
                found.update(dict.fromkeys(indexes, f"leader {leader} does not answer"))
            else:
                found.update(told)
        return silent

    def _told_by(
        self, leader: int, topic: str, indexes: list[int]
    ) -> Mapping[int, tuple[int, int] | str] | None:
        """What a leader says of each partition; None when it does not answer."""
        if leader in self._silent:
            return None
        try:
            first, end = (
                _offsets_or_refusals(
                    self._client,
                    leader,
                    topic,
                    dict.fromkeys(indexes, moment),
                    Isolation.READ_UNCOMMITTED,
                )
                for moment in (EARLIEST, LATEST)
            )
        except Unreachable:
            return None
        except ClientError as error:
            return dict.fromkeys(indexes, f"leader {leader}: {error}")
        found: dict[int, tuple[int, int] | str] = {}
        for index in indexes:
            bounds = first[index], end[index]
            refused = [each for each in bounds if isinstance(each, ErrorCode)]
            if refused:
                found[index] = f"leader {leader}: {refused[0].name.upper()}"
            else:
                found[index] = bounds
        return found


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
    found: dict[int, int] = {}
    answered = _offsets_or_refusals(client, leader, topic, wanted, isolation)
    for index, offset in answered.items():
        if isinstance(offset, ErrorCode):
            raise RequestRefused(offset, f"{topic}-{index}")
        found[index] = offset
    return found


def _offsets_or_refusals(
    client: Client, leader: int, topic: str, wanted: Mapping[int, int], isolation: Isolation
) -> dict[int, int | ErrorCode]:
    asked = [
        ListOffsetsPartition(partition_index=index, timestamp=moment)
        for index, moment in wanted.items()
    ]
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(isolation),
        topics=[ListOffsetsTopic(name=topic, partitions=asked)],
        timeout_ms=int(client.request_timeout_s * 1000),
    )
    answer = client.broker(leader).call(request)
    return {
        each.partition_index: each.offset if each.error_code is ErrorCode.none else each.error_code
        for answered in answer.topics
        for each in answered.partitions
    }
