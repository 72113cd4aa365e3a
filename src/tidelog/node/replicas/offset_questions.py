"""A follower that is out of the leader's range asks where that begins and ends.

Invariant  Both questions are asked at once, ahead of the next fetch: neither answer has to wait
           for a fetch that the leader has parked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now
from tidelog.node.core.links import Link, LinkLost
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.replication.messages import BackOff, Dropped, FetchState, FollowerStep, LeaderOffsets
from tidelog.replication.partition import Partition

LIST_OFFSETS_VERSION: Final = 8
LATEST: Final = -1
EARLIEST_LOCAL: Final = -4

Answered: TypeAlias = Callable[["OffsetQuestion", FollowerStep, Now], None]


class OffsetQuestion:
    """Two questions to the leader, then one step of the follower."""

    def __init__(
        self, cluster: ClusterView, partition: Partition, state: FetchState, then: Answered
    ) -> None:
        self._cluster = cluster
        self._then = then
        self._heard: list[int | str] = []
        """Where the leader's log ends and where it begins, or why that is not known."""
        self.partition = partition
        self.state = state

    def ask(self, link: Link, now: Now) -> None:
        """Where does your log end, and where does it begin?"""
        name = self.partition.name
        for timestamp in (LATEST, EARLIEST_LOCAL):
            asked = ListOffsetsPartition(
                partition_index=name.partition,
                current_leader_epoch=self.state.leader_epoch,
                timestamp=timestamp,
            )
            request = ListOffsetsRequest(
                replica_id=self._cluster.node_id,
                topics=[ListOffsetsTopic(name=name.topic, partitions=[asked])],
            )
            link.ask(
                now,
                request,
                LIST_OFFSETS_VERSION,
                self._answered,
                timeout_ms=self._cluster.config.replica_socket_timeout_ms,
            )

    def _answered(self, answer: ListOffsetsResponse | LinkLost, now: Now) -> None:
        self._heard.append(_offset_in(answer))
        if len(self._heard) == 2:
            self._then(self, self._step(now), now)

    def _step(self, now: Now) -> FollowerStep:
        end, start = self._heard
        if isinstance(end, str):
            return self._pause(end)
        if isinstance(start, str):
            return self._pause(start)
        state = self.state
        told = LeaderOffsets(state, start, end)
        follower = self.partition.following
        return Dropped() if follower is None else follower.offsets_told(told, now)

    def _pause(self, why: str) -> BackOff:
        return BackOff(self._cluster.config.replica_fetch_backoff_ms, why)


def _offset_in(answer: ListOffsetsResponse | LinkLost) -> int | str:
    if isinstance(answer, LinkLost):
        return answer.reason
    for topic in answer.topics:
        for told in topic.partitions:
            if told.error_code is not ErrorCode.none:
                return f"the leader answered {told.error_code.name} when asked for its offsets"
            return told.offset
    return "the leader said nothing of its offsets"
