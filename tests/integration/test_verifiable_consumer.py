"""Apache Kafka's verifiable consumer in a group whose coordinator is killed with SIGKILL."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from tests.integration.conftest import JAVA
from tests.integration.group_reader import committed, create_topic, produce
from tests.integration.test_group_failover import PARTITIONS, SETTINGS, TOPIC, group_elsewhere

from tidelog.testing.cluster import Cluster

VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
PATIENCE_S = 90.0
EACH = 100
"""Records in each partition, before the coordinator dies and again afterwards."""


class Witness:
    """Holds what the consumer says against what it said before."""

    def __init__(self) -> None:
        self.read = dict.fromkeys(range(PARTITIONS), 0)
        self.committed = dict.fromkeys(range(PARTITIONS), 0)

    def hear(self, said: dict[str, Any]) -> None:
        match said["name"]:
            case "records_consumed":
                for part in said["partitions"]:
                    index = part["partition"]
                    assert self.committed[index] <= part["minOffset"] <= self.read[index], said
                    assert part["count"] == part["maxOffset"] - part["minOffset"] + 1
                    self.read[index] = max(self.read[index], part["maxOffset"] + 1)
            case "offsets_committed" if said["success"]:
                for part in said["offsets"]:
                    index = part["partition"]
                    assert self.committed[index] <= part["offset"] <= self.read[index], said
                    self.committed[index] = part["offset"]
            case _:
                pass


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", brokers=3, settings=SETTINGS) as running:
        create_topic(running.bootstrap, TOPIC, PARTITIONS, 3)
        yield running


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_it_reads_everything_in_order_and_its_commits_never_step_back(
    cluster: Cluster, tmp_path: Path, protocol: str
) -> None:
    bootstrap = cluster.bootstrap
    group, coordinator = group_elsewhere(cluster)
    small_steps = tmp_path / "consumer.properties"
    small_steps.write_text("max.poll.records=20\n")
    produce(bootstrap, TOPIC, 0, EACH * PARTITIONS, PARTITIONS)
    command = [
        "java", "-Xmx256m", "-cp", f"{JAVA / 'tools'}/*", VERIFIABLE_CONSUMER,
        "--bootstrap-server", bootstrap, "--topic", TOPIC, "--group-id", group,
        "--group-protocol", protocol, "--reset-policy", "earliest",
        "--command-config", str(small_steps),
    ]  # fmt: skip
    witness, names = Witness(), []
    is_killed = False
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as java:
        assert java.stdout is not None
        too_long = Timer(PATIENCE_S, java.kill)
        too_long.start()
        for line in java.stdout:
            said = json.loads(line)
            witness.hear(said)
            names.append(said["name"])
            if not is_killed and sum(witness.committed.values()) >= EACH:
                is_killed = True
                cluster.kill(coordinator)
                produce(bootstrap, TOPIC, EACH * PARTITIONS, EACH * PARTITIONS, PARTITIONS)
            elif set(witness.committed.values()) == {2 * EACH}:
                java.terminate()
        too_long.cancel()
    cluster.start(coordinator)

    assert names[0] == "startup_complete"
    assert names[-1] == "shutdown_complete"
    assert set(witness.read.values()) == {2 * EACH}
    assert committed(bootstrap, group) == witness.committed
