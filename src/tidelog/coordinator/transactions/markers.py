"""What a coordinator asks of the brokers that lead the partitions of an ended transaction."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from tidelog.coordinator.decision import Producer
from tidelog.model.ids import TopicPartition


class EndedTransaction(NamedTuple):
    """A transaction whose end is decided for good, and where that is to be written."""

    transactional_id: str
    producer: Producer
    commit: bool
    partitions: frozenset[TopicPartition]
    decided_ms: int
    """When; one producer may end several transactions in one epoch, each later than the last."""
    coordinator_epoch: int
    version: int


class MarkerWriter(Protocol):
    """Gets markers written, however long that takes; then `TransactionShard.complete` is due."""

    def write(self, ended: EndedTransaction) -> None:
        """Have the end written in every partition of the transaction."""
        ...

    def forget(self, transactional_ids: Collection[str]) -> None:
        """Another coordinator goes on with these."""
        ...
