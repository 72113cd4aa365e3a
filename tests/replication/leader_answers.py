"""What a leader says to a follower that is alone on its bench."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.errors import ErrorCode
from tidelog.records.builder import NewRecord, build_batch
from tidelog.replication.messages import LeaderAnswer, LeaderOffsets

if TYPE_CHECKING:
    from tests.replication.conftest import PartitionBench


def batch(offset: int, *values: bytes, epoch: int = 1) -> bytearray:
    records = [NewRecord(b"key", value, 1) for value in values or (b"a",)]
    return build_batch(records, base_offset=offset, leader_epoch=epoch)


def answer(
    bench: PartitionBench,
    *batches: bytearray,
    high_watermark: int = 0,
    start: int = 0,
    error: ErrorCode = ErrorCode.none,
) -> LeaderAnswer:
    """What the leader says to a fetch in the state the follower is in."""
    state = bench.follower.fetch_state
    records = memoryview(bytearray().join(batches)) if batches else None
    return LeaderAnswer(state, error, high_watermark, start, records)


def offsets(bench: PartitionBench, start: int, end: int) -> LeaderOffsets:
    """Where the leader says that its log lies."""
    return LeaderOffsets(bench.follower.fetch_state, start, end)
