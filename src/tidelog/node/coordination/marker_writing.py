"""Writing the end of a transaction into a partition that this broker leads.

Invariant  The outcome is known once every in-sync replica has the marker, as with acks=all.
Invariant  An order that was meant for another leader epoch is refused: this leader does not know
           what was written meanwhile, and would not know a copy that comes late from the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.groups.shard import GroupShard
from tidelog.coordinator.internal_topics import OFFSETS_TOPIC
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.coordination.coordinators import Coordinators
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.replicas.flushes import Flushes
from tidelog.node.replicas.replicas import Replicas
from tidelog.replication.leader import LeaderReplica
from tidelog.replication.partition import Partition
from tidelog.replication.written_ends import TransactionEnd

_AS_LEADER: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)
"""What a group coordinator says when another broker, or a later try, may do."""

ANY_LEADER_EPOCH: Final = -1
"""The coordinator does not say whom it means, or is on this very broker."""

Written: TypeAlias = Callable[[ErrorCode], None]


class MarkerOrder(NamedTuple):
    """The end of a transaction, as its coordinator wants it written in one partition."""

    end: TransactionEnd
    leader_epoch: int = ANY_LEADER_EPOCH


class MarkerWriting:
    """Writes markers into the partitions that this broker leads."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        replicas: Replicas,
        flushes: Flushes,
        groups: Coordinators[GroupShard, GroupRecord],
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._replicas = replicas
        self._flushes = flushes
        self._groups = groups

    def write(self, now: Now, name: TopicPartition, order: MarkerOrder, written: Written) -> None:
        """Append the marker and tell when it is safe, or why it is not."""
        partition = self._replicas.locate(self._cluster.image, name, None)
        if isinstance(partition, ErrorCode):
            written(partition)
        elif isinstance(leader := partition.leader(), Refusal):
            written(leader.code)
        elif (stale := _stale(order.leader_epoch, leader)) is not None:
            written(stale)
        elif name.topic == OFFSETS_TOPIC:
            self._write_to_offsets(now, name, order, written)
        else:
            self._write_to_data(now, partition, leader, order, written)

    def _write_to_offsets(
        self, now: Now, name: TopicPartition, order: MarkerOrder, written: Written
    ) -> None:
        """The group coordinator must learn which offsets count from now on."""
        led = self._groups.at(name.partition)
        if led is None:
            written(ErrorCode.not_leader_or_follower)
            return

        def known(refusal: Refusal | None) -> None:
            code = ErrorCode.none if refusal is None else refusal.code
            written(ErrorCode.not_leader_or_follower if code in _AS_LEADER else code)

        led.write_marker(now, order.end, known)

    def _write_to_data(
        self,
        now: Now,
        partition: Partition,
        leader: LeaderReplica,
        order: MarkerOrder,
        written: Written,
    ) -> None:
        appended = leader.append_end(order.end, now)
        if isinstance(appended, Refusal):
            written(appended.code)
            return
        if partition.owed_flush is not None:
            self._flushes.begin_owed(partition)
        end_offset = appended.last_offset + 1
        code = leader.acknowledgement(end_offset)
        if code is not None:
            written(code)
            return

        def settled(outcome: ErrorCode) -> None:
            deadline.cancel()
            written(outcome)

        parked = leader.wait_for(end_offset, settled)
        deadline = self._runtime.deadlines.at(
            now.monotonic_ms + self._cluster.config.request_timeout_ms,
            lambda later: parked.time_out(),
        )


def _stale(leader_epoch: int, leader: LeaderReplica) -> ErrorCode | None:
    if leader_epoch in (ANY_LEADER_EPOCH, leader.epoch):
        return None
    if leader_epoch < leader.epoch:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.unknown_leader_epoch
