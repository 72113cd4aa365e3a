"""Flushes of the data logs: the jobs that carry them out, and the answers that wait for one.

Invariant  An answer that waits for a flush is given once everything appended before it is on
           disk, or once it is known that this will never be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidelog.model.time import Now
from tidelog.node.core.effects import Lane
from tidelog.node.core.jobs import Jobs
from tidelog.node.core.promise import Promise
from tidelog.replication.partition import Partition
from tidelog.storage.flush import FlushJob
from tidelog.storage.partition_log import PartitionLog

Flushed: TypeAlias = Promise[str | None]
"""What went wrong, or None when all is on disk."""


class Flushes:
    """The flushes under way; jobs run one after the other, so the newest one ends last."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._owed: dict[Partition, Flushed] = {}

    def begin_owed(self, partition: Partition) -> None:
        """Begin the flush that the topic's settings ask for after the last append, if they do."""
        job = partition.owed_flush
        if job is None:
            return
        partition.owed_flush = None
        flushed: Flushed = Promise()
        self._owed[partition] = flushed

        def finished(now: Now, error: str | None) -> None:
            if self._owed.get(partition) is flushed:
                del self._owed[partition]
            partition.flushed(job, error, now)
            flushed.settle(error)

        self._jobs.run(Lane.FLUSHES, job.run, finished)

    def after_owed(self, partition: Partition) -> Flushed:
        """The end of the newest owed flush; one must be under way."""
        return self._owed[partition]

    def begin(self, log: PartitionLog) -> None:
        """Begin a flush that nobody waits for."""
        self._run(log, log.flush_job())

    def identify(self, log: PartitionLog) -> None:
        """Make durable what a log begins with, once; until then it has one segment."""
        self._run(log, log.identity_job(), lane=Lane.LONG)

    def settle(self, log: PartitionLog, then: Callable[[Now], None]) -> None:
        """Let what a cut took away be gone for good; go on after that, or after it failed."""
        self._run(log, log.settling_job(), then)

    def _run(
        self,
        log: PartitionLog,
        job: FlushJob | None,
        then: Callable[[Now], None] = lambda _: None,
        lane: Lane = Lane.FLUSHES,
    ) -> None:
        if job is None:
            return

        def finished(now: Now, error: str | None) -> None:
            if error is None:
                log.flushed(job)
            else:
                log.flush_failed(job, error)
            then(now)

        self._jobs.run(lane, job.run, finished)
