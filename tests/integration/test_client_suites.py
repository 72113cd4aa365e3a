"""Some of franz-go's own tests, unchanged; all of them run in `make soak`."""

from __future__ import annotations

from pathlib import Path

from tests.soak.client_suites import franz_go

from tidelog.testing.cluster import Cluster

RECORDS = 2_000
LIMIT_S = 300
NAMED = "^(TestTxnEtl|Test848RegexBrokerResolves)$/^range$/^848$"
"""Readers of both protocols that copy in transactions, one right after the other; and groups whose
subscription is a regular expression that the broker resolves."""


def test_franz_go_copies_in_transactions_and_subscribes_by_expression(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", brokers=3) as cluster:
        log = tmp_path / "franz-go.log"
        outcome = franz_go(cluster.bootstrap, log, only=NAMED, records=RECORDS, limit_s=LIMIT_S)
    assert outcome.failed == frozenset(), log.read_text(errors="replace")[-4_000:]
    assert outcome.passed == {"TestTxnEtl", "Test848RegexBrokerResolves"}
