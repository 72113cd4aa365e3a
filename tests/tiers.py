"""How much a run of the tests proves: `make quick` or `make test`; `make soak` repeats for hours.

Invariant  `test` proves every rule, every guard and every API. `soak` tries more seeds, records and
           rounds; it proves nothing of another kind.
Invariant  What `quick` leaves out is named here, or marked `long`.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Final


class Tier(StrEnum):
    """From the fastest answer to the stronger proof."""

    QUICK = "quick"
    TEST = "test"


TIER: Final = Tier(os.environ.get("TIDELOG_TIER", Tier.TEST))

NOT_QUICK: Final = (
    "tests/integration/",
    "tests/pipelines/",
    "tests/spark/",
    "tests/examples/",
)
"""Real clients, JVMs and Spark; of these, `quick` takes only what is marked `smoke`."""
