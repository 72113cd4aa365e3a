"""Getting the ends of transactions written everywhere: the coordinators' messengers.

Invariant  A marker is asked for until it is written, whoever leads its partition by then; a
           partition that no longer exists needs none.
Invariant  The coordinator hears that an end is complete after the last marker, and hears it again
           until it has stored that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Final, TypeAlias

from tidelog.coordinator.transactions.ending import EndedTransaction
from tidelog.coordinator.transactions.records import by_topic
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.model.time import Now
from tidelog.node.coordination.marker_writing import (
    ANY_LEADER_EPOCH,
    MarkerOrder,
    MarkerWriting,
)
from tidelog.node.core.links import LinkLost
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.replication.written_ends import TransactionEnd

WRITE_MARKERS_VERSION: Final = 2
RETRY_MS: Final = 50
_WRITTEN: Final = (ErrorCode.none, ErrorCode.invalid_producer_epoch)
"""A partition that knows a later epoch has left this transaction behind."""


Complete: TypeAlias = Callable[[EndedTransaction, Now, Callable[[Refusal | None], None]], None]


class _Pending:
    """An ended transaction, and where its marker is still due."""

    __slots__ = ("asked", "due", "ended", "is_completing")

    def __init__(self, ended: EndedTransaction) -> None:
        self.ended = ended
        self.due = set(ended.partitions)
        self.asked: set[TopicPartition] = set()
        """Those of them that somebody was asked for."""
        self.is_completing = False


class TransactionMarkers:
    """All ends under way of the coordinators on this broker; sent when a tick ends."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        markers: MarkerWriting,
        complete: Complete,
    ) -> None:
        """`complete` lets the coordinator store that an end is written everywhere."""
        self._runtime = runtime
        self._cluster = cluster
        self._markers = markers
        self._store_completion = complete
        self._pending: dict[str, _Pending] = {}
        self._has_news = False

    def write(self, ended: EndedTransaction) -> None:
        self._pending[ended.transactional_id] = _Pending(ended)
        self._has_news = True

    def forget(self, transactional_ids: Collection[str]) -> None:
        for transactional_id in transactional_ids:
            self._pending.pop(transactional_id, None)

    def send(self, now: Now) -> None:
        """Ask for everything that is due and that nobody was asked for."""
        while self._has_news:
            self._has_news = False
            self._send(now)

    def _send(self, now: Now) -> None:
        by_leader: dict[int, list[tuple[_Pending, list[TopicPartition]]]] = {}
        for pending in list(self._pending.values()):
            if not pending.due:
                self._complete(pending, now)
                continue
            for leader, partitions in self._by_leader(pending, now).items():
                by_leader.setdefault(leader, []).append((pending, partitions))
        for leader, orders in sorted(by_leader.items()):
            if leader == self._cluster.node_id:
                self._write_here(orders, now)
            else:
                self._ask(leader, orders, now)

    def _by_leader(self, pending: _Pending, now: Now) -> dict[int, list[TopicPartition]]:
        found: dict[int, list[TopicPartition]] = {}
        for name in sorted(pending.due - pending.asked):
            known = self._cluster.image.partition(*name)
            if known is None:
                self._answered(pending, name, ErrorCode.none, now)
            elif known.leader == NO_LEADER:
                self._again_later(now)
            else:
                pending.asked.add(name)
                found.setdefault(known.leader, []).append(name)
        return found

    def _write_here(self, orders: list[tuple[_Pending, list[TopicPartition]]], now: Now) -> None:
        for pending, partitions in orders:
            for name in partitions:
                written = partial(self._written, pending, name, now)
                order = MarkerOrder(_end_of(pending.ended))
                self._markers.write(now, name, order, written)

    def _written(
        self, pending: _Pending, name: TopicPartition, asked_at: Now, code: ErrorCode
    ) -> None:
        self._answered(pending, name, code, asked_at)

    def _ask(
        self, leader: int, orders: list[tuple[_Pending, list[TopicPartition]]], now: Now
    ) -> None:
        address = self._cluster.endpoint(leader, self._cluster.config.inter_broker_name)
        if address is None:
            for pending, partitions in orders:
                pending.asked.difference_update(partitions)
            self._again_later(now)
            return
        markers = [self._marker(pending.ended, names) for pending, names in orders]
        self._runtime.links.to_broker(address, "transaction markers").ask(
            now,
            WriteTxnMarkersRequest(markers=markers),
            WRITE_MARKERS_VERSION,
            lambda answer, later: self._heard(orders, answer, later),
            timeout_ms=self._cluster.config.request_timeout_ms,
        )

    def _marker(
        self, ended: EndedTransaction, partitions: list[TopicPartition]
    ) -> WritableTxnMarker:
        return WritableTxnMarker(
            producer_id=ended.producer.producer_id,
            producer_epoch=ended.producer.producer_epoch,
            transaction_result=ended.commit,
            coordinator_epoch=ended.coordinator_epoch,
            transaction_version=ended.version,
            decided_ms=ended.decided_ms,
            topics=[
                WritableTxnMarkerTopic(
                    name=topic,
                    partition_indexes=numbers,
                    leader_epochs=[self._leader_epoch(topic, number) for number in numbers],
                )
                for topic, numbers in by_topic(partitions).items()
            ],
        )

    def _leader_epoch(self, topic: str, number: int) -> int:
        known = self._cluster.image.partition(topic, number)
        return ANY_LEADER_EPOCH if known is None else known.leader_epoch

    def _heard(
        self,
        orders: list[tuple[_Pending, list[TopicPartition]]],
        answer: WriteTxnMarkersResponse | LinkLost,
        now: Now,
    ) -> None:
        outcomes: dict[tuple[int, TopicPartition], ErrorCode] = {}
        if not isinstance(answer, LinkLost):
            outcomes = {
                (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): (
                    partition.error_code
                )
                for marker in answer.markers
                for topic in marker.topics
                for partition in topic.partitions
            }
        for pending, partitions in orders:
            producer_id = pending.ended.producer.producer_id
            for name in partitions:
                code = outcomes.get((producer_id, name), ErrorCode.network_exception)
                self._answered(pending, name, code, now)

    def _answered(self, pending: _Pending, name: TopicPartition, code: ErrorCode, now: Now) -> None:
        pending.asked.discard(name)
        if code is ErrorCode.transaction_coordinator_fenced:
            self._drop(pending)
        elif code in _WRITTEN:
            pending.due.discard(name)
            if not pending.due:
                self._has_news = True
        else:
            self._again_later(now)

    def _complete(self, pending: _Pending, now: Now) -> None:
        if pending.is_completing:
            return
        pending.is_completing = True
        ended = pending.ended

        def stored(refusal: Refusal | None) -> None:
            pending.is_completing = False
            if refusal is None or refusal.code is ErrorCode.not_coordinator:
                self._drop(pending)
            else:
                self._again_later(now)

        self._store_completion(ended, now, stored)

    def _drop(self, pending: _Pending) -> None:
        """Done with, or the business of a newer coordinator."""
        transactional_id = pending.ended.transactional_id
        if self._pending.get(transactional_id) is pending:
            del self._pending[transactional_id]

    def _again_later(self, now: Now) -> None:
        self._runtime.deadlines.at(now.monotonic_ms + RETRY_MS, self._remind)

    def _remind(self, now: Now) -> None:
        self._has_news = True


def _end_of(ended: EndedTransaction) -> TransactionEnd:
    return TransactionEnd(
        producer_id=ended.producer.producer_id,
        producer_epoch=ended.producer.producer_epoch,
        committed=ended.commit,
        coordinator_epoch=ended.coordinator_epoch,
        transaction_version=ended.version,
        decided_ms=ended.decided_ms,
    )
