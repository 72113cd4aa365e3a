"""Hundreds of worlds, each with its own faults: every promise is kept in all of them."""

from __future__ import annotations

from typing import Final

import pytest
from tests.tiers import TIER, Tier

from tidelog.simulator.run.report import seed_line
from tidelog.simulator.run.runner import run_seed

SEEDS: Final = {Tier.QUICK: 20, Tier.TEST: 200, Tier.SOAK: 500}[TIER]
"""`make soak` goes on with seeds that nobody has seen."""

REMEMBERED: Final = (100_013,)
"""Seeds of `make soak` that once did not end well."""


@pytest.mark.parametrize("seed", (*range(1, SEEDS + 1), *REMEMBERED))
def test_every_seed_ends_well(seed: int) -> None:
    """`tidelog sim --seeds 1 --seed K` shows one of them."""
    result = run_seed(seed)

    assert result.violation is None, seed_line(result)
