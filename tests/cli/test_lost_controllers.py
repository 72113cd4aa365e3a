"""Too few controllers: whoever is left says so within seconds, and answers what can be answered."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.local.local_cluster import TooFewControllers
from tidelog.local.node_process import NodeState
from tidelog.testing.cluster import Cluster

pytestmark = pytest.mark.long

SECONDS = 12.0
"""A busy machine takes its time; without the news a command waits for 30 s."""


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture
def trio(three: Cluster) -> Cluster:
    """Nodes 100, 101 and 102, all of them running."""
    three.start_all()
    return three


def tidelog(*arguments: str, at: Cluster) -> subprocess.CompletedProcess[str]:
    """A command, which must end long before requests time out."""
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "tidelog", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TIDELOG_BOOTSTRAP": at.bootstrap},
    )
    assert time.monotonic() - began < SECONDS, ended.stderr
    return ended


def wait_for_words(cluster: Cluster, node_id: int, words: str) -> None:
    deadline = time.monotonic() + 2 * SECONDS
    while words not in cluster.log_text(node_id):
        assert time.monotonic() < deadline, cluster.log_text(node_id)
        time.sleep(0.05)


def test_whoever_is_left_says_so_and_answers_what_can_be_answered(
    trio: Cluster, tmp_path: Path
) -> None:
    assert tidelog("topics", "create", "orders", "--partitions", "6", at=trio).returncode == 0
    assert tidelog("produce", "greetings", "--file", __file__, at=trio).returncode == 0
    trio.kill(101)
    trio.kill(102)
    why = "1 of 3 controllers can be reached, and 2 are needed"

    refused = tidelog("topics", "create", "more", at=trio)
    assert refused.returncode == 3
    assert why in refused.stderr
    assert f"finds no active controller: {why}" in trio.log_text(100)
    [missing] = [
        event
        for line in (trio.data(100) / "events.jsonl").read_text().splitlines()
        if (event := json.loads(line))["event"] == "ControllerMissing"
    ]
    assert missing["cause"].startswith(why)

    cluster = tidelog("cluster", "describe", "--json", at=trio)
    described = json.loads(cluster.stdout)
    assert described["controller"] is None
    assert why in described["problem"]
    assert [broker["id"] for broker in described["brokers"]] == [100, 101, 102]
    topic = json.loads(tidelog("topics", "describe", "orders", "--json", at=trio).stdout)
    by_leader = {each["leader"]: each for each in topic["partitions"]}
    assert by_leader[100]["end_offset"] == 0
    assert by_leader[101]["end_offset"] is None
    assert "leader 101 does not answer" in by_leader[101]["note"]

    for reading in (
        ["topics", "list"],
        ["groups", "list"],
        ["configs", "describe", "--broker", "100"],
        ["cluster", "apis"],
    ):
        answered = tidelog(*reading, at=trio)
        assert answered.returncode == 0, answered.stderr
        assert answered.stderr.startswith(f"warning: there is no controller: {why}")
    for deciding in (["partitions", "elect"], ["partitions", "reassign", "--status"]):
        refused = tidelog(*deciding, at=trio)
        assert refused.returncode == 3
        assert "start those that do not answer" in refused.stderr
    locally = "nothing can be decided: 1 of 3 controllers runs; `tidelog up` starts all"
    bundle = ["support-bundle", "--output", str(tmp_path / "bundle.tar.gz")]
    for looking in (["status"], ["events"], ["why", "orders-0"], bundle):
        shown = tidelog(*looking, "--data", str(trio.directory), at=trio)
        assert shown.returncode == 0, shown.stderr
        assert locally in shown.stderr

    for leader in (100, 101):
        partition = str(by_leader[leader]["partition"])
        text = ("produce", "orders", "--file", __file__, "--partition", partition)
        written = tidelog(*text, at=trio)
        assert written.returncode == 3
        assert why in written.stderr

    trio.start(101)
    wait_for_words(trio, 100, "decides as controller in epoch")
    assert tidelog("topics", "create", "more", at=trio).returncode == 0


def test_a_node_that_is_started_alone_waits_for_the_others(trio: Cluster) -> None:
    for node_id in trio.node_ids:
        trio.kill(node_id)

    with pytest.raises(TooFewControllers, match="1 of 3 controllers runs; `tidelog up` starts all"):
        trio.start(100)
    assert trio.state(100) is NodeState.RUNNING
    pid = trio.node(100).pid

    up = tidelog("up", "--data", str(trio.directory), "--detach", at=trio)
    assert up.returncode == 0, up.stderr
    assert [trio.state(each) for each in trio.node_ids] == [NodeState.RUNNING] * 3
    assert trio.node(100).pid == pid
    again = tidelog("up", "--data", str(trio.directory), "--detach", at=trio)
    assert again.returncode == 1
    assert "is up already" in again.stderr

    for node_id in trio.node_ids:
        trio.kill(node_id)
    alone = tidelog("node", "start", "102", "--data", str(trio.directory), at=trio)
    assert alone.returncode == 0
    assert "1 of 3 controllers runs; `tidelog up` starts all" in alone.stderr
    assert trio.state(102) is NodeState.RUNNING
    second = tidelog("node", "start", "101", "--data", str(trio.directory), at=trio)
    assert "node 101 is ready" in second.stderr


def test_a_node_of_another_cluster_stops_with_the_reason_and_the_others_serve(
    trio: Cluster,
) -> None:
    for node_id in trio.node_ids:
        trio.kill(node_id)
    identity = trio.data(102) / "meta.properties"
    right = identity.read_text()
    identity.write_text(right.replace(trio.cluster_id, "AAAAAAAAAAAAAAAAAAAACg"))
    cluster = trio.local

    cluster.nodes[102].start()
    cluster.nodes[100].start()
    cluster.start_node(101)

    wait_for_words(trio, 102, "node 102 stops: ")
    assert "are of another cluster (inconsistent_cluster_id)" in trio.log_text(102)
    require_the_others(trio, "others")
    identity.write_text(right)


def require_the_others(cluster: Cluster, topic: str) -> str:
    """Node 102 ends, 100 and 101 serve: with which reason, as `tidelog status` tells it."""
    deadline = time.monotonic() + 2 * SECONDS
    while cluster.state(102) is not NodeState.STOPPED:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert cluster.local.running() == [100, 101]
    assert tidelog("topics", "create", topic, at=cluster).returncode == 0
    shown = tidelog("status", "--data", str(cluster.directory), at=cluster).stderr
    assert "node 102 failed (exit code 1): " in shown
    return shown


def test_a_node_with_the_directory_of_another_one_stops_with_the_reason(trio: Cluster) -> None:
    trio.kill(102)
    identity = trio.data(102) / "meta.properties"
    right = identity.read_text()
    identity.write_text(right.replace("node.id=102", "node.id=101"))

    trio.local.nodes[102].start()

    assert "belongs to node 101" in require_the_others(trio, "of-two")
    identity.write_text(right)


def test_a_node_that_was_formatted_with_voters_of_its_own_stops_with_the_reason(
    trio: Cluster, tmp_path: Path
) -> None:
    for node_id in trio.node_ids:
        trio.kill(node_id)
    right = tmp_path / "right"
    trio.data(102).rename(right)
    config = str(trio.node(102).properties)
    alone = ("format", "--config", config, "--cluster-id", trio.cluster_id, "--standalone")
    assert tidelog(*alone, at=trio).returncode == 0
    for _ in range(2):  # so that it knows later epochs than the others
        trio.local.nodes[102].start()
        wait_for_words(trio, 102, "listens on PLAINTEXT")
        trio.kill(102)
        trio.node(102).log.unlink()
    trio.local.nodes[102].start()

    trio.local.nodes[100].start()
    trio.local.start_node(101)

    said = require_the_others(trio, "of-the-majority")
    assert "directory says that it is the only voter" in said
    assert "--no-initial-controllers" in said
    known = tidelog("topics", "list", at=trio).stdout
    assert "of-the-majority" in known
    shutil.rmtree(trio.data(102))
    right.rename(trio.data(102))
