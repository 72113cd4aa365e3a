"""Replaying the log of an internal topic into its coordinator, a piece at a time.

Invariant  What is replayed is everything the log held when the leader's epoch began, in order, save
           what was deleted since; a batch that cannot be read, or is not there, ends it, because a
           coordinator with a gap would lie.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.shard import CoordinatorShard, Marker
from tidelog.model.errors import DiskError
from tidelog.protocol.primitives import MalformedRequest
from tidelog.records.batch import BatchHeader, CorruptBatch, whole_batches
from tidelog.records.control_batch import ControlKind, control_kind
from tidelog.records.record import records_of
from tidelog.storage.partition_log import PartitionLog

T = TypeVar("T")

PIECE_BYTES: Final = 256 * 1024
"""Little enough that a loop which replays it answers others within some tens of milliseconds."""


class ReplayedLog(Generic[T]):
    """How far a log has been replayed."""

    def __init__(self, log: PartitionLog, shard: CoordinatorShard[T], max_bytes: int) -> None:
        self._log = log
        self._shard = shard
        self._piece_bytes = min(max_bytes, PIECE_BYTES)
        self._next = log.start_offset
        self._end = log.end_offset
        self.records = 0
        self.damage: str | None = None
        """Why the log cannot be replayed to its end."""

    def replay_piece(self) -> bool:
        """Replay some more; True when there is no more to come."""
        self._next = max(self._next, self._log.start_offset)
        if self._next >= self._end:
            return True
        try:
            self._next = self._replay_from(self._next)
        except (CorruptBatch, DiskError, MalformedRequest) as error:
            self.damage = f"{self._log.partition} cannot be read at {self._next}: {error}"
            return True
        return self._next >= self._end

    def _replay_from(self, offset: int) -> int:
        """Replay one slice of the log; the offset behind it."""
        found = self._log.read(offset, self._piece_bytes, self._end)
        if found is None:
            raise CorruptBatch(f"there is nothing below {self._end}")
        for header, batch in whole_batches(found.read()):
            if header.next_offset > offset:
                self._replay_batch(header, batch)
                offset = header.next_offset
        return offset

    def _replay_batch(self, header: BatchHeader, batch: memoryview) -> None:
        producer = None
        if header.is_transactional:
            producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        for record in records_of(batch):
            if header.is_control:
                kind = control_kind(record.key)
                if producer is not None and kind in (ControlKind.COMMIT, ControlKind.ABORT):
                    self._shard.replay_marker(Marker(producer, kind is ControlKind.COMMIT))
            elif record.key is not None:
                decoded = self._shard.decode(record.key, record.value)
                if decoded is not None:
                    self._shard.replay(decoded, producer)
            self.records += 1
