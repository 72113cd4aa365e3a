"""Writing down where logs stand, away from the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from tidelog.model.errors import DiskError
from tidelog.model.time import Now
from tidelog.node.core.effects import Lane
from tidelog.node.core.jobs import Jobs
from tidelog.storage.checkpoint import CheckpointJob
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.log_place import Lowering


def write_down(
    jobs: Jobs,
    now: Now,
    directory: LogDirectory,
    checkpoints: Sequence[CheckpointJob],
    then: Callable[[Now], None] = lambda _: None,
) -> None:
    """Write and sync the checkpoints elsewhere, put them in place here; go on after that."""
    if not checkpoints:
        then(now)
        return

    def work() -> None:
        for checkpoint in checkpoints:
            checkpoint.run()

    def finished(later: Now, error: str | None) -> None:
        with suppress(DiskError):  # noted in `offline_reason`
            directory.checkpoints_written(checkpoints, error)
        then(later)

    jobs.run(Lane.CHECKPOINTS, work, finished)


def lower(jobs: Jobs, lowering: Lowering, then: Callable[[Now], None]) -> None:
    """Have written down durably that there is less; go on after that, or after it failed."""

    def finished(now: Now, error: str | None) -> None:
        if lowering.done(error):
            lower(jobs, lowering, then)
        else:
            then(now)

    jobs.run(Lane.CHECKPOINTS, lowering.run, finished)
