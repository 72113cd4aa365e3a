"""Transactions as a cleaning pass meets them on its way through a log.

Invariant  Batches are shown in the order of their offsets.
Invariant  A marker is spent only when no batch of its transaction was met in this pass: as long as
           there may be data, readers need to know how it ended.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.records.batch import BatchHeader
from tidelog.records.control_batch import TransactionMarker
from tidelog.storage.transaction_index import AbortedTransaction


class CleanedTransactions:
    """Who has a transaction under way at the offset that the pass has reached."""

    __slots__ = ("_aborted", "_committed", "_met", "_waiting")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()
        self._committed: set[int] = set()

    def holds_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to a transaction that was aborted."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        producer_id = header.producer_id
        if producer_id in self._aborted:
            self._met.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def end(
        self, header: BatchHeader, marker: TransactionMarker | None
    ) -> tuple[bool, AbortedTransaction | None]:
        """Whether a marker is spent; and if not, what the transaction index must go on saying."""
        self._reach(header.last_offset)
        producer_id = header.producer_id
        if marker is None:
            return True, None
        if marker.committed:
            is_spent = producer_id not in self._committed
            self._committed.discard(producer_id)
            return is_spent, None
        aborted = self._aborted.pop(producer_id, None)
        if producer_id not in self._met:
            return True, None
        self._met.discard(producer_id)
        return False, aborted

    def _reach(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            aborted = self._waiting.pop()
            self._aborted[aborted.producer_id] = aborted
