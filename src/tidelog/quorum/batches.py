"""Metadata records in batches: how much goes into one, and how they are read back.

Invariant  Records that must take effect together stand in one batch, since a batch is written,
           replicated and recovered whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tidelog.model.errors import TidelogError
from tidelog.quorum.control_records import ControlRecord, new_control_record
from tidelog.records.builder import NewRecord, build_batch

MAX_BATCH_RECORDS: Final = 10_000
MAX_BATCH_BYTES: Final = 8 << 20
_RECORD_OVERHEAD: Final = 24
"""Lengths, deltas and attributes around a value, at most."""
_BATCH_OVERHEAD: Final = 61


class TooLargeForOneBatch(TidelogError):
    """The records must take effect together but do not fit one batch."""


def record_batch(
    values: Iterable[bytes], timestamp: int, *, base_offset: int = 0, leader_epoch: int = -1
) -> bytearray:
    """One batch of metadata records, all of the same time."""
    return build_batch(
        (NewRecord(None, value, timestamp) for value in values),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def control_batch(
    records: Iterable[ControlRecord],
    timestamp: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """One batch of the quorum's own records."""
    return build_batch(
        (new_control_record(record, timestamp) for record in records),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        control=True,
    )


def in_batches(values: Iterable[bytes], max_bytes: int = MAX_BATCH_BYTES) -> Iterator[list[bytes]]:
    """The values in as few runs as the limits of a batch allow."""
    run: list[bytes] = []
    size = _BATCH_OVERHEAD
    for value in values:
        needed = len(value) + _RECORD_OVERHEAD
        if run and (len(run) >= MAX_BATCH_RECORDS or size + needed > max_bytes):
            yield run
            run, size = [], _BATCH_OVERHEAD
        run.append(value)
        size += needed
    if run:
        yield run


def in_one_batch(values: Sequence[bytes]) -> Sequence[bytes]:
    """The values, if one batch may hold them all."""
    size = _BATCH_OVERHEAD + sum(len(value) + _RECORD_OVERHEAD for value in values)
    if len(values) > MAX_BATCH_RECORDS or size > MAX_BATCH_BYTES:
        raise TooLargeForOneBatch(
            f"{len(values)} records of {size} bytes must take effect together; "
            f"a batch holds {MAX_BATCH_RECORDS} records and {MAX_BATCH_BYTES} bytes"
        )
    return values
