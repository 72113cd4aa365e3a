"""How much a run of the tests proves: `make quick`, `make test` or `make soak`.

Invariant  A tier says how often something is tried. What `test` proves less often than `soak` is
           repetition: every rule, every guard and every API is in `test`.
Invariant  What `quick` leaves out is named here, in one place.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Final, TypeVar

Value = TypeVar("Value")


class Tier(StrEnum):
    """From the fastest answer to the strongest proof."""

    QUICK = "quick"
    TEST = "test"
    SOAK = "soak"


TIER: Final = Tier(os.environ.get("TIDELOG_TIER", Tier.TEST))

NOT_QUICK: Final = (
    "tests/integration/",
    "tests/pipelines/",
    "tests/spark/",
    "tests/examples/",
)
"""Real clients, JVMs and Spark; of these, `quick` takes only what is marked `smoke`."""


def by_tier(*, quick: Value, test: Value, soak: Value) -> Value:
    """What this run uses."""
    return {Tier.QUICK: quick, Tier.TEST: test, Tier.SOAK: soak}[TIER]
