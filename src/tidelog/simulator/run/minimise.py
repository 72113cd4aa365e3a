"""Reducing a failing run to the faults it needs.

Invariant  The smaller run breaks the same rule; everything but the list of faults is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog.simulator.run.runner import SeedResult, run_plan
from tidelog.simulator.run.setup import Setup, standard_setup


def minimise(
    result: SeedResult,
    *,
    setup: Setup = standard_setup,
    most_runs: int = 200,
    progress: Callable[[int, int], None] | None = None,
) -> SeedResult:
    """Leave out faults as long as the same rule is still broken; the smallest run found.

    `progress` hears how many runs it took so far and how many faults are left.
    """
    if result.violation is None:
        return result
    best, rule, runs = result, result.violation.rule, 0
    parts = 2
    while best.plan.faults and runs < most_runs:
        for left_out in _slices(len(best.plan.faults), parts):
            runs += 1
            tried = run_plan(best.plan.without(left_out), setup=setup)
            if tried.violation is not None and tried.violation.rule == rule:
                best = tried
                parts = max(2, parts - 1)
                break
            if runs >= most_runs:
                break
        else:
            if parts >= len(best.plan.faults):
                break
            parts *= 2
        if progress is not None:
            progress(runs, len(best.plan.faults))
    return best


def _slices(count: int, parts: int) -> Iterator[frozenset[int]]:
    """The positions, cut into about so many stretches."""
    parts = min(parts, count)
    stretch = -(-count // parts)
    for first in range(0, count, stretch):
        yield frozenset(range(first, min(first + stretch, count)))
