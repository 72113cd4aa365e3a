"""Transactions from outside: who has one open, and bringing it to an end.

A participant of a two-phase commit uses the same: it takes over what another process prepared
(`initialise` with `keep_prepared`) and ends it (`end`).

Invariant  Every method either did what it was asked, or raises the broker's refusal in words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from tidelog.client.blocking import Client
from tidelog.client.coordinators import KeyType, coordinator
from tidelog.client.errors import Answered, RequestRefused, Unreachable, require_accepted
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.message import RequestMessage, ResponseT
from tidelog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.protocol.messages.end_txn import EndTxnRequest
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.protocol.messages.list_transactions import (
    ListTransactionsRequest,
)

T = TypeVar("T", bound=Answered)
NO_TIMEOUT: Final = 2**31 - 1


class ProducerIdentity(NamedTuple):
    """A producer id in one of its epochs."""

    producer_id: int
    producer_epoch: int


class Initialised(NamedTuple):
    """The identity given to a producer, and whose transaction it still has to end."""

    producer: ProducerIdentity
    ongoing: ProducerIdentity | None


class ListedTransaction(NamedTuple):
    """One transactional id in a listing."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    """All that the coordinator knows of a transactional id."""

    transactional_id: str
    coordinator: int
    producer: ProducerIdentity
    state: str
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]

    @property
    def never_times_out(self) -> bool:
        """Whether it takes part in a two-phase commit."""
        return self.timeout_ms == NO_TIMEOUT


class Transactions:
    """The requests about transactional ids."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(
        self,
        *,
        states: Sequence[str] = (),
        longer_than_ms: int = -1,
        missed: list[int] | None = None,
    ) -> list[ListedTransaction]:
        """The transactional ids of all coordinators, in order.

        With `missed`, brokers that do not answer in time are noted there and left out.
        """
        request = ListTransactionsRequest(state_filters=states, duration_filter=longer_than_ms)

        def attempt(silent: list[int] | None = None) -> list[ListedTransaction]:
            found: list[ListedTransaction] = []
            for node_id in self._client.refresh().brokers:
                try:
                    found += self._list_at(node_id, request)
                except Unreachable:
                    if silent is None:
                        raise
                    silent.append(node_id)
            return sorted(found)

        try:
            # All brokers in one go: what a broker coordinates moves when it fails.
            return self._client.retrying(attempt)
        except Unreachable:
            if missed is None:
                raise
            return attempt(missed)

    def _list_at(
        self, node_id: int, request: ListTransactionsRequest
    ) -> Sequence[ListedTransaction]:
        answer = self._client.broker(node_id).call(request)
        require_accepted(answer, f"transactions of broker {node_id}")
        unknown = ", ".join(answer.unknown_state_filters)
        if unknown:
            raise RequestRefused(ErrorCode.invalid_request, "transactions", f"states: {unknown}")
        return [
            ListedTransaction(
                each.transactional_id, node_id, each.producer_id, each.transaction_state
            )
            for each in answer.transaction_states
        ]

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """What its coordinator knows."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        node_id, found = self._ask(
            transactional_id, request, lambda answer: answer.transaction_states[0]
        )
        started_ms = found.transaction_start_time_ms
        return DescribedTransaction(
            transactional_id,
            node_id,
            ProducerIdentity(found.producer_id, found.producer_epoch),
            found.transaction_state,
            found.transaction_timeout_ms,
            started_ms if started_ms > 0 else None,
            tuple(
                TopicPartition(topic.topic, partition)
                for topic in found.topics
                for partition in topic.partitions
            ),
        )

    def initialise(
        self,
        transactional_id: str,
        *,
        timeout_ms: int = 60_000,
        expected: ProducerIdentity | None = None,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> Initialised:
        """Become the producer of a transactional id, and fence whoever was."""
        known = expected or ProducerIdentity(-1, -1)
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
            enable2_pc=two_phase,
            keep_prepared_txn=keep_prepared,
        )
        _, found = self._ask(transactional_id, request, _itself)
        ongoing = None
        if found.ongoing_txn_producer_id >= 0:
            ongoing = ProducerIdentity(
                found.ongoing_txn_producer_id, found.ongoing_txn_producer_epoch
            )
        producer = ProducerIdentity(found.producer_id, found.producer_epoch)
        return Initialised(producer, ongoing)

    def end(
        self, transactional_id: str, producer: ProducerIdentity, *, commit: bool
    ) -> ProducerIdentity:
        """Commit or abort; the identity with which the producer goes on."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=commit,
        )
        _, found = self._ask(transactional_id, request, _itself)
        if found.producer_id < 0:  # a broker that leaves epochs to the client
            return producer
        return ProducerIdentity(found.producer_id, found.producer_epoch)

    def abort(self, transactional_id: str) -> DescribedTransaction:
        """Fence the producer of a transactional id and abort what it has open; how it was."""
        before = self.describe(transactional_id)
        self.initialise(
            transactional_id,
            timeout_ms=before.timeout_ms,
            two_phase=before.never_times_out,
        )
        return before

    def _ask(
        self,
        transactional_id: str,
        request: RequestMessage[ResponseT],
        read: Callable[[ResponseT], T],
    ) -> tuple[int, T]:
        """Ask the coordinator, wherever it is by then; its id, and what it said."""

        def attempt() -> tuple[int, T]:
            found = coordinator(self._client, transactional_id, KeyType.TRANSACTION)
            answer = read(found.connection.call(request))
            require_accepted(answer, f"transactional id {transactional_id}")
            return found.node_id, answer

        return self._client.retrying(attempt)


def _itself(answer: T) -> T:
    return answer
