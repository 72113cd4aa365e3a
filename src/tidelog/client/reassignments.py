"""Partitions that move to other brokers: what a plan would do, what is under way, what is left.

Invariant  Sizes are those of the leader's log: what a new replica has to fetch. Where no broker
           tells one, nothing is made up.
Invariant  A replica that is on its way by a reassignment under way is not there yet, and one that
           is about to leave still is: plans and previews count what a partition really has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from tidelog.client.admin import Admin, BrokerEntry
from tidelog.client.blocking import Client
from tidelog.client.errors import RequestRefused, require_accepted
from tidelog.client.log_directories import BrokerDisk, broker_disks
from tidelog.client.metadata import ClusterView
from tidelog.client.reassignment_plan import Plan, UnusablePlan, spread
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


class PlannedMove(NamedTuple):
    """What a plan would do to one partition."""

    name: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int | None
    """Of the log that each new replica has to fetch."""
    moving: bool = False
    """Whether a reassignment is under way, which the plan would replace."""
    coming: Mapping[int, int] = {}
    """Replicas that this reassignment adds, with the bytes that each has already."""

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(each for each in self.after if each not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(each for each in (*self.before, *self.coming) if each not in self.after)

    @property
    def changes(self) -> bool:
        return self.before != self.after or self.moving

    @property
    def bytes_to_copy(self) -> int | None:
        if not self.adding:
            return 0
        if self.size_bytes is None:
            return None
        return sum(max(0, self.size_bytes - self.coming.get(each, 0)) for each in self.adding)


class MoveUnderWay(NamedTuple):
    """A partition that moves, and what its new replicas have yet to fetch."""

    name: TopicPartition
    after: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    bytes_left: int | None


class Reassignments:
    """The requests that move partitions."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def spread_over(
        self,
        names: Iterable[TopicPartition],
        brokers: Sequence[int],
        replication_factor: int | None = None,
    ) -> Plan:
        """The plan that has these partitions evenly on these brokers; refuses what is not there."""
        wanted = list(names)
        registered = self._require_brokers(dict.fromkeys(brokers, ""))
        _, settled = self._settled(wanted)
        racks = {each.node_id: each.rack for each in registered}
        return spread(settled, brokers, racks, replication_factor)

    def preview(self, plan: Mapping[TopicPartition, tuple[int, ...]]) -> list[PlannedMove]:
        """What each partition of the plan has now, and would get; refuses what is not there."""
        self._require_brokers({each: f"{name}: " for name, after in plan.items() for each in after})
        moving, before = self._settled(plan)
        view = self._view(plan)
        sizes = self._leader_sizes(view, plan)
        newcomers = {broker for each in moving.values() for broker in each.adding}
        disks = broker_disks(self._client, newcomers & set(view.brokers), list(moving))
        return [
            PlannedMove(
                name,
                before[name],
                after,
                sizes.get(name),
                name in moving,
                {
                    each: disks[each].sizes.get(name, 0) if each in disks else 0
                    for each in (moving[name].adding if name in moving else ())
                },
            )
            for name, after in sorted(plan.items())
        ]

    def _settled(
        self, names: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, MoveUnderWay], dict[TopicPartition, tuple[int, ...]]]:
        """The reassignments of these partitions that are under way, and the replicas that each
        has: those that are only about to come are not there yet."""
        wanted = list(names)
        view = self._view(wanted)
        present = {name: _replicas(view, name) for name in wanted}
        moving = {each.name: each for each in self.under_way(wanted)}
        return moving, {
            name: tuple(
                each for each in there if name not in moving or each not in moving[name].adding
            )
            for name, there in present.items()
        }

    def _require_brokers(self, named: Mapping[int, str]) -> list[BrokerEntry]:
        """All brokers that are registered; a plan that names another one is refused, with what
        stands before its number here."""
        _, _, registered = Admin(self._client).describe_cluster()
        known = [each.node_id for each in registered]
        for broker, where in named.items():
            if broker not in known:
                there = ", ".join(map(str, known))
                raise UnusablePlan(f"{where}there is no broker {broker}; this cluster has {there}")
        return registered

    def under_way(self, names: Iterable[TopicPartition] | None = None) -> list[MoveUnderWay]:
        """The reassignments of these partitions, or all, in order."""
        topics = None
        if names is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
                for topic, indexes in _by_topic(names)
            ]
        request = ListPartitionReassignmentsRequest(
            timeout_ms=int(self._client.request_timeout_s * 1000), topics=topics
        )

        def attempt() -> list[MoveUnderWay]:
            answer = self._client.call(request)
            require_accepted(answer, "reassignments")
            return [
                MoveUnderWay(
                    TopicPartition(topic.name, each.partition_index),
                    tuple(r for r in each.replicas if r not in each.removing_replicas),
                    tuple(each.adding_replicas),
                    tuple(each.removing_replicas),
                    None,
                )
                for topic in answer.topics
                for each in topic.partitions
            ]

        return self._measured(sorted(self._client.retrying(attempt)))

    def start(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> dict[TopicPartition, RequestRefused]:
        """Begin to move partitions, or, where there is no target, stop that; the refusals."""
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=int(self._client.request_timeout_s * 1000),
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(
                            partition_index=index, replicas=targets[TopicPartition(topic, index)]
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in _by_topic(targets)
            ],
        )

        def attempt() -> dict[TopicPartition, RequestRefused]:
            answer = self._client.call(request)
            require_accepted(answer, "reassignments")
            return {
                name: RequestRefused(each.error_code, str(name), each.error_message)
                for topic in answer.responses
                for each in topic.partitions
                if each.error_code is not ErrorCode.none
                for name in [TopicPartition(topic.name, each.partition_index)]
            }

        return self._client.retrying(attempt)

    def _view(self, names: Iterable[TopicPartition]) -> ClusterView:
        topics = sorted({each.topic for each in names})
        return self._client.retrying(partial(self._client.refresh, topics))

    def _leader_sizes(
        self, view: ClusterView, names: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        leaders = {name: view.leader_of(*name) for name in names}
        brokers = set(leaders.values()) & set(view.brokers)
        disks = broker_disks(self._client, brokers, list(leaders))
        return {
            name: disks[leader].sizes[name]
            for name, leader in leaders.items()
            if leader in disks and name in disks[leader].sizes
        }

    def _measured(self, moves: Sequence[MoveUnderWay]) -> list[MoveUnderWay]:
        if not moves:
            return []
        names = [each.name for each in moves]
        view = self._view(names)
        sizes = self._leader_sizes(view, names)
        newcomers = {broker for each in moves for broker in each.adding} & set(view.brokers)
        disks = broker_disks(self._client, newcomers, names)
        return [each._replace(bytes_left=_left(each, sizes, disks)) for each in moves]


def _left(
    move: MoveUnderWay, sizes: Mapping[TopicPartition, int], disks: Mapping[int, BrokerDisk]
) -> int | None:
    if move.name not in sizes:
        return None
    there = (disks[each].sizes.get(move.name, 0) if each in disks else 0 for each in move.adding)
    return sum(max(0, sizes[move.name] - size) for size in there)


def _replicas(view: ClusterView, name: TopicPartition) -> tuple[int, ...]:
    for each in view.topic(name.topic).partitions:
        if each.partition == name.partition:
            return each.replicas
    raise RequestRefused(ErrorCode.unknown_topic_or_partition, f"partition {name}")


def _by_topic(names: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    return [
        (topic, [each.partition for each in group])
        for topic, group in groupby(sorted(names), key=lambda each: each.topic)
    ]
