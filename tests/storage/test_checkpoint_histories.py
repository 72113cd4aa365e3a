"""Checkpoints by jobs, in any order, while logs grow, are cut, deleted and made again."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage.log_directories import NOW, add, checkpoint, create, formatted, started
from tests.tiers import examples

from tidelog.model.ids import TopicPartition
from tidelog.simulator.disk.crash import after_crash, data_kept, names_kept, names_undone
from tidelog.storage.checkpoint import (
    FIRST_DIRTY,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CheckpointJob,
)
from tidelog.storage.partition_log import PartitionLog

NAMES = [TopicPartition("orders", index) for index in range(2)]


class History:
    """A directory, the jobs that are under way, and what is done to them."""

    def __init__(self) -> None:
        self.files = formatted()
        self.directory = started(self.files)
        self._waiting: list[list[CheckpointJob]] = []
        self._written: list[list[CheckpointJob]] = []

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {name: log.end_offset // 2 for name, log in self.directory.logs.items()}

    def make_jobs(self, _number: int) -> None:
        checkpoints = self.directory.checkpoints
        if jobs := [*checkpoints.jobs(self.high_watermarks), *checkpoints.first_dirty_jobs()]:
            self._waiting.append(jobs)

    def run_jobs(self, number: int) -> None:
        if self._waiting:
            jobs = self._waiting.pop(number % len(self._waiting))
            for job in jobs:
                job.run()
            self._written.append(jobs)

    def take_jobs(self, number: int) -> None:
        if self._written:
            jobs = self._written.pop(number % len(self._written))
            self.directory.checkpoints_written(jobs, None)

    def settle(self) -> None:
        """Let everything that is under way end, and write down what is left."""
        while self._waiting or self._written:
            self.run_jobs(0)
            self.take_jobs(0)
        self.make_jobs(0)
        self.run_jobs(0)
        self.take_jobs(0)

    def expect_nothing_claims_too_much(self) -> None:
        """Neither now nor after a power cut, with the names of files as they are or as before."""
        for names in (names_kept, names_undone):
            disk = after_crash(self.files, data_kept, names)
            for name, log in self.directory.logs.items():
                assert checkpoint(disk, RECOVERY_POINTS).get(name, 0) <= log.recovery_point
                assert checkpoint(disk, LOG_STARTS).get(name, 0) <= log.start_offset
                assert checkpoint(disk, FIRST_DIRTY).get(name, 0) <= log.first_dirty_offset


def grow(log: PartitionLog, number: int) -> None:
    add(log)
    if number % 4 == 0:
        log.roll(NOW)


def flush(log: PartitionLog, _number: int) -> None:
    log.sync()


def cut(log: PartitionLog, number: int) -> None:
    log.truncate_to(number % (log.end_offset + 1), NOW)


def cut_fully(log: PartitionLog, number: int) -> None:
    log.truncate_fully_and_start_at(number, NOW)


def raise_start(log: PartitionLog, number: int) -> None:
    log.raise_start_to(log.start_offset + number % (log.end_offset - log.start_offset + 1))


def clean(log: PartitionLog, number: int) -> None:
    log.first_dirty_offset = max(log.first_dirty_offset, number % (log.recovery_point + 1))


TO_JOBS: list[Callable[[History, int], None]] = [
    History.make_jobs, History.run_jobs, History.take_jobs,
]  # fmt: skip
TO_LOGS: list[Callable[[PartitionLog, int], None]] = [
    grow,
    flush,
    cut,
    cut_fully,
    raise_start,
    clean,
]
NUMBERS = st.integers(0, 20)
STEPS = st.one_of(
    st.tuples(st.just("jobs"), st.sampled_from(TO_JOBS), NUMBERS),
    st.tuples(st.sampled_from(NAMES), st.sampled_from([*TO_LOGS, None]), NUMBERS),
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STEPS, min_size=30, max_size=60))
def test_no_checkpoint_claims_more_than_is_there_whenever_jobs_are_done(
    steps: list[tuple[object, Callable[..., None] | None, int]],
) -> None:
    history = History()
    directory = history.directory
    for where, what, number in steps:
        if not isinstance(where, TopicPartition):
            assert what is not None
            what(history, number)
        elif where not in directory.logs:
            create(directory, where, number % 3)
        elif what is None:
            directory.delete_log(where, NOW)
        else:
            what(directory.logs[where], number)
        history.expect_nothing_claims_too_much()
    history.settle()
    assert directory.offline_reason is None
    points = {name: log.recovery_point for name, log in directory.logs.items()}
    assert checkpoint(history.files, RECOVERY_POINTS) == points
    assert checkpoint(history.files, HIGH_WATERMARKS) == history.high_watermarks()
