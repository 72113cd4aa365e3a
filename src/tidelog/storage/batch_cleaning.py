"""What compaction leaves of one batch.

Invariant  The newest record of a key stays, unless it is a tombstone whose time is over; so does
           every record that the offset map does not reach.
Invariant  A tombstone, or the marker of a transaction without data, is first given a horizon and
           goes only in a pass after it: whoever reads slowly gets to see it for
           `delete.retention.ms`.
Invariant  The last batch of a producer, and of each segment that is written, keeps its place even
           without records: sequences and epochs survive, and one segment ends where the next one
           begins, so that a start after a crash knows what the cleaner took from what was lost.
Invariant  What is known of a key comes from one unbroken range of offsets, which ends at the
           map's `end_offset`; keys take a bounded amount of memory, however long they are.
Invariant  A marker is spent only when no batch of its transaction was met in this pass: as long as
           there may be data, readers need to know how it ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import md5
from typing import Final, NamedTuple

from tidelog.records.batch import BatchHeader
from tidelog.records.control_batch import TransactionMarker, read_transaction_marker
from tidelog.records.fields import RecordFields
from tidelog.records.rewriting import OpenedBatch, open_batch, with_records, without_records
from tidelog.storage.filesystem import Buffer
from tidelog.storage.transaction_index import AbortedTransaction

NONE: Final = -1
BYTES_PER_KEY: Final = 200
"""What one key costs here: its digest, its offset and their place in the table."""
_DIGEST_BYTES: Final = 16


class OffsetMap:
    """The newest offset of every key in the part of a log that is yet to be cleaned.

    Long keys are known by a digest; short ones, which cannot be taken for one, as they are.
    """

    __slots__ = ("_max_keys", "_offsets", "end_offset")

    def __init__(self, start_offset: int, max_keys: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._max_keys = max_keys
        self.end_offset = start_offset

    def __len__(self) -> int:
        return len(self._offsets)

    def has_room_for(self, count: int) -> bool:
        """Whether so many keys more fit; an empty map takes any number, to get on at all."""
        return not self._offsets or len(self._offsets) + count <= self._max_keys

    def put(self, key: bytes, offset: int) -> None:
        """Note a record; offsets must rise."""
        self._offsets[_name_of(key)] = offset

    def latest(self, key: bytes) -> int:
        """The newest offset of a key, -1 when it does not occur."""
        return self._offsets.get(_name_of(key), NONE)


def _name_of(key: bytes) -> bytes:
    if len(key) < _DIGEST_BYTES:
        return key
    return md5(key, usedforsecurity=False).digest()


class CleanedTransactions:
    """Who has a transaction under way at the offset that the pass has reached.

    Batches must be shown in the order of their offsets.
    """

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


class LastBatch(NamedTuple):
    """Where a producer's state is kept in the log: its last batch, or a marker of its epoch."""

    last_offset: int | None
    epoch: int


class BatchCleaning:
    """The rules of one pass; batches must be shown in the order of their offsets."""

    __slots__ = (
        "_delete_retention_ms",
        "_keys",
        "_last_batches",
        "_transactions",
        "_wall_ms",
        "aborted",
        "segment_end",
    )

    def __init__(
        self,
        keys: OffsetMap,
        transactions: CleanedTransactions,
        last_batches: Mapping[int, LastBatch],
        wall_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._keys = keys
        self._transactions = transactions
        self._last_batches = last_batches
        self._wall_ms = wall_ms
        self._delete_retention_ms = delete_retention_ms
        self.aborted: list[AbortedTransaction] = []
        """What the transaction index of the cleaned segments must say; taken by whoever writes."""
        self.segment_end = 0
        """Where the segment ends that is being written; set by whoever writes."""

    def clean(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """The batch as it goes on: untouched, with fewer records, with none, or not at all."""
        if header.is_control:
            return self._clean_marker(header, batch)
        if self._transactions.holds_aborted(header):
            return self._place_of(header)
        opened = open_batch(header, batch)
        kept = [record for record in opened.fields if self._stays(opened, record)]
        if not kept:
            return self._place_of(header)
        has_tombstone = any(record.value_length < 0 for record in kept)
        sets_horizon = has_tombstone and not header.has_delete_horizon
        if len(kept) == header.record_count and not sets_horizon:
            return batch
        return with_records(opened, kept, self._horizon_of(header, sets_horizon))

    def _clean_marker(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        marker = read_transaction_marker(batch)
        is_spent, aborted = self._transactions.end(header, marker)
        if aborted is not None:
            self.aborted.append(aborted)
        if not is_spent:
            return batch
        if marker is None or self._is_past_horizon(header):
            return self._place_of(header)
        if header.has_delete_horizon:
            return batch
        opened = open_batch(header, batch)
        return with_records(opened, opened.fields, self._horizon_of(header, True))

    def _stays(self, batch: OpenedBatch, record: RecordFields) -> bool:
        offset = batch.header.base_offset + record.offset_delta
        if offset >= self._keys.end_offset:
            return True
        key = batch.key(record)
        if key is None or offset < self._keys.latest(key):
            return False
        return record.value_length >= 0 or not self._is_past_horizon(batch.header)

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._wall_ms

    def _horizon_of(self, header: BatchHeader, sets_horizon: bool) -> int | None:
        if sets_horizon:
            return self._wall_ms + self._delete_retention_ms
        return header.base_timestamp if header.has_delete_horizon else None

    def _place_of(self, header: BatchHeader) -> bytearray | None:
        """An empty batch where something depends on its place, else nothing."""
        if header.next_offset == self.segment_end or self._is_last_of_producer(header):
            return without_records(header)
        return None

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._last_batches.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.last_offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return header.last_offset == last.last_offset
