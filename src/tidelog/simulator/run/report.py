"""What people are told about runs: a line per seed, the story of a failure, how fast it went."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from typing import Final

from tidelog.simulator.faults.fault_text import timed_fault_text
from tidelog.simulator.run.runner import SeedResult

_TAIL_SHOWN: Final = 40
_MS_PER_HOUR: Final = 3_600_000

LEGEND: Final = """\
seconds of virtual time, then who and what:
  101 < 7 PRODUCE ...   node 101 gets a request on connection 7
  101 < link 3 ...      node 101 gets an answer on its link 3
  101 + ... / 101 - ... a connection or link comes about, or ends
  101 timer, tick, job  a deadline, the end of a turn, a finished sync
  101 ! ...             node 101 announces something
  name < 2 ...          a client gets an answer
  * ...                 a fault, or a change of the scene
"""


def seed_line(result: SeedResult) -> str:
    """One seed in one line."""
    outcome = "well" if result.violation is None else str(result.violation)
    return (
        f"seed {result.seed}: {result.simulated_ms / 1000:.1f} s, {result.steps} steps, "
        f"{len(result.plan.faults)} faults, {result.hash[:12]}, {outcome}"
    )


def failure_lines(result: SeedResult, faults_before: int, replay: str) -> Iterator[str]:
    """What broke, by which faults, what happened last, and the command that shows it again."""
    violation = result.violation
    if violation is None:
        return
    yield f"{violation.rule} broken at {result.simulated_ms / 1000:.3f} s: {violation.why}"
    if violation.__cause__ is not None:
        for part in traceback.format_exception(violation.__cause__):
            yield from part.rstrip().splitlines()
    yield f"faults that are needed: {len(result.plan.faults)} of {faults_before}"
    for timed in result.plan.faults:
        yield f"  {timed_fault_text(timed)}"
    yield f"the last {min(_TAIL_SHOWN, len(result.tail))} events:"
    yield from result.tail[-_TAIL_SHOWN:]
    yield f"replay: {replay}"


def summary(results: Sequence[SeedResult], cpu_s: float) -> str:
    """How much was simulated, and how fast."""
    failed = sum(1 for result in results if result.violation is not None)
    hours = sum(result.simulated_ms for result in results) / _MS_PER_HOUR
    steps = sum(result.steps for result in results)
    per_minute = hours / cpu_s * 60 if cpu_s else 0.0
    rate = steps / cpu_s if cpu_s else 0.0
    outcome = "all well" if not failed else f"{failed} of {len(results)} failed"
    return (
        f"{len(results)} seeds, {outcome}; {hours:.2f} simulated hours "
        f"({per_minute:.1f} per minute), {rate:,.0f} steps/s"
    )


def as_json(result: SeedResult) -> dict[str, object]:
    """A run as one object."""
    violation = result.violation
    return {
        "seed": result.seed,
        "hash": result.hash,
        "events": result.events,
        "steps": result.steps,
        "simulated_ms": result.simulated_ms,
        "faults": [timed_fault_text(timed) for timed in result.plan.faults],
        "violation": None if violation is None else {"rule": violation.rule, "why": violation.why},
    }
