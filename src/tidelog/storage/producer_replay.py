"""Bringing producer state up to date from batches that are in the log.

Invariant  What a batch does to producer state depends on the batch alone, so appending it and
           replaying it later give the same.
"""

from __future__ import annotations

from tidelog.records.batch import CONTROL, BatchHeader
from tidelog.records.control_batch import read_transaction_marker
from tidelog.storage.batch_scan import read_batch
from tidelog.storage.filesystem import Buffer
from tidelog.storage.producer_state import ProducerState
from tidelog.storage.segments import Segments
from tidelog.storage.transaction_index import AbortedTransaction


def note_batch(
    producers: ProducerState, header: BatchHeader, first_offset: int, data: Buffer
) -> AbortedTransaction | None:
    """Take note of a producer's batch at `first_offset`; the transaction that it aborts, if any."""
    last_offset = first_offset + header.last_offset_delta
    if not header.attributes & CONTROL:
        producers.update(header, first_offset, last_offset)
        return None
    marker = read_transaction_marker(data)
    return None if marker is None else producers.end_transaction(header, marker, last_offset)


def replay(producers: ProducerState, segments: Segments, start: int, end: int) -> None:
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
                note_batch(producers, header, header.base_offset, data)
