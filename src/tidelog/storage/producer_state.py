"""What a log remembers of its producers: sequences to refuse repeats, transactions to bound reads.

Invariant  The state is that of replaying the log up to its end, whoever wrote it: client,
           coordinator, leader or recovery. Checking changes nothing, updating refuses nothing.
Invariant  What a batch does to the state depends on the batch alone, so appending it and replaying
           it later give the same.
Invariant  A batch of a known producer and epoch is accepted once, and only right after the one
           before it. A repeat of one of the last five is answered with the offsets it has.
Invariant  A producer with an open transaction is never forgotten.
Invariant  Open transactions are kept in the order of their first offsets; one counts as unstable
           until its marker lies below the high watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tidelog.model.errors import Refusal
from tidelog.records.batch import CONTROL, TRANSACTIONAL, BatchHeader
from tidelog.records.control_batch import TransactionMarker, read_transaction_marker
from tidelog.storage.batch_scan import read_batch
from tidelog.storage.filesystem import Buffer, FileSystem
from tidelog.storage.producer import (
    NONE,
    Duplicate,
    Origin,
    ProducerStateEntry,
    check_batch,
    check_marker,
    stale_epoch,
)
from tidelog.storage.producer_snapshot import (
    CorruptSnapshotError,
    ProducerSnapshotEntry,
    ProducerSnapshots,
)
from tidelog.storage.segments import Segments
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.storage.transaction_verification import Verification, Verifications


class OpenTransactions:
    """First offsets of undecided transactions, and of decided ones not yet replicated."""

    __slots__ = ("_decided", "_open")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._decided: list[tuple[int, int]] = []  # marker offset, first offset

    def __len__(self) -> int:
        return len(self._open)

    def load(self, transactions: Iterable[tuple[int, int]]) -> None:
        """Start over with these (producer id, first offset), nothing decided."""
        self._open = dict(sorted(transactions, key=lambda transaction: transaction[1]))
        self._decided = []

    def begin(self, producer_id: int, first_offset: int) -> None:
        self._open[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int) -> None:
        """The transaction of this producer was decided by the marker at that offset."""
        first_offset = self._open.pop(producer_id)
        decided = self._decided
        # Markers are passed in their order: one passed earlier with a higher first offset will
        # never be the lowest again.
        while decided and decided[-1][1] >= first_offset:
            decided.pop()
        decided.append((marker_offset, first_offset))

    def first_open_besides(self, producer_id: int) -> int | None:
        """The first offset of the oldest open transaction of any other producer."""
        for producer, first_offset in self._open.items():
            if producer != producer_id:
                return first_offset
        return None

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest one begins that is undecided, or decided above the high watermark."""
        decided = self._decided
        while decided and decided[0][0] < high_watermark:
            del decided[0]
        first = next(iter(self._open.values())) if self._open else None
        if decided and (first is None or decided[0][1] < first):
            return decided[0][1]
        return first


PRODUCER_EXPIRY_MS: Final = 86_400_000
_CLIENT: Final = Origin.CLIENT
_REPLICA: Final = Origin.REPLICA


