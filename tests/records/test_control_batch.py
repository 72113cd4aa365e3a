from __future__ import annotations

import pytest

from tidelog.records.batch import CorruptBatch, read_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control_batch import (
    ControlKind,
    TransactionMarker,
    control_record,
    read_transaction_marker,
)
from tidelog.records.control_batch import end_txn_marker as marker_batch


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_says_how_the_transaction_ended_and_who_decided_it(committed: bool) -> None:
    batch = marker_batch(
        producer_id=7, producer_epoch=1, committed=committed, coordinator_epoch=5, timestamp=9
    )

    assert read_header(batch).is_control
    assert read_transaction_marker(batch) == TransactionMarker(committed, 5)


@pytest.mark.parametrize(
    "record",
    [
        control_record(ControlKind.LEADER_CHANGE, bytes(6), 0),
        control_record(ControlKind.COMMIT, b"", 0),
        NewRecord(None, None, 0),
        NewRecord(b"\0", bytes(6), 0),
    ],
)
def test_any_other_control_record_of_a_producer_is_corrupt(record: NewRecord) -> None:
    batch = build_batch([record], producer_id=7, producer_epoch=0, transactional=True, control=True)

    with pytest.raises(CorruptBatch):
        read_transaction_marker(batch)
