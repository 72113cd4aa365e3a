"""The blocking work of one lane of a process, as one worker thread does it.

Invariant  Jobs of a lane run one after the other; when within its time a job touches the disk is
           for the dice to say, as a thread's progress would be.
Invariant  While the process is paused no job begins, works or ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from tidelog.model.errors import InvariantBroken, TidelogError
from tidelog.node.core.effects import RunJob
from tidelog.simulator.disk.machine_disk import Disk, ProcessDies
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.clock import Clock
from tidelog.simulator.world.timeline import Timeline


class WorkingMachine(Protocol):
    """The machine whose disk is worked on."""

    dice: Random
    disk: Disk
    clock: Clock
    paused: bool

    @property
    def name(self) -> str: ...

    def dies_here(self) -> None:
        """The operation it was to die at has come."""
        ...


class JobOwner(Protocol):
    """The process whose jobs they are."""

    ended: bool

    def job_finished(self, job_id: int, error: str | None) -> None: ...


class JobQueue:
    """Jobs that wait, the first of them under way."""

    def __init__(self, machine: WorkingMachine, process: JobOwner, timeline: Timeline) -> None:
        self._machine = machine
        self._process = process
        self._timeline = timeline
        self._jobs: deque[RunJob] = deque()
        self._frozen: list[Callable[[], None]] = []

    def add(self, job: RunJob) -> None:
        """Run a job once those before it have ended."""
        self._jobs.append(job)
        if len(self._jobs) == 1:
            self._begin()

    def resume(self) -> None:
        """Go on with what would have happened during the pause."""
        frozen, self._frozen = self._frozen, []
        for action in frozen:
            action()

    def _begin(self) -> None:
        machine = self._machine
        took_us = 1 + int(machine.dice.expovariate(1.0) * machine.disk.sync_us)
        ends_us = self._timeline.now_us + took_us
        if machine.dice.randrange(2):
            error = self._work()
            self._timeline.at(ends_us, self._end, error)
        else:
            self._timeline.at(ends_us, self._work_late)

    def _work_late(self) -> None:
        if not self._is_held_up(self._work_late):
            self._end(self._work())

    def _end(self, error: str | None) -> None:
        if self._is_held_up(lambda: self._end(error)):
            return
        self._process.job_finished(self._jobs.popleft().job_id, error)
        if self._jobs:
            self._begin()

    def _is_held_up(self, action: Callable[[], None]) -> bool:
        if self._process.ended:
            return True
        if self._machine.paused:
            self._frozen.append(action)
            return True
        return False

    def _work(self) -> str | None:
        """Do the work of the first job; what the disk said against it."""
        machine = self._machine
        machine.disk.files.wall_ms = machine.clock.at(self._timeline.now_us).wall_ms
        machine.disk.in_job = True
        try:
            self._jobs[0].work()
        except ProcessDies:
            machine.dies_here()
        except TidelogError as error:
            return str(error)
        except (Exception, InvariantBroken) as error:  # whatever a job raises is a finding
            raise Violation("node", f"a job of {machine.name} raised {error!r}") from error
        finally:
            machine.disk.in_job = False
        return None
