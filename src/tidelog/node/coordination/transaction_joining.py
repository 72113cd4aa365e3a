"""Asking a transaction coordinator whether partitions take part in a transaction, or to add them.

Invariant  Every question is answered once, with a verdict on each partition; a coordinator that
           cannot be reached is a verdict, too.
Invariant  Only partitions that the coordinator knows of are added: one that is missing when the
           transaction ends was deleted, and needs no marker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tidelog.coordinator.result import CoordinatorResult, once
from tidelog.coordinator.transactions.add_partitions import AddPartitionsToTxn
from tidelog.coordinator.transactions.records import TransactionRecord, by_topic
from tidelog.coordinator.transactions.shard import ReplyDeferred, TransactionShard
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.coordination.coordinators import Coordinators
from tidelog.node.core.links import LinkLost
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

ADD_PARTITIONS_VERSION: Final = 5
_NO_ID: Final = Refusal(ErrorCode.invalid_request, "a transactional id is not empty")

Verdicts: TypeAlias = Mapping[TopicPartition, ErrorCode]
Then: TypeAlias = Callable[[Verdicts, Now], None]


class TransactionJoining:
    """Asks wherever the coordinator is."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        transactions: Coordinators[TransactionShard, TransactionRecord],
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._transactions = transactions

    def ask(self, now: Now, asked: AddPartitionsToTxn, *, adds: bool, then: Then) -> None:
        """Verify the partitions, or add them if they are not there yet."""
        config = self._cluster.config
        give_up_ms = now.monotonic_ms + config.add_partitions_to_txn_retry_backoff_max_ms

        def answered(verdicts: Verdicts, later: Now) -> None:
            again_ms = later.monotonic_ms + config.add_partitions_to_txn_retry_backoff_ms
            ending = ErrorCode.concurrent_transactions in verdicts.values()
            if adds and ending and again_ms <= give_up_ms:
                self._runtime.deadlines.at(again_ms, ask)
            else:
                then(verdicts, later)

        def ask(at: Now) -> None:
            coordinator = self._transactions.coordinator_of(asked.transactional_id)
            if coordinator == self._cluster.node_id:
                self._ask_own(at, asked, adds, answered)
            else:
                self._ask_other(coordinator, at, asked, adds, answered)

        ask(now)

    def ask_here(
        self, now: Now, asked: AddPartitionsToTxn, *, adds: bool, then: Callable[[Verdicts], None]
    ) -> None:
        """Ask the coordinator on this broker; if it is elsewhere, that is the verdict."""
        unknown = self._unknown(asked) if adds else {}
        if unknown:
            then({**_same(asked, ErrorCode.operation_not_attempted), **unknown})
            return
        tell = once(then)

        def known(outcome: Verdicts | Refusal | ReplyDeferred | None) -> None:
            if outcome is None:
                tell(_same(asked, ErrorCode.none))
            elif isinstance(outcome, Refusal):
                tell(_same(asked, outcome.code))
            elif not isinstance(outcome, ReplyDeferred):
                tell(outcome)

        def join(
            shard: TransactionShard,
        ) -> CoordinatorResult[TransactionRecord, ReplyDeferred | None] | Refusal:
            return shard.add_partitions(asked, known, now) if asked.transactional_id else _NO_ID

        def verify(
            shard: TransactionShard,
        ) -> CoordinatorResult[TransactionRecord, Verdicts] | Refusal:
            return shard.verify(asked) if asked.transactional_id else _NO_ID

        if adds:
            self._transactions.ask(now, asked.transactional_id, join, known)
        else:
            self._transactions.ask(now, asked.transactional_id, verify, known)

    def _unknown(self, asked: AddPartitionsToTxn) -> Verdicts:
        return {
            partition: ErrorCode.unknown_topic_or_partition
            for partition in asked.partitions
            if self._cluster.image.partition(*partition) is None
        }

    def _ask_own(self, now: Now, asked: AddPartitionsToTxn, adds: bool, then: Then) -> None:
        def known(verdicts: Verdicts) -> None:
            # Whoever brought the answer about is in the middle of something else.
            self._runtime.deadlines.at(now.monotonic_ms, lambda later: then(verdicts, later))

        self.ask_here(now, asked, adds=adds, then=known)

    def _ask_other(
        self, coordinator: int, now: Now, asked: AddPartitionsToTxn, adds: bool, then: Then
    ) -> None:
        config = self._cluster.config
        address = self._cluster.endpoint(coordinator, config.inter_broker_name)
        if address is None:
            then(_same(asked, ErrorCode.coordinator_not_available), now)
            return

        def answered(answer: AddPartitionsToTxnResponse | LinkLost, later: Now) -> None:
            if isinstance(answer, LinkLost):
                then(_same(asked, ErrorCode.network_exception), later)
            elif answer.error_code:
                then(_same(asked, answer.error_code), later)
            else:
                then(_read(asked, answer), later)

        transaction = AddPartitionsToTxnTransaction(
            transactional_id=asked.transactional_id,
            producer_id=asked.producer.producer_id,
            producer_epoch=asked.producer.producer_epoch,
            verify_only=not adds,
            topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                for topic, numbers in by_topic(asked.partitions).items()
            ],
        )
        self._runtime.links.to_broker(address, "transactions").ask(
            now,
            AddPartitionsToTxnRequest(transactions=[transaction]),
            ADD_PARTITIONS_VERSION,
            answered,
            timeout_ms=config.request_timeout_ms,
        )


def _read(asked: AddPartitionsToTxn, answer: AddPartitionsToTxnResponse) -> Verdicts:
    results = {
        TopicPartition(topic.name, partition.partition_index): partition.partition_error_code
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
    missing = ErrorCode.unknown_server_error
    return {partition: results.get(partition, missing) for partition in asked.partitions}


def _same(asked: AddPartitionsToTxn, code: ErrorCode) -> Verdicts:
    return dict.fromkeys(asked.partitions, code)
