"""The test suites of client libraries, as their authors wrote them, against three fresh brokers.

    python -m tests.soak.client_suites
    python -m tests.soak.client_suites --only TestTxnEtl --records 2000
    python -m tests.soak.client_suites --bootstrap 127.0.0.1:9092     # whoever listens there

A suite passes when nothing fails but what is known to fail on Apache Kafka 4.3.1 too. What it says
goes to a file, whose name is told in the end.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.testing.cluster import Cluster

FRANZ_GO: Final = Path(__file__).parents[2] / ".cache" / "clients" / "franz-go" / "pkg" / "kgo"
LIMIT_S: Final = 3_600
RECORDS: Final = 20_000
FAILS_EVERYWHERE: Final[frozenset[str]] = frozenset()
"""Tests that fail on Apache Kafka 4.3.1 as well."""


class Outcome(NamedTuple):
    """The tests of a suite by what became of them; a test counts, its parts tell why."""

    passed: frozenset[str]
    failed: frozenset[str]
    skipped: frozenset[str]


def franz_go(
    bootstrap: str, log: Path, *, only: str = ".", records: int = RECORDS, limit_s: int = LIMIT_S
) -> Outcome:
    """Run franz-go's own tests, those whose names match; all that is said goes to the file."""
    environment = {
        **os.environ,
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": "3",
        "KGO_TEST_RECORDS": str(records),
    }
    command = ["./kgo.test", "-test.v", "-test.timeout", f"{limit_s}s", "-test.run", only]
    with log.open("wb") as said:
        ran = subprocess.run(
            command, cwd=FRANZ_GO, env=environment, stdout=said, stderr=subprocess.STDOUT
        )
    outcome = read_go_tests(log.read_text(encoding="utf-8", errors="replace"))
    if ran.returncode and not outcome.failed:
        return outcome._replace(failed=frozenset({f"the suite itself, with {ran.returncode}"}))
    return outcome


def read_go_tests(said: str) -> Outcome:
    """`--- PASS: TestName (0.01s)`, at the beginning of a line."""
    verdicts = re.findall(r"^--- (PASS|FAIL|SKIP): (\S+)", said, re.MULTILINE)
    passed, failed, skipped = (
        frozenset(name for word, name in verdicts if word == which)
        for which in ("PASS", "FAIL", "SKIP")
    )
    return Outcome(passed, failed, skipped)


def main() -> int:
    """Run, tell, and fail if anything did that must not."""
    parser = argparse.ArgumentParser(description="Client libraries' own tests.")
    parser.add_argument("--bootstrap", help="brokers that run already, Apache Kafka's perhaps")
    parser.add_argument("--only", default=".", help="tests whose names match")
    parser.add_argument("--records", type=int, default=RECORDS, help="that each of them writes")
    asked = parser.parse_args()
    log = Path(tempfile.mkdtemp(prefix="tidelog-client-suites-")) / "franz-go.log"
    if asked.bootstrap:
        outcome = franz_go(asked.bootstrap, log, only=asked.only, records=asked.records)
    else:
        with Cluster(brokers=3) as cluster:
            outcome = franz_go(cluster.bootstrap, log, only=asked.only, records=asked.records)
    passed, failed, skipped = (len(each) for each in outcome)
    print(f"franz-go: {passed} passed, {failed} failed, {skipped} skipped; {log}")
    for name in sorted(outcome.failed):
        print(f"  {name} failed{', as on Apache Kafka' if name in FAILS_EVERYWHERE else ''}")
    return 1 if outcome.failed - FAILS_EVERYWHERE or not outcome.passed else 0


if __name__ == "__main__":
    sys.exit(main())
