"""Produce in a transaction: a batch that begins one in a partition waits for its coordinator.

A leader that hears of a transaction for the first time asks the coordinator whether it is under
way (KIP-890), lest a late batch begins one that nobody ends. From Produce version 12 on it adds
the partition on behalf of the client.

Invariant  A batch is appended with the very question that was asked for it, so that an end of the
           transaction that was written meanwhile makes the answer void.
Invariant  One request speaks for one producer, so that one question covers all of its batches.
Invariant  The batches that wait are bounded in bytes, whatever acks they want: peers that have too
           many are not read, and while the node is full nobody else's are let in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.add_partitions import AddPartitionsToTxn
from tidelog.coordinator.transactions.transaction import EPOCH_PER_TRANSACTION
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.coordination.transaction_joining import TransactionJoining, Verdicts
from tidelog.node.core.request import Later, Reply, Request
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.replicas.replicas import Replicas
from tidelog.protocol.produce import ProduceRequest, ProduceTopic
from tidelog.records.batch import BatchHeader, CorruptBatch, read_header
from tidelog.storage.transaction_verification import Verification

ADDS_SINCE: Final = 12
ABORTABLE_SINCE: Final = 11
_COORDINATOR_IS_AWAY: Final = (
    ErrorCode.network_exception,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
_COORDINATOR_IS_BEHIND: Final = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.operation_not_attempted,
)
"""It has not heard yet of a partition that is led here."""
_TWO_PRODUCERS: Final = Refusal(
    ErrorCode.invalid_producer_id_mapping, "a transactional id belongs to one producer"
)


_TOO_MUCH_WAITS: Final = Refusal(
    ErrorCode.not_enough_replicas,
    "too many batches wait for their coordinators (queued.max.request.bytes)",
)
"""Every client asks again after a while."""


class Gate(NamedTuple):
    """What became of the questions: who may pass, and who may not."""

    questions: Mapping[TopicPartition, Verification]
    refusals: Mapping[TopicPartition, Refusal]


OPEN: Final = Gate({}, {})


class TransactionGate:
    """Lets batches pass once it is known that their transactions are under way."""

    def __init__(
        self, cluster: ClusterView, replicas: Replicas, joining: TransactionJoining
    ) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._joining = joining

    def wait(
        self,
        request: Request[ProduceRequest],
        produce: Callable[[Request[ProduceRequest], Gate], Reply],
        denied: frozenset[str],
    ) -> Reply | None:
        """Ask about the transactions that begin here, then `produce`; None when none begins.

        Nothing is asked about topics that may not be written to.
        """
        body = request.body
        batches = [
            batch for batch in self._transactional_batches(body) if batch[0].topic not in denied
        ]
        producers = {
            ProducerIdAndEpoch(header.producer_id, header.producer_epoch) for _, header in batches
        }
        if len(producers) > 1:
            return produce(request, Gate({}, {name: _TWO_PRODUCERS for name, _ in batches}))
        adds = request.api_version >= ADDS_SINCE
        if not adds and not self._cluster.config.transaction_partition_verification_enable:
            return None
        questions: dict[TopicPartition, Verification] = {}
        stale: dict[TopicPartition, Refusal] = {}
        for name, header in batches:
            partition = self._replicas.locate(self._cluster.image, name, None)
            if isinstance(partition, ErrorCode) or not partition.is_leader:
                continue
            question = partition.log.producers.begin_verification(
                header, request.now.wall_ms, epoch_per_transaction=adds
            )
            if isinstance(question, Refusal):
                stale[name] = question
            elif question is not None:
                questions[name] = question
        if not questions or body.transactional_id is None:
            return None if not stale else produce(request, Gate({}, stale))
        if request.connection.memory.is_full:
            refusals = stale | dict.fromkeys(questions, _TOO_MUCH_WAITS)
            return produce(request, Gate({}, refusals))
        request.body = _kept(body)
        request.queue_bytes(_size_of(body))
        later = Later.NO_REPLY if body.acks == 0 else request.park()

        def answered(verdicts: Verdicts, now: Now) -> None:
            request.now = now
            request.release_bytes()
            refusals = stale | {
                name: Refusal(
                    _in_version(code, request.api_version), "the transaction was not confirmed"
                )
                for name, code in verdicts.items()
                if code
            }
            reply = produce(request, Gate(questions, refusals))
            if reply is Later.HANG_UP:
                request.connection.close("a request without acknowledgement failed")
            elif not isinstance(reply, Later):
                request.answer(reply)

        version = EPOCH_PER_TRANSACTION if adds else 0
        (producer,) = producers
        asked = AddPartitionsToTxn(body.transactional_id, producer, frozenset(questions), version)
        self._joining.ask(request.now, asked, adds=adds, then=answered)
        return later

    def _transactional_batches(
        self, body: ProduceRequest
    ) -> list[tuple[TopicPartition, BatchHeader]]:
        found = []
        for topic in body.topics:
            name = (
                topic.name if topic.topic_id is None else self._cluster.topic_name(topic.topic_id)
            )
            for index, records in topic.partitions:
                if name is None or records is None:
                    continue
                try:
                    header = read_header(records)
                except CorruptBatch:  # refused when it is looked at more closely
                    continue
                if header.is_transactional and not header.is_control and header.has_producer_id:
                    found.append((TopicPartition(name, index), header))
        return found


def _kept(body: ProduceRequest) -> ProduceRequest:
    """The request with batches of its own: those that came lie in the shell's buffer."""
    return body._replace(
        topics=[
            ProduceTopic(
                topic.name,
                topic.topic_id,
                [
                    (index, None if records is None else memoryview(bytearray(records)))
                    for index, records in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )


def _size_of(body: ProduceRequest) -> int:
    return sum(len(records or b"") for topic in body.topics for _, records in topic.partitions)


def _in_version(code: ErrorCode, version: int) -> ErrorCode:
    """What a client of that version understands."""
    if code is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if code in _COORDINATOR_IS_AWAY or code in _COORDINATOR_IS_BEHIND:
        return ErrorCode.not_enough_replicas
    if code is ErrorCode.concurrent_transactions and version < ADDS_SINCE:
        return ErrorCode.not_enough_replicas
    if code is ErrorCode.transaction_abortable and version < ABORTABLE_SINCE:
        return ErrorCode.invalid_txn_state
    return code
