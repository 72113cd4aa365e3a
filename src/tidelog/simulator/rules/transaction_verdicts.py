"""How the transactions of one partition ended, as its committed batches tell.

Invariant  Committed batches are read once, in order: what has ended stays as it ended.
"""

from __future__ import annotations

from collections import Counter

from tidelog.model.ids import TopicPartition
from tidelog.records.batch import BatchHeader, read_header
from tidelog.records.control_batch import TransactionMarker, read_transaction_marker
from tidelog.records.record import records_of
from tidelog.simulator.rules.ghost import PartitionGhost
from tidelog.simulator.rules.violation import Violation


class TransactionVerdicts:
    """What a reader of committed records may see of one partition, and what is still open."""

    def __init__(self, name: TopicPartition) -> None:
        self.visible: dict[int, bytes] = {}
        """The values of committed transactions, by offset."""
        self._name = name
        self._next = 0
        self._open: dict[int, dict[int, bytes]] = {}
        self._coordinator_epochs: dict[int, int] = {}

    @property
    def first_open(self) -> int | None:
        """The first offset of a transaction that has not ended."""
        return min((min(records) for records in self._open.values()), default=None)

    @property
    def counts(self) -> Counter[bytes]:
        """How often each value is visible."""
        return Counter(self.visible.values())

    def follow(self, ghost: PartitionGhost) -> None:
        """Read what was committed since the last time."""
        for batch in ghost.committed[self._next :]:
            header = read_header(batch.data)
            if header.is_control:
                self._end(header, read_transaction_marker(batch.data))
            elif header.is_transactional:
                records = self._open.setdefault(header.producer_id, {})
                for record in records_of(memoryview(batch.data)):
                    records[record.offset] = record.value or b""
        self._next = len(ghost.committed)

    def foresee(self, ghost: PartitionGhost) -> TransactionVerdicts:
        """What will be known once all that some replica held when it was loaded is committed.

        A replica that is started again takes every end of a transaction in its log for replicated,
        as its snapshots do not tell which are. The coordinator has decided them, and repeats them.
        """
        foreseen = TransactionVerdicts(self._name)
        foreseen.visible = dict(self.visible)
        foreseen._open = {producer: dict(records) for producer, records in self._open.items()}
        for held in ghost.held.values():
            for batch in held.batches:
                header = read_header(batch.data)
                is_due = ghost.true_high_watermark <= batch.base_offset < held.loaded_end
                if is_due and header.is_control:
                    foreseen._end(header, read_transaction_marker(batch.data))
        return foreseen

    def _end(self, header: BatchHeader, marker: TransactionMarker | None) -> None:
        records = self._open.pop(header.producer_id, {})
        if marker is None:
            return
        last = self._coordinator_epochs.get(header.producer_id, -1)
        if marker.coordinator_epoch < last:
            which = f"producer {header.producer_id} at {header.base_offset} of {self._name}"
            why = f"coordinator epoch {marker.coordinator_epoch} ends a transaction after {last}"
            raise Violation("T8", f"{which}: {why}")
        self._coordinator_epochs[header.producer_id] = marker.coordinator_epoch
        if marker.committed:
            self.visible.update(records)
