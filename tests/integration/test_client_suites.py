"""Some of franz-go's own tests, unchanged; all of them run in `make soak`, with other suites."""

from __future__ import annotations

from pathlib import Path

from tests.soak.client_suites import (
    Asked,
    Outcome,
    franz_go,
    read_go_tests,
    read_librdkafka_tests,
    read_pytest,
)

from tidelog.testing.cluster import Cluster

ASKED = Asked(only="^TestTxnEtl$/^range$/^848$", records=2_000, limit_s=300)
"""Readers of both protocols that copy in transactions, one right after the other."""


def test_franz_go_copies_in_transactions(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", brokers=3) as cluster:
        outcome = franz_go(cluster.bootstrap, tmp_path, ASKED)
    said = (tmp_path / "franz-go.log").read_text(errors="replace")
    assert outcome.failed == frozenset(), said[-4_000:]
    assert outcome.passed == {"TestTxnEtl"}


def test_a_test_of_a_suite_is_judged_by_its_own_words() -> None:
    go = "--- PASS: TestA (0.1s)\n    --- FAIL: TestA/part (0.1s)\n--- FAIL: TestB (0.1s)\n"
    assert read_go_tests(go) == outcome("TestA", "TestB")
    pytest = "test/a.py::test_a PASSED [ 1%]\ntest/a.py::test_b ERROR\ntest/a.py::test_c SKIPPED\n"
    assert read_pytest(pytest) == outcome("test_a", "test_b", "test_c")
    librdkafka = "".join(
        f"[0m[0001_{name} / 0.0s] ======= {what} =======[0m\n"
        for name, what in (
            ("a", "Running test 0001_a"),
            ("a", "Test 0001_a PASSED"),
            ("b", "Running test 0001_b"),
            ("b", "Test 0001_b FAILED"),
            ("c", "Running test 0001_c"),
            ("c", "Test 0001_c SKIPPED"),
        )
    )
    assert read_librdkafka_tests(librdkafka) == outcome("0001_a", "0001_b", "0001_c")


def test_a_test_that_began_and_did_not_end_has_failed() -> None:
    said = "======= Running test 0001_a =======\n=== Test 0001_a PASSED ===\n"
    said += "======= Running test 0002_b =======\nAssertion `0' failed.\n"
    assert read_librdkafka_tests(said) == outcome("0001_a", "0002_b")


def outcome(passed: str, failed: str, *skipped: str) -> Outcome:
    return Outcome(frozenset({passed}), frozenset({failed}), frozenset(skipped))
