"""What a follower takes from a fetch answer.

Invariant  Every batch taken was checked: checksum, offsets that go on from the log's end, an epoch
           that is not below the one before it, markers that can be read.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model.ids import TopicPartition
from tidelog.records.batch import BatchHeader, CorruptBatch, crc_matches, whole_batches
from tidelog.records.control_batch import read_transaction_marker


class FetchedBatches(NamedTuple):
    """Whole batches that fit behind a log."""

    batches: list[tuple[BatchHeader, memoryview]]
    data: memoryview
    max_timestamp: int
    ends_behind_gap: bool
    """The last batch does not begin where the one before it ends: the leader's log is, or once was,
    a compacted one."""


def split_fetched(
    partition: TopicPartition,
    data: memoryview,
    fetch_epoch: int,
    *,
    log_start: int,
    log_end: int,
    latest_epoch: int,
) -> FetchedBatches | None:
    """The batches of a fetch answer up to the first of a later epoch than `fetch_epoch`.

    They must fit behind a log that spans these offsets and ends in that epoch; `CorruptBatch` if
    not. A batch at the end that is only there in part is left out. The first batch of an empty log
    may begin before the log does: the leader's log start lies inside that batch.
    """
    taken: list[tuple[BatchHeader, memoryview]] = []
    expected, size, max_timestamp = log_end, 0, -1
    is_behind_gap = False
    epoch = latest_epoch
    for header, batch in whole_batches(data):
        if header.leader_epoch > fetch_epoch:
            break
        if not crc_matches(batch):
            raise CorruptBatch(f"{partition}: checksum of the batch at {header.base_offset}")
        straddles = not taken and log_start == expected and header.last_offset >= expected
        if header.last_offset_delta < 0 or (header.base_offset < expected and not straddles):
            raise CorruptBatch(
                f"{partition}: fetched offsets {header.base_offset} to {header.last_offset} "
                f"do not follow {expected}"
            )
        if header.leader_epoch < epoch:
            raise CorruptBatch(
                f"{partition}: batch at {header.base_offset} has epoch {header.leader_epoch} "
                f"behind epoch {epoch}"
            )
        if header.is_control and header.has_producer_id:
            read_transaction_marker(batch)  # or raise before anything is written
        taken.append((header, batch))
        is_behind_gap = header.base_offset > expected
        expected, epoch = header.next_offset, header.leader_epoch
        size += header.size
        max_timestamp = max(max_timestamp, header.max_timestamp)
    return FetchedBatches(taken, data[:size], max_timestamp, is_behind_gap) if taken else None
