"""Apache Kafka's own tool adds a controller to a running quorum, and removes one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.raw import until

from tidelog.client.probe import known_controller
from tidelog.local.ports import HOST, free_ports
from tidelog.model.settings.properties import parse_properties
from tidelog.testing.cluster import Cluster

Java = Callable[..., str]
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
NEW = 200


class NewController:
    """Node 200, formatted without a vote and started by hand."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        (self.port,) = free_ports(1)
        self.config = home / "node.properties"
        self._data = home / "data"
        settings = {
            "process.roles": "controller",
            "node.id": str(NEW),
            "listeners": f"CONTROLLER://{HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": controller_of(cluster),
            "log.dirs": str(self._data),
        }
        home.mkdir()
        self.config.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
        formatting = ["format", "--cluster-id", cluster.cluster_id, "--no-initial-controllers"]
        self._run([*formatting, "--config", str(self.config)]).wait(30)
        self._process = self._run(["broker", "--config", str(self.config)])

    @staticmethod
    def _run(arguments: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tidelog", *arguments], stderr=subprocess.DEVNULL
        )

    @property
    def directory_id(self) -> str:
        return parse_properties((self._data / "meta.properties").read_text())["directory.id"]

    def stop(self) -> None:
        self._process.terminate()
        assert self._process.wait(30) == 0


def controller_of(cluster: Cluster) -> str:
    listener = cluster.local.descriptions[100].controller_listener
    assert listener is not None
    return listener


def parts(java: Java, cluster: Cluster) -> dict[int, str]:
    """Which part each node has in the quorum, as Apache Kafka's tool shows it."""
    said = java(QUORUM, "--bootstrap-server", cluster.bootstrap, "describe", "--replication")
    rows = [line.split() for line in said.splitlines()[1:]]
    return {int(row[0]): row[-1] for row in rows}


@pytest.fixture
def joining(tmp_path: Path) -> Iterator[tuple[Cluster, NewController]]:
    with Cluster(tmp_path / "cluster") as cluster:
        controller = NewController(cluster, tmp_path / "new")
        try:
            yield cluster, controller
        finally:
            controller.stop()


def test_a_controller_joins_the_quorum_and_leaves_it(
    java: Java, joining: tuple[Cluster, NewController]
) -> None:
    cluster, new = joining
    until(lambda: known_controller(HOST, new.port, timeout_s=1.0) == 100)
    until(lambda: parts(java, cluster).get(NEW) == "Observer", within_s=30)
    where = ("--bootstrap-controller", controller_of(cluster))
    java(QUORUM, *where, "--command-config", str(new.config), "add-controller")
    assert parts(java, cluster) == {100: "Leader", NEW: "Follower"}
    java(
        QUORUM,
        *("--bootstrap-server", cluster.bootstrap, "remove-controller"),
        *("--controller-id", str(NEW), "--controller-directory-id", new.directory_id),
    )
    assert parts(java, cluster)[100] == "Leader"
    assert parts(java, cluster)[NEW] == "Observer"
