"""A real Apache Kafka broker, as judge."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tidelog.client.blocking import Client
from tidelog.client.errors import Unreachable
from tidelog.local.ports import free_ports

JARS = Path(__file__).parents[2] / ".cache" / "java" / "tools"
START_S = 60


class ApacheKafka(NamedTuple):
    """A broker that runs: where it listens, and where it keeps its logs."""

    bootstrap: str
    log_directory: Path
    controller: str


@contextmanager
def apache_kafka(
    home: Path, advertised: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[ApacheKafka]:
    """One combined node, which may be `advertised` at another address than its own."""
    port, controller_port = free_ports(2)
    config = home / "server.properties"
    config.write_text(
        "\n".join(
            [
                "process.roles=broker,controller",
                "node.id=1",
                f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}",
                f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
                "controller.listener.names=CONTROLLER",
                f"advertised.listeners=PLAINTEXT://{advertised or f'127.0.0.1:{port}'}",
                f"log.dirs={home}/data",
                "offsets.topic.replication.factor=1",
                "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1",
                "group.initial.rebalance.delay.ms=0",
                *(f"{name}={value}" for name, value in (settings or {}).items()),
                "",
            ]
        )
    )
    java = ["java", "-Xmx512m", "-cp", f"{JARS}/*"]
    formatting = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAACg"]
    subprocess.run(
        [*java, *formatting, "-c", str(config), "--standalone"], check=True, capture_output=True
    )
    with (home / "broker.log").open("wb") as log:
        broker = subprocess.Popen([*java, "kafka.Kafka", str(config)], stdout=log, stderr=log)
    try:
        _wait(f"127.0.0.1:{port}")
        yield ApacheKafka(f"127.0.0.1:{port}", home / "data", f"127.0.0.1:{controller_port}")
    finally:
        broker.kill()
        broker.wait()


def _wait(bootstrap: str) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            with Client(bootstrap) as client:
                if client.refresh([]).brokers:
                    return
        except Unreachable:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
