"""A compacted log over many passes and crashes: what is deleted stays deleted, all else stays."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.tiers import examples

from tidelog.model.ids import TopicPartition
from tidelog.records.batch import read_header, whole_batches
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import records_of
from tidelog.records.validation import AcceptedBatch
from tidelog.simulator.disk.crash import Replay, after_crash, data_drawn, names_drawn
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.compaction import CleanerMemory, Compaction, dirty_range, plan_compaction
from tidelog.storage.identity import DirectoryIdentity, write_identity
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.log_values import Appended

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench

ACCOUNTS = TopicPartition("accounts", 0)
KEYS = tuple(b"account %d" % number for number in range(40))
MEMORIES = (CleanerMemory(1 << 20, 0.9), CleanerMemory(600, 1.0))


class Dice:
    def __init__(self, dice: Random) -> None:
        self._dice = dice

    def uuid(self) -> UUID:
        return UUID(int=self._dice.getrandbits(128))

    def below(self, bound: int) -> int:
        return self._dice.randrange(bound)


class Life:
    """One log in a directory that is started again after each crash."""

    def __init__(self, bench: LogBench, seed: int) -> None:
        self.bench = bench
        self.dice = Random(seed)
        self.table: dict[bytes, bytes] = {}
        self.number = 0
        files = MemoryFileSystem()
        files.make_directory("/data")
        files.sync_directory("/")
        write_identity(files, "/data", DirectoryIdentity("cluster", 1, UUID(int=500)))
        self.start(files)

    def start(self, files: MemoryFileSystem) -> None:
        bench = self.bench
        self.files = bench.files = files
        self.directory = LogDirectory(files, "/data", Dice(self.dice))
        self.directory.begin()
        logs = self.directory.load(bench.now, lambda _: bench.config)
        if ACCOUNTS not in logs:
            self.directory.create_log(ACCOUNTS, UUID(int=1), bench.config, bench.now)
        self.log = bench.log = self.directory.logs[ACCOUNTS]

    def write(self) -> None:
        """Some records, durable at once."""
        for _ in range(self.dice.randint(1, 6)):
            key = self.dice.choice(KEYS)
            self.number += 1
            value = None if self.dice.random() < 0.4 else b"%d" % self.number
            data = build_batch([NewRecord(key, value, self.bench.now.wall_ms)])
            batch = AcceptedBatch(read_header(data), memoryview(data))
            assert isinstance(self.log.append_as_leader(batch, 0, self.bench.now), Appended)
            if value is None:
                self.table.pop(key, None)
            else:
                self.table[key] = value
        if self.dice.random() < 0.8:
            self.log.roll(self.bench.now)
        self.log.sync()
        self.directory.write_checkpoints({})

    def clean(self) -> None:
        """One pass, as the node makes it."""
        log, now = self.log, self.bench.now
        dirty = dirty_range(log, log.end_offset, now)
        if dirty is None:
            return
        plan = plan_compaction(log, dirty, self.dice.choice(MEMORIES), now)
        compaction = Compaction(plan)
        while not compaction.is_done:
            compaction.run_slice()
            if compaction.finished is not None:
                assert log.can_swap_in(*compaction.finished, plan.generation)
                log.swap_in(*compaction.finished, now)
                compaction.finished = None
        log.first_dirty_offset = compaction.cleaned_to
        jobs = self.directory.checkpoints.first_dirty_jobs()
        for job in jobs:
            job.run()
        self.directory.checkpoints_written(jobs, None)

    def crash_in(self, beginning: int) -> None:
        """Power goes somewhere behind an operation; the next start must find the same table."""
        trace = self.files.trace
        replayed = Replay(self.files.image)
        for operation in trace[: self.dice.randint(beginning, len(trace))]:
            replayed.apply(operation)
        dice = Dice(self.dice)
        self.start(after_crash(replayed.disk, data_drawn(dice), names_drawn(dice)))

    def check(self) -> None:
        seen: dict[bytes | None, bytes | None] = {}
        for segment in self.log.segments:
            for _, batch in whole_batches(segment.file.read(0, segment.size)):
                for record in records_of(batch):
                    seen[record.key] = record.value
        assert {key: value for key, value in seen.items() if value is not None} == self.table


@pytest.mark.parametrize("seed", range(12, 12 + examples(20)))
def test_what_is_deleted_stays_deleted_and_all_else_stays(new_bench: NewBench, seed: int) -> None:
    bench = new_bench(
        cleanup_compact=True,
        cleanup_delete=False,
        delete_retention_ms=100,
        segment_bytes=300,
        index_interval_bytes=80,
        file_delete_delay_ms=50,
    )
    life = Life(bench, seed)
    for _ in range(40):
        life.write()
        beginning = len(life.files.trace)
        life.clean()
        life.check()
        bench.pass_ms(life.dice.choice((10, 60, 200)))
        life.log.sweep(bench.now)
        if life.dice.random() < 0.5:
            life.crash_in(beginning)
        life.check()
