"""What compaction must leave of a partition: the newest committed record of every key.

Invariant  A record counts for its key once it is committed and, in a transaction, once that is.
Invariant  Committed batches are read once, in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.records.batch import BatchHeader, read_header
from tidelog.records.control_batch import read_transaction_marker
from tidelog.records.record import Record, records_of
from tidelog.simulator.rules.held_log import HeldBatch


class NewestRecords:
    """By key, the offset of the record that a reader ends up with."""

    def __init__(self) -> None:
        self._newest: dict[bytes | None, int] = {}
        self._aborted: set[int] = set()
        self._open: dict[int, list[Record]] = {}
        self._next = 0

    def follow(self, committed: Sequence[HeldBatch]) -> None:
        """Read what was committed since the last time."""
        for batch in committed[self._next :]:
            header = read_header(batch.data)
            if header.is_control:
                marker = read_transaction_marker(batch.data)
                records = self._open.pop(header.producer_id, [])
                self._count(records if marker is not None and marker.committed else ())
                if marker is not None and not marker.committed:
                    self._aborted.update(record.offset for record in records)
            elif header.is_transactional:
                self._open.setdefault(header.producer_id, []).extend(_records(batch))
            else:
                self._count(_records(batch))
        self._next = len(committed)

    def has_dropped(self, original: HeldBatch, batch: HeldBatch | None) -> bool:
        """Whether a replica that has `batch` in the place of a committed one lacks what counts."""
        if batch is not None and batch.data == original.data:
            return False
        if batch is not None and not is_thinned(batch.data, original.data):
            return True
        kept = set() if batch is None else {record.offset for record in _records(batch)}
        if read_header(original.data).is_control:
            return False
        return any(
            record.offset not in kept and self._is_needed(record) for record in _records(original)
        )

    def _is_needed(self, record: Record) -> bool:
        """Tombstones may go in their time."""
        return (
            record.value is not None
            and record.offset not in self._aborted
            and self._newest.get(record.key, -1) <= record.offset
        )

    def _count(self, records: Sequence[Record]) -> None:
        for record in records:
            self._newest[record.key] = max(record.offset, self._newest.get(record.key, -1))


def is_thinned(data: bytes, original: bytes) -> bool:
    """Whether a batch is another one with nothing changed but that records are missing."""
    if _place(read_header(data)) != _place(read_header(original)):
        return False
    there = {record.offset: record for record in records_of(memoryview(original))}
    return all(there.get(record.offset) == record for record in records_of(memoryview(data)))


def _place(header: BatchHeader) -> tuple[int | bool, ...]:
    """What a batch keeps whatever is taken out of it."""
    return (
        header.base_offset,
        header.next_offset,
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
        header.is_control,
    )


def _records(batch: HeldBatch) -> list[Record]:
    return list(records_of(memoryview(batch.data)))
