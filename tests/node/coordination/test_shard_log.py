"""Replaying the log of an internal topic while it changes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.storage.conftest import LogBench

from tidelog.node.coordination.shard_log import PIECE_BYTES, ReplayedLog
from tidelog.records.batch import read_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.validation import AcceptedBatch

BATCHES = 3


class Recording:
    """A coordinator that remembers which keys it was shown."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    def decode(self, key: bytes, value: bytes | None) -> bytes:
        return key

    def replay(self, record: bytes, producer: object) -> None:
        self.keys.append(record)


@pytest.fixture
def bench() -> LogBench:
    """A log of batches that each fill a piece."""
    bench = LogBench()
    bench.create()
    for number in range(BATCHES):
        record = NewRecord(b"%d" % number, bytes(PIECE_BYTES), bench.now.wall_ms)
        data = build_batch([record])
        bench.log.append_as_leader(AcceptedBatch(read_header(data), memoryview(data)), 0, bench.now)
    return bench


def replayed(bench: LogBench) -> tuple[ReplayedLog[Any], Any]:
    shard: Any = Recording()
    log = ReplayedLog(bench.log, shard, PIECE_BYTES)
    assert not log.replay_piece()
    return log, shard


def test_what_is_deleted_meanwhile_is_passed_over(bench: LogBench) -> None:
    log, shard = replayed(bench)
    bench.log.raise_start_to(2)
    while not log.replay_piece():
        pass
    assert (shard.keys, log.damage) == ([b"0", b"2"], None)


def test_a_log_that_ends_before_its_end_is_damaged(
    bench: LogBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, shard = replayed(bench)
    monkeypatch.setattr(type(bench.log), "read", lambda *asked: None)
    assert log.replay_piece()
    assert log.damage is not None
    assert shard.keys == [b"0"]
