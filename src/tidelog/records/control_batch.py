"""Control batches: one record that brokers and consumers act on instead of reading it.

The key says what it is; a transaction marker is the control record that ends a producer's
transaction in a partition.

Invariant  A control batch of a producer holds a transaction marker, or nothing after compaction.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from tidelog.records.batch import CorruptBatch
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import records_of

_CONTROL_KEY: Final = Struct(">hh")
_CONTROL_VERSION: Final = 0
_END_TXN_VALUE: Final = Struct(">hi")
_END_TXN_VERSION: Final = 0


class ControlKind(IntEnum):
    """What a control record tells; the value is the type in its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CONTROL_KINDS: Final = {int(kind): kind for kind in ControlKind}


def control_record(kind: ControlKind, value: bytes, timestamp: int) -> NewRecord:
    """The one record of a control batch; how `value` is laid out depends on the kind."""
    return NewRecord(_CONTROL_KEY.pack(_CONTROL_VERSION, kind), value, timestamp)


def control_kind(key: bytes | None) -> ControlKind | None:
    """What a control record's key says; None for a kind or version we do not know."""
    if key is None or len(key) < _CONTROL_KEY.size:
        return None
    version, kind = _CONTROL_KEY.unpack_from(key)
    return _CONTROL_KINDS.get(kind) if version >= _CONTROL_VERSION else None


def end_txn_marker(
    *,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The control batch that ends a producer's transaction on one partition."""
    kind = ControlKind.COMMIT if committed else ControlKind.ABORT
    value = _END_TXN_VALUE.pack(_END_TXN_VERSION, coordinator_epoch)
    return build_batch(
        [control_record(kind, value, timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def coordinator_epoch_of(value: bytes | None) -> int | None:
    """The coordinator epoch in the value of an end-of-transaction marker; None if there is none."""
    if value is None or len(value) < _END_TXN_VALUE.size:
        return None
    _, epoch = _END_TXN_VALUE.unpack_from(value)
    return int(epoch)


class TransactionMarker(NamedTuple):
    """How a transaction ended, as decided by the coordinator of that epoch."""

    committed: bool
    coordinator_epoch: int


def read_transaction_marker(batch: memoryview | bytes | bytearray) -> TransactionMarker | None:
    """The marker in a control batch of a producer; None when compaction left it empty."""
    record = next(iter(records_of(batch)), None)
    if record is None:
        return None
    kind = control_kind(record.key)
    coordinator_epoch = coordinator_epoch_of(record.value)
    if kind not in (ControlKind.ABORT, ControlKind.COMMIT) or coordinator_epoch is None:
        raise CorruptBatch("a control record of a producer does not end a transaction")
    return TransactionMarker(kind == ControlKind.COMMIT, coordinator_epoch)
