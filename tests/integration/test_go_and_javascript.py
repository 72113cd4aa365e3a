"""Clients in Go (franz-go) and JavaScript (kafkajs), each a program of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.testing.cluster import Cluster

CLIENTS = Path(__file__).parents[2] / ".cache" / "clients"
PROGRAMS = {
    "go": [str(CLIENTS / "everyday-go")],
    "javascript": ["node", str(CLIENTS / "js" / "everyday.mjs")],
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), brokers=3) as running:
        yield running


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_client_does_its_everyday_work(cluster: Cluster, language: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    topic = f"from-{language}"
    for name in (topic, f"{topic}-transactions"):
        admin.create_topics([NewTopic(name, 4, 3)])[name].result(20)

    ran = subprocess.run(
        [*PROGRAMS[language], cluster.bootstrap, topic],
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "well\n"
