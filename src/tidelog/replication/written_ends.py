"""Which ends of transactions a leader has written, so that an order that comes twice counts once.

A producer that keeps its epoch may be in its next transaction when a copy of the order to end the
last one arrives, from a connection that its sender gave up long ago. Nothing in the log tells the
two apart; that the coordinator decides one end after the other does.

Invariant  Of the ends that a coordinator decides for one producer in one of its epochs, each is
           written once per leader epoch, and none after a later one.
Invariant  What is remembered is bounded by the producers that the log knows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.records.control_batch import end_txn_marker
from tidelog.storage.log_values import Appended
from tidelog.storage.producer_state import ProducerState

UNTOLD: Final = -1
"""In place of the moment of a decision: the coordinator does not say."""
_FEW: Final = 64


class TransactionEnd(NamedTuple):
    """The end of a producer's transaction, as its coordinator decided it."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int
    decided_ms: int = UNTOLD
    """Rises with every end of this producer, whatever clocks do."""

    def batch(self, timestamp: int) -> bytearray:
        """The control batch that says so."""
        return end_txn_marker(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=self.committed,
            coordinator_epoch=self.coordinator_epoch,
            timestamp=timestamp,
        )


class _Written(NamedTuple):
    coordinator_epoch: int
    decided_ms: int
    appended: Appended


class WrittenEnds:
    """The last end of each producer that was written in one leader epoch."""

    __slots__ = ("_by_producer", "_producers")

    def __init__(self, producers: ProducerState) -> None:
        self._producers = producers
        self._by_producer: dict[int, _Written] = {}

    def repeated(self, end: TransactionEnd) -> Appended | None:
        """Where this end, or a later one, stands already."""
        written = self._by_producer.get(end.producer_id)
        if written is None or end.decided_ms == UNTOLD:
            return None
        if end.coordinator_epoch != written.coordinator_epoch:
            return None
        return written.appended if end.decided_ms <= written.decided_ms else None

    def note(self, end: TransactionEnd, appended: Appended) -> None:
        """It stands in the log now."""
        if end.decided_ms == UNTOLD:
            return
        stands = appended._replace(duplicate=True)
        known = self._by_producer
        known[end.producer_id] = _Written(end.coordinator_epoch, end.decided_ms, stands)
        if len(known) > _FEW + 2 * len(self._producers):
            self._by_producer = {
                producer_id: written
                for producer_id, written in known.items()
                if self._producers.knows(producer_id)
            }
