"""`tidelog up` where part of the cluster runs already: it starts the rest and touches only that."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidelog.testing.cluster import Cluster

TIMEOUT_S = 60

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture
def two_of_three(three: Cluster) -> Cluster:
    """Nodes 100 and 101 run, 102 does not."""
    if three.local.running() != [100, 101]:
        three.start_all()
        three.kill(102)
    return three


def command(cluster: Cluster, *arguments: str) -> list[str]:
    name, *options = arguments
    return [sys.executable, "-m", "tidelog", name, "--data", str(cluster.directory), *options]


def pids(cluster: Cluster) -> list[int | None]:
    return [cluster.node(each).pid for each in (100, 101)]


@contextmanager
def up_in_the_foreground(cluster: Cluster) -> Iterator[subprocess.Popen[str]]:
    """`tidelog up`, ready."""
    with subprocess.Popen(command(cluster, "up"), stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        for line in started.stderr:
            if line.startswith("ready"):
                break
        yield started


def rest_of(ended: subprocess.Popen[str]) -> str:
    assert ended.stderr is not None
    rest = ended.stderr.read()
    ended.wait(TIMEOUT_S)
    return rest


def test_nodes_that_run_are_left_alone_when_another_cannot_start(two_of_three: Cluster) -> None:
    before = pids(two_of_three)
    port = two_of_three.local.descriptions[102].port

    with socket.create_server(("127.0.0.1", port)):
        refused = subprocess.run(
            command(two_of_three, "up"), capture_output=True, text=True, timeout=TIMEOUT_S
        )

    assert refused.returncode == 1
    assert f"port {port} is taken" in refused.stderr
    assert "stopping" not in refused.stderr
    assert pids(two_of_three) == before
    assert None not in before


def test_an_interrupt_stops_what_the_command_started_and_nothing_else(
    two_of_three: Cluster,
) -> None:
    before = pids(two_of_three)

    with up_in_the_foreground(two_of_three) as up:
        up.send_signal(signal.SIGINT)
        rest = rest_of(up)

    assert up.returncode == 0, rest
    assert "what ran before goes on: nodes 100, 101" in rest
    assert pids(two_of_three) == before
    assert two_of_three.local.running() == [100, 101]


def test_settings_for_all_are_refused_while_part_of_the_cluster_runs(two_of_three: Cluster) -> None:
    refused = subprocess.run(
        command(two_of_three, "up", "--detach", "--set", "num.partitions=3"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    assert refused.returncode == 1
    assert "is up already" not in refused.stderr
    assert "part of the cluster" in refused.stderr
    assert "runs (nodes 100, 101)" in refused.stderr


def test_a_clean_end_of_nodes_that_ran_before_is_a_clean_end(two_of_three: Cluster) -> None:
    with up_in_the_foreground(two_of_three) as up:
        subprocess.run(command(two_of_three, "down"), check=True, timeout=TIMEOUT_S)
        rest = rest_of(up)

    assert up.returncode == 0, rest
    assert "all nodes have ended" in rest


def test_the_death_of_a_node_that_ran_before_is_told(two_of_three: Cluster) -> None:
    with up_in_the_foreground(two_of_three) as up:
        for node_id in two_of_three.node_ids:
            two_of_three.kill(node_id)
        rest = rest_of(up)

    assert up.returncode == 1
    assert "node 100 ended (killed: " in rest
