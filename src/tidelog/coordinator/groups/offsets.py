"""Committed offsets of all groups of one coordinator, and those that wait for a transaction.

Invariant  An offset written in a transaction counts only once its marker says so, and never over
           an offset that was written after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.shard import Marker
from tidelog.model.ids import TopicPartition
from tidelog.protocol.stored.groups import (
    OffsetCommitKey,
    OffsetCommitValue,
)


class CommittedOffset(NamedTuple):
    """An offset, and its place in the order in which offsets were written."""

    value: OffsetCommitValue
    order: int


GroupOffsets: TypeAlias = dict[TopicPartition, CommittedOffset]
_NOTHING: Final[Mapping[TopicPartition, CommittedOffset]] = MappingProxyType({})


class Offsets:
    """Changed only by replay."""

    def __init__(self) -> None:
        self._committed: dict[str, GroupOffsets] = {}
        self._pending: dict[int, dict[str, GroupOffsets]] = {}
        """By producer id, what its open transaction will commit."""
        self._replayed = 0

    def of(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """What a group has committed."""
        return self._committed.get(group, _NOTHING)

    def groups(self) -> Iterator[str]:
        """Groups that have committed something."""
        return iter(tuple(self._committed))

    def pending_in(self, group: str) -> set[TopicPartition]:
        """The partitions whose offset an open transaction may yet change."""
        return {
            partition
            for by_group in self._pending.values()
            for partition in by_group.get(group, ())
        }

    def replay(
        self,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
        producer: ProducerIdAndEpoch | None,
    ) -> None:
        """Take in an offset, or its end."""
        self._replayed += 1
        partition = TopicPartition(key.topic, key.partition)
        if value is None:
            self._forget(key.group, partition)
        elif producer is not None:
            pending = self._pending.setdefault(producer.producer_id, {})
            committed = CommittedOffset(value, self._replayed)
            pending.setdefault(key.group, {})[partition] = committed
        else:
            committed = CommittedOffset(value, self._replayed)
            self._committed.setdefault(key.group, {})[partition] = committed

    def _forget(self, group: str, partition: TopicPartition) -> None:
        committed = self._committed.get(group, {})
        committed.pop(partition, None)
        if not committed:
            self._committed.pop(group, None)
        for by_group in self._pending.values():
            by_group.get(group, {}).pop(partition, None)

    def replay_marker(self, marker: Marker) -> None:
        """A transaction ended: its offsets count, or are forgotten."""
        pending = self._pending.pop(marker.producer.producer_id, {})
        if not marker.committed:
            return
        for group, offsets in pending.items():
            committed = self._committed.setdefault(group, {})
            for partition, written in offsets.items():
                known = committed.get(partition)
                if known is None or known.order < written.order:
                    committed[partition] = written


def tombstone(group: str, partition: TopicPartition) -> GroupRecord:
    """The end of a committed offset."""
    key = OffsetCommitKey(group=group, topic=partition.topic, partition=partition.partition)
    return GroupRecord(key, None)