class ActiveProducer(NamedTuple):
    """One producer as DescribeProducers shows it; -1 stands for none."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class ProducerState:
    """The producers of one log, and the snapshots of them in its directory.

    With `verify_transactions` a client's write can begin a transaction only after the coordinator
    was asked (see `begin_verification`).
    """

    __slots__ = (
        "_producers",
        "_snapshot_offset",
        "_transactions",
        "_verifications",
        "expiry_ms",
        "snapshots",
        "verify_transactions",
    )

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        expiry_ms: int = PRODUCER_EXPIRY_MS,
        *,
        verify_transactions: bool = False,
    ) -> None:
        self.snapshots = ProducerSnapshots(files, directory)
        self.expiry_ms = expiry_ms
        self.verify_transactions = verify_transactions
        self._producers: dict[int, ProducerStateEntry] = {}
        self._transactions = OpenTransactions()
        self._verifications = Verifications()
        self._snapshot_offset = NONE

    def __len__(self) -> int:
        return len(self._producers)

    def knows(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def check(
        self, header: BatchHeader, origin: Origin, verification: Verification | None = None
    ) -> Duplicate | Refusal | None:
        """Whether a batch of records may be appended: None if so."""
        producer_id = header.producer_id
        if producer_id < 0 or origin >= _REPLICA:
            return None
        asked = self._verifications.of(producer_id)
        asks = self.verify_transactions and origin == _CLIENT
        if asks and header.attributes & TRANSACTIONAL:
            confirmed = verification is not None and verification is asked
        else:
            confirmed = True
        producer = self._producers.get(producer_id)
        return check_batch(header, producer, asked, confirmed=confirmed, client=origin == _CLIENT)

    def update(self, header: BatchHeader, first_offset: int, last_offset: int) -> None:
        """Take note of a batch of records that is now in the log at these offsets."""
        producer_id = header.producer_id
        if producer_id < 0:
            return
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = ProducerStateEntry(header.producer_epoch)
        if producer.add(header, first_offset, last_offset):
            self._transactions.begin(producer_id, first_offset)
        if header.attributes & TRANSACTIONAL:
            self._verifications.end(producer_id)

    def check_marker(
        self,
        header: BatchHeader,
        marker: TransactionMarker,
        origin: Origin,
        *,
        transaction_version: int = 1,
    ) -> Refusal | None:
        """Whether a batch that ends a transaction may be appended: None if so."""
        producer = self._producers.get(header.producer_id)
        if producer is None or origin >= _REPLICA:
            return None
        return check_marker(header, marker, producer, transaction_version)

    def end_transaction(
        self, header: BatchHeader, marker: TransactionMarker, offset: int
    ) -> AbortedTransaction | None:
        """Take note of a marker that is now in the log at `offset`.

        An aborted transaction comes back, to be added to the transaction index of the segment.
        """
        producer_id = header.producer_id
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = ProducerStateEntry(header.producer_epoch)
        first_offset = producer.transaction_start
        producer.end_transaction(header.producer_epoch, marker, header.max_timestamp)
        self._verifications.transaction_ended(producer_id, header.producer_epoch)
        if first_offset == NONE:  # nothing was written here: nothing becomes stable or aborted
            return None
        next_open = self._transactions.first_open_besides(producer_id)
        self._transactions.end(producer_id, offset)
        if marker.committed:
            return None
        stable = offset + 1 if next_open is None else next_open
        return AbortedTransaction(producer_id, first_offset, offset, stable)

    def note(
        self, header: BatchHeader, first_offset: int, data: Buffer
    ) -> AbortedTransaction | None:
        """Take note of any producer's batch that is now in the log at `first_offset`.

        The transaction that it aborts comes back, if it does that. `data` is looked at for control
        batches only.
        """
        last_offset = first_offset + header.last_offset_delta
        if not header.attributes & CONTROL:
            self.update(header, first_offset, last_offset)
            return None
        marker = read_transaction_marker(data)
        return None if marker is None else self.end_transaction(header, marker, last_offset)

    def replay(self, segments: Segments, start: int, end: int) -> None:
        """Take note of every batch in [start, end); only markers are read in full."""
        if start >= end:
            return
        for slot in range(segments.slot_of(start), segments.slot_of(end - 1) + 1):
            segment = segments[slot]
            for position, header in segment.headers_from(start):
                if header.base_offset >= end:
                    return
                if header.base_offset >= start and header.producer_id >= 0:
                    data: Buffer = b""
                    if header.attributes & CONTROL:
                        data = read_batch(segment.file, position, segment.size).data
                    self.note(header, header.base_offset, data)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction begins that is open, or ended above the high watermark."""
        return self._transactions.first_unstable_offset(high_watermark)

    def begin_verification(
        self,
        header: BatchHeader,
        wall_ms: int,
        *,
        epoch_per_transaction: bool,
    ) -> Verification | Refusal | None:
        """What a transactional batch must be checked with once the coordinator has confirmed it.

        None when its transaction is under way here already, so that nobody needs to be asked; and
        nobody is asked for an epoch that is over, lest the question stands in the way of others.
        """
        return self._begin_verification(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            wall_ms,
            epoch_per_transaction=epoch_per_transaction,
        )

    def begin_offsets_verification(
        self, producer_id: int, epoch: int, wall_ms: int, *, epoch_per_transaction: bool
    ) -> Verification | Refusal | None:
        """The same for offsets, which a group coordinator writes in a producer's transaction."""
        return self._begin_verification(
            producer_id, epoch, NONE, wall_ms, epoch_per_transaction=epoch_per_transaction
        )

    def _begin_verification(
        self,
        producer_id: int,
        epoch: int,
        sequence: int,
        wall_ms: int,
        *,
        epoch_per_transaction: bool,
    ) -> Verification | Refusal | None:
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            return stale_epoch(producer_id, epoch, producer)
        if producer is not None and producer.in_transaction(epoch):
            return None
        return self._verifications.begin(
            producer_id, epoch, sequence, wall_ms, epoch_per_transaction=epoch_per_transaction
        )

    def is_confirmed(self, producer_id: int, epoch: int, verification: Verification) -> bool:
        """Whether the answer to this question still holds: no end was written meanwhile."""
        asked = self._verifications.of(producer_id)
        return asked is verification or self._is_in_transaction(producer_id, epoch)

    def _is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        producer = self._producers.get(producer_id)
        return producer is not None and producer.in_transaction(epoch)

    def expire(self, wall_ms: int) -> int:
        """Forget the producers that were silent for too long; how many those were."""
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if self._is_expired(producer.last_timestamp, producer.transaction_start, wall_ms)
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        self._verifications.expire(wall_ms - self.expiry_ms)
        return len(expired)

    def active(self) -> Iterator[ActiveProducer]:
        """Every producer known here, for DescribeProducers."""
        for producer_id, producer in self._producers.items():
            yield ActiveProducer(
                producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.transaction_start,
            )

    def last_offsets(self) -> Iterator[tuple[int, int | None, int]]:
        """Each producer with the offset its last batch ends at, if it is known, and its epoch."""
        for producer_id, producer in self._producers.items():
            last = producer.batches[-1].last_offset if producer.batches else None
            yield producer_id, last, producer.epoch

    def load(self, start_offset: int, end_offset: int, wall_ms: int) -> int:
        """Go back to the newest usable snapshot of a log that spans these offsets.

        For start-up and for truncation alike. Snapshots outside of the log, and damaged ones, are
        removed. The caller has to replay the log from the offset that comes back.
        """
        self._forget()
        offsets = self.snapshots.offsets()
        outside = [at for at in offsets if not start_offset < at <= end_offset]
        self.snapshots.remove(outside)
        for offset in sorted(set(offsets).difference(outside), reverse=True):
            try:
                entries = self.snapshots.read(offset)
            except CorruptSnapshotError:
                self.snapshots.remove([offset])
            else:
                self._restore(entries, wall_ms)
                self._snapshot_offset = offset
                return offset
        return start_offset

    def clear(self) -> None:
        """Forget every producer and remove every snapshot: the log starts over."""
        self._forget()
        self.snapshots.remove(self.snapshots.offsets())

    def take_snapshot(self, offset: int) -> str:
        """Write what is known at the end of the log, `offset`; the path of the file.

        Not durable before `snapshots.sync(offset)`. Written once per offset.
        """
        if offset == self._snapshot_offset and self.snapshots.exists(offset):
            return self.snapshots.path(offset)
        entries = (producer.to_entry(number) for number, producer in self._producers.items())
        path = self.snapshots.write(offset, entries)
        self._snapshot_offset = offset
        return path

    def moved_to(self, directory: str) -> None:
        """The log's directory was renamed: go by the new name from now on."""
        self.snapshots.directory = directory

    def _restore(self, entries: list[ProducerSnapshotEntry], wall_ms: int) -> None:
        alive = [
            entry
            for entry in entries
            if not self._is_expired(entry.timestamp, entry.current_txn_first_offset, wall_ms)
        ]
        self._producers = {
            entry.producer_id: ProducerStateEntry.from_entry(entry) for entry in alive
        }
        self._transactions.load(
            (entry.producer_id, entry.current_txn_first_offset)
            for entry in alive
            if entry.current_txn_first_offset != NONE
        )

    def _is_expired(self, last_timestamp: int, transaction_start: int, wall_ms: int) -> bool:
        return transaction_start == NONE and wall_ms - last_timestamp >= self.expiry_ms

    def _forget(self) -> None:
        self._producers = {}
        self._transactions.load(())
        self._verifications = Verifications()
        self._snapshot_offset = NONE
