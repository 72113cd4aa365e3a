"""Apache Kafka and Tidelog vote in one quorum: either leads, the others follow, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.metadata import metadata
from tests.integration.raw import until

from tidelog.client.probe import known_controller
from tidelog.local.ports import HOST, free_ports

JARS = Path(__file__).parents[2] / ".cache" / "java" / "tools"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
NOT_YET = ("group.version", "transaction.version", "share.version", "streams.version")
"""Features of Apache Kafka that our brokers do not support, so a common cluster goes without."""
OURS, THEIRS = (100, 101), 200
NODES = (*OURS, THEIRS)
DIRECTORIES = {
    100: "AAAAAAAAAAEAAAAAAAAAZA",
    101: "AAAAAAAAAAEAAAAAAAAAZQ",
    200: "AAAAAAAAAAEAAAAAAAAAyA",
}
LOG = "data/__cluster_metadata-0/00000000000000000000.log"


class MixedQuorum:
    """Nodes 100 and 101 are ours, node 200 is Apache Kafka's; all are brokers and controllers."""

    def __init__(self, directory: Path, cleanup: ExitStack) -> None:
        ports = free_ports(2 * len(NODES))
        self._directory = directory
        self._cleanup = cleanup
        self._ports = dict(zip(NODES, ports, strict=False))
        self._controller_ports = dict(zip(NODES, ports[len(NODES) :], strict=False))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for node_id in NODES:
            self._format(node_id)

    def _format(self, node_id: int) -> None:
        self.home(node_id).mkdir()
        controllers = {each: f"{HOST}:{port}" for each, port in self._controller_ports.items()}
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{HOST}:{self._ports[node_id]},"
            f"CONTROLLER://{controllers[node_id]}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(controllers.values()),
            "log.dirs": str(self.home(node_id) / "data"),
        }
        config = self._config(node_id)
        config.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
        initial = ",".join(
            f"{each}@{where}:{DIRECTORIES[each]}" for each, where in controllers.items()
        )
        tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)]
        for feature in NOT_YET:
            tool += ["--feature", f"{feature}=0"]
        ours = ["format", "--config", str(config), "--cluster-id", CLUSTER_ID]
        command = [*self._program(node_id), *(tool if node_id == THEIRS else ours)]
        command += ["--initial-controllers", initial]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def home(self, node_id: int) -> Path:
        return self._directory / f"node-{node_id}"

    def _config(self, node_id: int) -> Path:
        return self.home(node_id) / "node.properties"

    def _program(self, node_id: int) -> list[str]:
        if node_id == THEIRS:
            return ["java", "-Xmx400m", "-cp", f"{JARS}/*"]
        return [sys.executable, "-m", "tidelog"]

    def start(self, node_id: int) -> None:
        config = str(self._config(node_id))
        arguments = ["kafka.Kafka", config] if node_id == THEIRS else ["broker", "--config", config]
        log = self._cleanup.enter_context((self.home(node_id) / "node.log").open("ab"))
        process = subprocess.Popen([*self._program(node_id), *arguments], stdout=log, stderr=log)
        self._cleanup.callback(process.wait)
        self._cleanup.callback(process.kill)
        self._processes[node_id] = process

    def kill(self, node_id: int) -> None:
        self._processes[node_id].kill()
        self._processes[node_id].wait()

    def leader(self) -> int | None:
        """Whom all that run take for the leader; None while they do not agree."""
        named = {
            known_controller(HOST, self._controller_ports[node_id], timeout_s=2.0)
            for node_id in NODES
            if self._processes[node_id].poll() is None
        }
        return named.pop() if len(named) == 1 else None

    def admin(self, node_id: int) -> AdminClient:
        return AdminClient({"bootstrap.servers": f"{HOST}:{self._ports[node_id]}", "log_level": 0})

    def brokers(self, node_id: int) -> list[int]:
        try:
            return sorted(self.admin(node_id).list_topics(timeout=5).brokers)
        except KafkaException:
            return []

    def topics(self, node_id: int) -> set[str]:
        return set(metadata(self.admin(node_id)).topics)


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[MixedQuorum]:
    with ExitStack() as cleanup:
        yield MixedQuorum(tmp_path, cleanup)


def lead_without(quorum: MixedQuorum, dead: int) -> int:
    until(lambda: quorum.leader() in {*NODES} - {dead}, within_s=30)
    leader = quorum.leader()
    assert leader is not None
    return leader


def all_back(quorum: MixedQuorum) -> Callable[[], bool]:
    return lambda: (
        quorum.leader() is not None
        and all(quorum.brokers(node_id) == [*NODES] for node_id in NODES)
    )


def test_controllers_of_either_kind_elect_each_other_and_keep_one_log(quorum: MixedQuorum) -> None:
    for node_id in NODES:
        quorum.start(node_id)
    until(all_back(quorum), within_s=60)
    led = set()
    for round_number in range(4):
        leader = quorum.leader()
        assert leader is not None
        led.add(leader)
        survivor = next(each for each in OURS if each != leader)
        name = f"led-by-{leader}-{round_number}"
        admin = quorum.admin(survivor)
        admin.create_topics([NewTopic(name, 2, 3)])[name].result(30)
        until(lambda: all(name in quorum.topics(each) for each in NODES), within_s=30)  # noqa: B023  # used in this round only
        quorum.kill(leader)
        lead_without(quorum, leader)
        quorum.start(leader)
        until(all_back(quorum), within_s=60)
    assert THEIRS in led, "Apache Kafka's controller was elected by ours"
    assert led & {*OURS}, "ours were elected by Apache Kafka's"
    logs = [(quorum.home(node_id) / LOG).read_bytes() for node_id in NODES]
    shortest = min(map(len, logs))
    assert len({log[:shortest] for log in logs}) == 1
