"""How much a run of the tests proves: `make quick`, `make test` or `make soak`.

Invariant  `test` proves every rule, every guard and every API. `soak` tries more seeds, examples,
           versions and rounds; it proves nothing of another kind.
Invariant  Every test belongs to a tier: its folder is in FOLDERS, and its marks may move it.
           `long` takes a test out of `quick`, `smoke` brings it in.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Final


class Tier(StrEnum):
    """From the fastest answer to the stronger proof."""

    QUICK = "quick"
    TEST = "test"
    SOAK = "soak"


TIER: Final = Tier(os.environ.get("TIDELOG_TIER", Tier.TEST))

FOLDERS: Final = {
    "audit": Tier.TEST,
    "cli": Tier.QUICK,
    "client": Tier.QUICK,
    "controller": Tier.QUICK,
    "coordinator": Tier.QUICK,
    "examples": Tier.TEST,
    "http": Tier.QUICK,
    "integration": Tier.TEST,
    "local": Tier.QUICK,
    "model": Tier.QUICK,
    "monitor": Tier.QUICK,
    "node": Tier.QUICK,
    "observe": Tier.QUICK,
    "pipelines": Tier.TEST,
    "protocol": Tier.QUICK,
    "quorum": Tier.QUICK,
    "records": Tier.QUICK,
    "replication": Tier.QUICK,
    "scenarios": Tier.QUICK,
    "security": Tier.QUICK,
    "shell": Tier.QUICK,
    "simulator": Tier.QUICK,
    "soak": Tier.SOAK,
    "spark": Tier.TEST,
    "storage": Tier.QUICK,
    "testing": Tier.QUICK,
    "tidiness": Tier.QUICK,
    "tls": Tier.QUICK,
    "view": Tier.QUICK,
}
"""The first tier that runs a folder of `tests/`. Real clients, JVMs and Spark are not quick."""

SMOKE: Final = (
    "tests/integration/test_aiokafka.py",
    "tests/integration/test_confluent_kafka.py",
    "tests/integration/test_kafka_python.py",
)
"""Files of folders that are not quick with tests that are, so that `quick` imports only those."""

QUICK_MOST_CPU_S: Final = 6.0
"""A test that takes longer than this has to be `long`."""

LONGEST: Final = (
    "tests/pipelines/run/test_many_runs.py",
    "tests/pipelines/run/test_runs.py",
    "tests/spark/test_spark_processes.py",
    "tests/spark/sink/test_exactly_once.py",
    "tests/integration/test_exactly_once.py",
    "tests/pipelines/audit/test_comparing.py",
    "tests/integration/test_same_answers_while_ending.py",
    "tests/integration/test_same_answers.py",
    "tests/spark/",
    "tests/pipelines/",
    "tests/audit/",
    "tests/examples/",
    "tests/integration/",
    "tests/view/",
    "tests/cli/test_end_to_end.py",
    "tests/cli/test_operators.py",
    "tests/cli/test_health.py",
    "tests/cli/",
    "tests/quorum/test_all_interleavings.py",
)
"""What starts first, in this order: whoever starts a long file last is waited for by the others."""

SPREAD: Final = frozenset(
    {
        "tests/quorum/test_all_interleavings.py",
        "tests/simulator/test_determinism.py",
        "tests/simulator/test_exactly_once.py",
        "tests/simulator/test_groups.py",
        "tests/simulator/test_mutants.py",
        "tests/simulator/test_pauses.py",
        "tests/simulator/test_quorums.py",
        "tests/simulator/test_seeds.py",
        "tests/simulator/test_throttles.py",
        "tests/simulator/test_transactions.py",
        "tests/storage/test_log_crash.py",
    }
)
"""Files whose tests share nothing, so that any worker may take any of them."""


def examples(usual: int) -> int:
    """How many examples or seeds are tried where `make test` tries `usual`."""
    if TIER is Tier.QUICK:
        return min(usual, max(4, usual // 5))
    return usual if TIER is Tier.TEST else usual * 20
