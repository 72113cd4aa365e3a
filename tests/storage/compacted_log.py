"""A compacted log, and a cleaner that a test sets to work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tidelog.records.batch import read_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import Record, records_of
from tidelog.records.validation import AcceptedBatch
from tidelog.storage.compaction import CleanerMemory, Compaction, dirty_range, plan_compaction
from tidelog.storage.log_values import Appended

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench

MEMORY = CleanerMemory(1 << 20, 0.9)


class Pass(NamedTuple):
    """What came of a cleaning pass."""

    compaction: Compaction
    slices: int


class CompactedLog:
    """A compacted log and the cleaner's hands."""

    def __init__(self, bench: LogBench) -> None:
        self.bench = bench

    def put(self, *entries: tuple[bytes | None, bytes | None], **more: Any) -> Appended:
        """Append one batch of keys and values."""
        at = self.bench.now.wall_ms
        data = build_batch(
            [NewRecord(key, value, at + i) for i, (key, value) in enumerate(entries)], **more
        )
        batch = AcceptedBatch(read_header(data), memoryview(data))
        appended = self.bench.log.append_as_leader(batch, 0, self.bench.now)
        assert isinstance(appended, Appended), appended
        return appended

    def roll(self) -> None:
        self.bench.log.roll(self.bench.now)
        self.bench.log.sync()

    def clean(self, *, memory: CleanerMemory = MEMORY, stable: int | None = None) -> Pass | None:
        """Clean what can be cleaned, as the node does it."""
        log, now = self.bench.log, self.bench.now
        dirty = dirty_range(log, log.end_offset if stable is None else stable, now)
        if dirty is None:
            return None
        compaction = Compaction(plan_compaction(log, dirty, memory, now))
        slices = 0
        while not compaction.is_done:
            compaction.run_slice()
            slices += 1
            if compaction.finished is not None:
                assert log.can_swap_in(*compaction.finished, compaction.plan.generation)
                log.swap_in(*compaction.finished, now)
                compaction.finished = None
        log.first_dirty_offset = compaction.cleaned_to
        return Pass(compaction, slices)

    def records(self) -> list[Record]:
        return [record for batch in self.bench.batches() for record in records_of(batch.data)]

    def contents(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [(record.offset, record.key, record.value) for record in self.records()]


@pytest.fixture
def log(new_bench: NewBench) -> CompactedLog:
    return CompactedLog(new_bench(cleanup_compact=True, cleanup_delete=False))


@pytest.fixture
def new_log(new_bench: NewBench) -> Callable[..., CompactedLog]:
    return lambda **more: CompactedLog(
        new_bench(**{"cleanup_compact": True, "cleanup_delete": False, **more})
    )
