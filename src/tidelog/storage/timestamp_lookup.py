"""Finding records by their time.

Invariant  The answer is the first record at or above the log's start that is as late as asked;
           nothing at or above `up_to` is given away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.records.batch import BatchHeader
from tidelog.records.record import records_of
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
            found = _first_record(segment, position, header, timestamp, start)
            if found is not None:
                return found if found.offset < up_to else None
    return None


def max_timestamp_offset(log: SegmentedLog, up_to: int) -> TimestampOffset | None:
    """The first record with the largest timestamp in the log, if it lies below `up_to`."""
    start, latest = log.start_offset, None
    for slot in range(log.segments.slot_of(start), len(log.segments)):
        segment = log.segments[slot]
        if latest is None or segment.max_timestamp > latest.timestamp:
            found = _latest_in(segment, max(start, segment.base_offset))
            if found is not None and (latest is None or found.timestamp > latest.timestamp):
                latest = found
    return latest if latest is not None and latest.offset < up_to else None


def _latest_in(segment: Segment, start: int) -> TimestampOffset | None:
    """The first record at or above `start` with the largest timestamp in a segment."""
    whole = start == segment.base_offset
    latest: TimestampOffset | None = None
    for position, header in segment.headers_from(segment.max_timestamp_offset if whole else start):
        if header.last_offset < start or (latest and header.max_timestamp <= latest.timestamp):
            continue
        found = _latest_record(segment, position, header, start)
        if found is not None and (latest is None or found.timestamp > latest.timestamp):
            latest = found
        if whole and latest is not None and latest.timestamp == segment.max_timestamp:
            break
    return latest if latest is not None and latest.timestamp >= 0 else None


def _latest_record(
    segment: Segment, position: int, header: BatchHeader, start: int
) -> TimestampOffset | None:
    batch = read_batch(segment.file, position, segment.size)
    records = [record for record in records_of(batch.data) if record.offset >= start]
    if not records:
        return None
    latest = max(records, key=lambda record: record.timestamp)
    return TimestampOffset(latest.timestamp, latest.offset, header.leader_epoch)


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start: int
) -> TimestampOffset | None:
    batch = read_batch(segment.file, position, segment.size)
    for record in records_of(batch.data):
        if record.timestamp >= timestamp and record.offset >= start:
            return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
    return None
