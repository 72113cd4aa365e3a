"""Hundreds of worlds, each with its own faults: every promise is kept in all of them."""

from __future__ import annotations

from typing import Final

import pytest
from tests.tiers import TIER, Tier

from tidelog.simulator.run.report import seed_line
from tidelog.simulator.run.runner import run_seed

SEEDS: Final = 20 if TIER is Tier.QUICK else 500
CHUNK: Final = 10

pytestmark = pytest.mark.spread


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
def test_every_seed_ends_well(first: int) -> None:
    """`tidelog sim --seeds 1 --seed K` shows one of them."""
    results = [run_seed(seed) for seed in range(first, first + CHUNK)]

    failed = [seed_line(result) for result in results if result.violation is not None]
    assert not failed, "\n".join(failed)
