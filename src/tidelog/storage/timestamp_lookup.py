"""Finding records by their time.

Invariant  The answer is the first record at or above the log's start that is as late as asked;
           nothing at or above `up_to` is given away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.records.batch import BatchHeader
from tidelog.records.record import Record, records_of
from tidelog.storage.batch_scan import read_batch
from tidelog.storage.log_values import TimestampOffset
from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from tidelog.storage.segmented_log import SegmentedLog


def offset_for_timestamp(log: SegmentedLog, timestamp: int, up_to: int) -> TimestampOffset | None:
    """The first record below `up_to` whose timestamp is not before `timestamp`."""
    start = log.start_offset
    for slot in range(log.segments.slot_of(start), len(log.segments)):
        segment = log.segments[slot]
        if segment.max_timestamp < timestamp:
            continue
        for position, header in segment.headers_from_time(timestamp, start):
            if header.max_timestamp < timestamp or header.last_offset < start:
                continue
            found = _first_record(
                segment,
                position,
                header,
                lambda record: record.timestamp >= timestamp and record.offset >= start,
            )
            if found is not None:
                return found if found.offset < up_to else None
    return None


def max_timestamp_offset(log: SegmentedLog, up_to: int) -> TimestampOffset | None:
    """The first record with the largest timestamp in the log, if it lies below `up_to`."""
    latest = max(log.segments, key=lambda segment: segment.max_timestamp)
    if latest.max_timestamp < 0:
        return None
    timestamp = latest.max_timestamp
    for position, header in latest.headers_from(latest.max_timestamp_offset):
        if header.max_timestamp == timestamp:
            found = _first_record(
                latest, position, header, lambda record: record.timestamp == timestamp
            )
            return found if found is not None and found.offset < up_to else None
    return None


def _first_record(
    segment: Segment, position: int, header: BatchHeader, wanted: Callable[[Record], bool]
) -> TimestampOffset | None:
    batch = read_batch(segment.file, position, segment.size)
    for record in records_of(batch.data):
        if wanted(record):
            return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
    return None
