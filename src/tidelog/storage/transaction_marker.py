"""The control record that ends a transaction in a partition."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.records.batch import CorruptBatch
from tidelog.records.builder import ControlKind, control_kind, coordinator_epoch_of
from tidelog.records.record import records_of


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
