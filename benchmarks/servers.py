"""The brokers under measurement: ours, and Apache Kafka started from its own jars."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from confluent_kafka import Producer

from tidelog.testing.ports import free_ports

ROOT = Path(__file__).parents[1]
JARS = ROOT / ".cache" / "java" / "tools"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Server(ABC):
    """One broker process with a data directory of its own."""

    name: str

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
        self.port, self.controller_port = free_ports(2)
        self.process: subprocess.Popen[bytes] | None = None
        self.start_to_first_ack_s = 0.0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def _log(self) -> Path:
        return self.directory / "broker.log"

    @abstractmethod
    def command(self) -> list[str]:
        """What starts the broker in the foreground."""

    @abstractmethod
    def prepare(self) -> None:
        """What must be done once before the first start."""

    def start(self) -> None:
        """Start, and measure the time until a record has been acknowledged."""
        self.prepare()
        began = time.monotonic()
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=subprocess.STDOUT)
        self._wait_for_port()
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
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

    def _wait_for_port(self) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
                return
            if self.process is not None and self.process.poll() is not None:
                break
            time.sleep(0.005)
        self._give_up("did not open its port")

    def _give_up(self, why: str) -> NoReturn:
        said = self._log.read_text(errors="replace").splitlines()[-20:]
        raise SystemExit("\n".join([f"{self.name} {why}; the last it said:", *said]))

    def cpu_seconds(self) -> float:
        """User and system time of the broker so far."""
        assert self.process is not None
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def rss_mb(self) -> float:
        """Resident memory of the broker now."""
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class Tidelog(Server):
    """Our broker, as `tidelog up` runs it."""

    name = "Tidelog"

    @property
    def _config(self) -> Path:
        return self.directory / "node.properties"

    def prepare(self) -> None:
        self._config.write_text(server_properties(self, default_partitions=6))
        command = [str(ROOT / ".venv/bin/tidelog"), "format", "--config", str(self._config)]
        subprocess.run([*command, "--cluster-id", "AAAAAAAAAAAAAAAAAAAACg"], check=True)

    def command(self) -> list[str]:
        return [
            str(ROOT / ".venv/bin/python"),
            "-m",
            "tidelog.broker",
            "--config",
            str(self._config),
        ]


class ApacheKafka(Server):
    """Apache Kafka 4.3.1 with its default heap and settings, one combined node."""

    name = "Apache Kafka 4.3.1"

    @property
    def _config(self) -> Path:
        return self.directory / "server.properties"

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [
            "java", "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
            "-cp", f"{JARS}/*", main, *arguments,
        ]  # fmt: skip

    def prepare(self) -> None:
        self._config.write_text(server_properties(self, default_partitions=6))
        format_command = self._java(
            "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAACg",
            "-c", str(self._config), "--standalone",
        )  # fmt: skip
        subprocess.run(format_command, check=True, capture_output=True)

    def command(self) -> list[str]:
        return self._java("kafka.Kafka", str(self._config))


def server_properties(server: Server, default_partitions: int) -> str:
    """The same configuration for both: Kafka's defaults, one combined node."""
    return "\n".join(
        [
            "process.roles=broker,controller",
            "node.id=100",
            f"controller.quorum.bootstrap.servers=127.0.0.1:{server.controller_port}",
            f"listeners=PLAINTEXT://127.0.0.1:{server.port},"
            f"CONTROLLER://127.0.0.1:{server.controller_port}",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={server.directory}/data",
            f"num.partitions={default_partitions}",
            "offsets.topic.replication.factor=1",
            "",
        ]
    )


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Start a server, and take it down whatever happens."""
    try:
        server.start()
        yield server
    finally:
        server.stop()
