"""One log on a disk in memory, and a second opinion on all that it keeps beside its batches."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import pytest

from tidelog.model.errors import Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.records.batch import BatchHeader, crc_matches, read_header, whole_batches
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control_batch import end_txn_marker
from tidelog.records.validation import AcceptedBatch
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_place import DirectoryHealth, LogPlace
from tidelog.storage.log_values import Appended
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer import Origin
from tidelog.storage.producer_state import ProducerState
from tidelog.storage.recovery import create_log, load_log
from tidelog.storage.segment import Segment
from tidelog.storage.transaction_index import AbortedTransaction

PARTITION = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=4711)
START_MS = 1_700_000_000_000


class SeededEntropy:
    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class StoredBatch(NamedTuple):
    """A batch as it lies in a file."""

    position: int
    header: BatchHeader
    data: bytes


def batches_in(segment: Segment) -> list[StoredBatch]:
    """Every batch of a segment, each byte of which must belong to one."""
    content = segment.file.read(0, segment.size)
    assert len(content) == segment.size
    found, position = [], 0
    for header, batch in whole_batches(content):
        assert crc_matches(batch)
        found.append(StoredBatch(position, header, bytes(batch)))
        position += header.size
    assert position == segment.size, f"{segment.path} ends in half a batch"
    return found


class LogBench:
    """A log, the disk under it and the clock beside it."""

    def __init__(self, files: MemoryFileSystem | None = None, **settings: Any) -> None:
        self.files = MemoryFileSystem() if files is None else files
        self.now = Now(0, START_MS)
        self.config = LogConfig(**settings)
        self.health = DirectoryHealth()
        self.lowered: list[int] = []
        self.log: PartitionLog

    @property
    def place(self) -> LogPlace:
        return LogPlace(
            files=self.files,
            directory=f"/data/{PARTITION}",
            entropy=SeededEntropy(),
            health=self.health,
            lowered=lambda: self.lowered.append(self.log.recovery_point),
            lowering=lambda _lower: None,
        )

    def create(self) -> PartitionLog:
        self.files.make_directory("/data")
        self.files.sync_directory("/")
        self.log = create_log(PARTITION, TOPIC_ID, self.config, self.place, self.now)
        self.identify()
        return self.log

    def identify(self) -> None:
        """Let what the log begins with be there for good, as a broker does before long."""
        job = self.log.identity_job()
        if job is not None:
            job.run()
            self.log.flushed(job)

    def load(
        self,
        *,
        clean: bool = False,
        recovery_point: int | None = None,
        log_start: int | None = None,
        cleaned_to: int = 0,
        files: MemoryFileSystem | None = None,
    ) -> PartitionLog:
        """Start again from what is on disk, or on another one."""
        self.files = files or self.files
        self.health = DirectoryHealth()
        self.log = load_log(
            PARTITION,
            TOPIC_ID,
            self.config,
            self.place,
            self.now,
            clean=clean,
            recovery_point=recovery_point,
            log_start=log_start,
            cleaned_to=cleaned_to,
        )
        return self.log

    def reopen(self) -> PartitionLog:
        """Stop cleanly and start again."""
        self.log.close()
        return self.load(clean=True, recovery_point=self.log.end_offset)

    def pass_ms(self, duration_ms: int) -> Now:
        self.now = Now(self.now.monotonic_ms + duration_ms, self.now.wall_ms + duration_ms)
        self.files.wall_ms = self.now.wall_ms
        return self.now

    def batch(
        self, count: int = 1, *, value: bytes = b"v" * 20, timestamp: int | None = None, **more: Any
    ) -> AcceptedBatch:
        at = self.now.wall_ms if timestamp is None else timestamp
        data = build_batch([NewRecord(b"key", value, at + i) for i in range(count)], **more)
        return AcceptedBatch(read_header(data), memoryview(data))

    def append(self, count: int = 1, *, epoch: int = 0, **more: Any) -> Appended:
        appended = self.log.append_as_leader(self.batch(count, **more), epoch, self.now)
        assert isinstance(appended, Appended), appended
        return appended

    def refused(self, batch: AcceptedBatch, *, epoch: int = 0) -> Refusal:
        refusal = self.log.append_as_leader(batch, epoch, self.now)
        assert isinstance(refusal, Refusal)
        return refusal

    def end_transaction(self, producer: int, *, committed: bool, epoch: int = 0) -> Appended:
        data = end_txn_marker(
            producer_id=producer,
            producer_epoch=0,
            committed=committed,
            coordinator_epoch=0,
            timestamp=self.now.wall_ms,
        )
        batch = AcceptedBatch(read_header(data), memoryview(data))
        appended = self.log.append_as_leader(batch, epoch, self.now, origin=Origin.COORDINATOR)
        assert isinstance(appended, Appended), appended
        return appended

    def batches(self) -> list[StoredBatch]:
        return [batch for segment in self.log.segments for batch in batches_in(segment)]

    def contents(self) -> list[bytes]:
        return [batch.data for batch in self.batches()]

    def bases(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments]

    def names(self, ending: str = "") -> list[str]:
        return [name for name in self.files.list(self.log.directory) if name.endswith(ending)]

    def path(self, base_offset: int, suffix: str = ".log") -> str:
        return f"{self.log.directory}/{base_offset:020d}{suffix}"

    # The second opinion

    def check(self) -> None:
        """Compare all that is kept beside the batches with what the batches themselves say."""
        log, end = self.log, self.log.segments.first.base_offset
        assert log.start_offset <= log.end_offset
        assert log.recovery_point <= log.end_offset
        for segment in log.segments:
            assert segment.base_offset == end, "segments follow without a gap"
            for batch in batches_in(segment):
                assert batch.header.base_offset >= end
                end = batch.header.next_offset
            self._check_indexes(segment)
        assert log.end_offset == end
        self._check_epochs()
        self._check_producers()
        self.check_reads()

    def _check_indexes(self, segment: Segment) -> None:
        entries: list[tuple[int, int]] = []
        times: list[tuple[int, int]] = []
        since = 0
        largest, largest_at = -1, segment.base_offset
        found = batches_in(segment)
        end, has_gaps = segment.base_offset, False
        for batch in found:
            header = batch.header
            has_gaps = has_gaps or header.base_offset > end
            end = header.next_offset
            if header.max_timestamp > largest:
                largest, largest_at = header.max_timestamp, header.last_offset
            if since > self.config.index_interval_bytes:
                entries.append((header.last_offset, batch.position))
                if not times or times[-1][0] < largest:
                    times.append((largest, largest_at))
                since = 0
            since += header.size
        indexed = list(segment.offset_index.entries())
        if has_gaps:  # a batch behind one may have an entry of its own
            assert {(one.header.last_offset, one.position) for one in found} >= set(indexed)
        else:
            assert indexed == entries
        assert segment.offset_index.sane()
        assert segment.time_index.sane()
        assert segment.max_timestamp == largest
        kept = list(segment.time_index.entries())
        assert set(times) <= set(kept)
        running = {}
        largest = -1
        for batch in found:
            largest = max(largest, batch.header.max_timestamp)
            running[batch.header.last_offset] = (batch.header.max_timestamp, largest)
        assert all(running[offset] == (time, time) for time, offset in kept)

    def _check_epochs(self) -> None:
        expected: list[tuple[int, int]] = []
        for batch in self.batches():
            if not expected or batch.header.leader_epoch > expected[-1][0]:
                expected.append((batch.header.leader_epoch, batch.header.base_offset))
        start = self.log.start_offset
        below = [entry for entry in expected if entry[1] <= start]
        expected = [(below[-1][0], start), *expected[len(below) :]] if below else expected
        kept = [tuple(entry) for entry in self.log.epochs.entries]
        if kept and kept[-1][1] == self.log.end_offset:
            kept.pop()  # an epoch in which nothing was written
        if expected and expected[-1][1] >= self.log.end_offset:
            expected.pop()
        assert kept == expected

    def replayed(self) -> tuple[ProducerState, list[AbortedTransaction]]:
        """Producer state and aborted transactions, from nothing but the batches."""
        state = ProducerState(MemoryFileSystem(), "/none", self.config.producer_expiry_ms)
        aborted = []
        for batch in self.batches():
            if batch.header.producer_id >= 0:
                ended = state.note(batch.header, batch.header.base_offset, batch.data)
                if ended is not None:
                    aborted.append(ended)
        return state, aborted

    def _check_producers(self) -> None:
        """What began in segments that are gone may be known to the log alone."""
        state, aborted = self.replayed()
        first = self.log.segments.first.base_offset
        kept = {known.producer_id: known for known in self.log.producers.active()}
        for known in state.active():
            if known.last_sequence >= 0 and known.current_txn_start_offset != first:
                ours = kept[known.producer_id]
                if known.coordinator_epoch < 0:
                    ours = ours._replace(coordinator_epoch=-1)
                assert ours == known
        begun = [known.current_txn_start_offset for known in kept.values()]
        end = self.log.end_offset
        if not any(0 <= start < max(first, self.log.start_offset) for start in begun):
            assert self.log.first_unstable_offset(end) == state.first_unstable_offset(end)
        indexed = [
            entry
            for segment in self.log.segments
            for entry in segment.transaction_index.entries()
            if entry.first_offset > first
        ]
        assert [entry[:3] for entry in indexed] == [
            entry[:3] for entry in aborted if entry.first_offset > first
        ]
        stable = {entry.last_offset: entry.last_stable_offset for entry in aborted}
        assert all(
            entry.last_stable_offset in (stable[entry.last_offset], *range(first))
            for entry in indexed
        )

    def check_reads(self) -> None:
        log, batches = self.log, self.batches()
        for batch in batches:
            for offset in {batch.header.base_offset, batch.header.last_offset}:
                if offset >= log.start_offset:
                    found = log.read(offset, 1, log.end_offset)
                    assert found is not None
                    assert found.read() == batch.data


NewBench: TypeAlias = Callable[..., LogBench]


@pytest.fixture
def new_bench() -> NewBench:
    """A bench with a new log, given the settings that matter."""

    def new_bench(files: MemoryFileSystem | None = None, **settings: Any) -> LogBench:
        bench = LogBench(files, **settings)
        bench.create()
        return bench

    return new_bench


@pytest.fixture
def bench(new_bench: NewBench) -> LogBench:
    """A bench with a new log with small steps between index entries."""
    return new_bench(index_interval_bytes=200)


@pytest.fixture
def filled(new_bench: NewBench) -> LogBench:
    """Ten batches of two records in three segments, with epochs, producers and a transaction."""
    bench = new_bench(index_interval_bytes=150)
    for at in range(10):
        if at in (4, 7):
            bench.log.roll(bench.now)
        bench.append(
            2, epoch=1 + at // 4, timestamp=bench.now.wall_ms + at, producer_id=at % 2,
            producer_epoch=0, base_sequence=at // 2 * 2,
        )  # fmt: skip
    bench.append(producer_id=9, producer_epoch=0, base_sequence=0, transactional=True, epoch=3)
    bench.end_transaction(9, committed=False, epoch=3)
    bench.append(producer_id=8, producer_epoch=0, base_sequence=0, transactional=True, epoch=3)
    return bench
