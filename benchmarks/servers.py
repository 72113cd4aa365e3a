"""The clusters under measurement: ours, and Apache Kafka started from its own jars."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from confluent_kafka import Producer

from tidelog.local.local_cluster import LocalCluster
from tidelog.local.ports import HOST, free_ports

ROOT = Path(__file__).parents[1]
JARS = ROOT / ".cache" / "java" / "tools"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAACg"
FIRST_NODE = 100
SETTINGS = {"num.partitions": "6"}
"""Kafka's defaults hold for what nobody sets, on both sides."""


NOTHING_ELSE: Mapping[str, str] = MappingProxyType({})


class Server(ABC):
    """A cluster of brokers with a directory of its own."""

    name: str

    def __init__(self, brokers: int, settings: Mapping[str, str] = NOTHING_ELSE) -> None:
        self.settings = {**SETTINGS, **settings}
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
        self.brokers = brokers
        self.replicas = min(3, brokers)
        self.min_in_sync = max(1, self.replicas - 1)
        self.start_to_first_ack_s = 0.0

    @property
    @abstractmethod
    def ports(self) -> dict[int, int]:
        """Where each broker listens, by its id."""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    @abstractmethod
    def prepare(self) -> None:
        """What must be done once before the first start."""

    @abstractmethod
    def start_all(self) -> None:
        """Start every node at once."""

    @abstractmethod
    def restart(self, node_id: int) -> None:
        """Start a node that was ended."""

    @abstractmethod
    def pid(self, node_id: int) -> int:
        """The process of a node that runs."""

    @abstractmethod
    def last_words(self) -> str:
        """What the nodes said last."""

    def start(self) -> None:
        """Start, and measure the time until a replicated record has been acknowledged."""
        self.prepare()
        began = time.monotonic()
        self.start_all()
        for port in self.ports.values():
            self._wait_for(port)
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "reconnect.backoff.ms": 5,
                "reconnect.backoff.max.ms": 20,
                "retry.backoff.ms": 10,
                "topic.metadata.refresh.fast.interval.ms": 10,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        producer.produce("warm-up", b"first")
        if producer.flush(60) != 0:
            self._give_up("did not acknowledge a record")
        self.start_to_first_ack_s = time.monotonic() - began

    def _wait_for(self, port: int) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection((HOST, port), 0.2):
                return
            time.sleep(0.005)
        self._give_up(f"did not open port {port}")

    def _give_up(self, why: str) -> NoReturn:
        raise SystemExit(f"{self.name} {why}; the last it said:\n{self.last_words()}")

    @abstractmethod
    def is_running(self, node_id: int) -> bool:
        """Whether a node's process is there."""

    def signal(self, node_id: int, number: signal.Signals) -> None:
        os.kill(self.pid(node_id), number)

    def cpu_seconds(self) -> float:
        """User and system time of all brokers so far."""
        return sum(_cpu_seconds(self.pid(node_id)) for node_id in self.ports)

    def rss_mb(self) -> float:
        """Resident memory of a broker now, on average."""
        return sum(rss_mb(self.pid(node_id)) for node_id in self.ports) / self.brokers

    @abstractmethod
    def stop(self) -> None:
        """End every process and remove the files."""


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Tidelog(Server):
    """Our brokers, as `tidelog up` runs them."""

    name = "Tidelog"

    def __init__(self, brokers: int, settings: Mapping[str, str] = NOTHING_ELSE) -> None:
        super().__init__(brokers, settings)
        self._cluster: LocalCluster | None = None

    @property
    def cluster(self) -> LocalCluster:
        assert self._cluster is not None
        return self._cluster

    @property
    def ports(self) -> dict[int, int]:
        return {each.node_id: each.port for each in self.cluster.descriptions.values()}

    def prepare(self) -> None:
        ports = free_ports(2 * self.brokers)
        self._cluster = LocalCluster.create(
            self.directory,
            ports=ports[: self.brokers],
            controller_ports=ports[self.brokers :],
            settings=self.settings,
        )

    def start_all(self) -> None:
        self.cluster.start()

    def restart(self, node_id: int) -> None:
        self.cluster.start_node(node_id)

    def pid(self, node_id: int) -> int:
        return self.cluster.node(node_id).pid or 0

    def is_running(self, node_id: int) -> bool:
        return node_id in self.cluster.running()

    def last_words(self) -> str:
        return "\n".join(node.last_words() for node in self.cluster.nodes.values())

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


@dataclass
class ApacheNode:
    """One combined node of Apache Kafka."""

    directory: Path
    port: int
    controller_port: int
    process: subprocess.Popen[bytes] | None = None


class ApacheKafka(Server):
    """Apache Kafka 4.3.1 with its default heap and settings; every node is combined."""

    name = "Apache Kafka 4.3.1"

    def __init__(self, brokers: int, settings: Mapping[str, str] = NOTHING_ELSE) -> None:
        super().__init__(brokers, settings)
        found = free_ports(2 * brokers)
        self._nodes = {
            FIRST_NODE + slot: ApacheNode(
                self.directory / f"node-{FIRST_NODE + slot}",
                found[2 * slot],
                found[2 * slot + 1],
            )
            for slot in range(brokers)
        }

    @property
    def ports(self) -> dict[int, int]:
        return {node_id: node.port for node_id, node in self._nodes.items()}

    def prepare(self) -> None:
        for node_id, node in self._nodes.items():
            node.directory.mkdir()
            self._config(node).write_text(self._properties(node_id, node))
            command = _java(
                "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID,
                "-c", str(self._config(node)),
            )  # fmt: skip
            subprocess.run(command, check=True, capture_output=True)

    def _properties(self, node_id: int, node: ApacheNode) -> str:
        voters = ",".join(
            f"{each}@{HOST}:{voter.controller_port}" for each, voter in self._nodes.items()
        )
        settings = {
            **self.settings,
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{HOST}:{node.port},"
            f"CONTROLLER://{HOST}:{node.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": f"{node.directory}/data",
            "default.replication.factor": str(self.replicas),
            "min.insync.replicas": str(self.min_in_sync),
            "offsets.topic.replication.factor": str(self.replicas),
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    @staticmethod
    def _config(node: ApacheNode) -> Path:
        return node.directory / "server.properties"

    def start_all(self) -> None:
        for node_id in self._nodes:
            self.restart(node_id)

    def restart(self, node_id: int) -> None:
        node = self._nodes[node_id]
        if node.process is not None:
            node.process.wait()
        with (node.directory / "node.log").open("ab") as log:
            node.process = subprocess.Popen(
                _java("kafka.Kafka", str(self._config(node))), stdout=log, stderr=log
            )

    def pid(self, node_id: int) -> int:
        process = self._nodes[node_id].process
        assert process is not None
        return process.pid

    def is_running(self, node_id: int) -> bool:
        process = self._nodes[node_id].process
        return process is not None and process.poll() is None

    def last_words(self) -> str:
        logs = [node.directory / "node.log" for node in self._nodes.values()]
        lines = [line for log in logs for line in log.read_text().splitlines()[-10:]]
        return "\n".join(lines)

    def stop(self) -> None:
        processes = [node.process for node in self._nodes.values() if node.process is not None]
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def _java(main: str, *arguments: str) -> list[str]:
    return [
        "java", "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
        "-cp", f"{JARS}/*", main, *arguments,
    ]  # fmt: skip


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Start a cluster, and take it down whatever happens."""
    try:
        server.start()
        yield server
    finally:
        server.stop()
