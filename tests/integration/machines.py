"""Three machines on one network, each a network namespace, with cables that can be pulled.

Needs root and `ip` (iproute2). The tests' own process is a further machine on the same network.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from tidelog.model.ids import uuid_text

PORT, CONTROLLER_PORT = 9092, 9093
CLUSTER_ID = "bWFjaGluZXMtaW4tYS1yb3"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def why_not() -> str | None:
    """What is missing for machines of this kind."""
    if shutil.which("ip") is None:
        return "needs `ip`: apt-get install iproute2"
    name = f"tl-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        return f"network namespaces need root: {made.stderr.strip()}"
    ip("netns", "delete", name)
    return None


class Machine:
    """A host with one node of the cluster."""

    def __init__(self, network: str, number: int, home: Path) -> None:
        self.node_id = 100 + number
        self.address = f"{network}.{10 + number}"
        self.home = home
        self.namespace = f"tl{os.getpid()}-{number}"
        self.cable = f"tlc{os.getpid() % 100_000}{number}"
        self.directory_id = uuid_text(uuid4())
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self, switch: str) -> None:
        ip("netns", "add", self.namespace)
        inside = f"{self.cable}i"
        ip("link", "add", self.cable, "type", "veth", "peer", "name", inside)
        ip("link", "set", inside, "netns", self.namespace)
        ip("link", "set", self.cable, "master", switch, "up")
        within = ("-n", self.namespace)
        ip(*within, "addr", "add", f"{self.address}/24", "dev", inside)
        ip(*within, "link", "set", inside, "up")
        ip(*within, "link", "set", "lo", "up")

    def disconnect(self) -> None:
        for what in (("link", "delete", self.cable), ("netns", "delete", self.namespace)):
            subprocess.run(["ip", *what], capture_output=True)

    def pull_cable(self) -> None:
        ip("link", "set", self.cable, "down")

    def plug_in(self) -> None:
        ip("link", "set", self.cable, "up")

    def drop_what_goes_to(self, other: Machine) -> None:
        """One way only: the other may still send to us."""
        ip("-n", self.namespace, "route", "add", "blackhole", f"{other.address}/32")

    def send_again_to(self, other: Machine) -> None:
        ip("-n", self.namespace, "route", "del", "blackhole", f"{other.address}/32")

    def format(self, machines: list[Machine], settings: dict[str, str]) -> None:
        self.home.mkdir()
        voters = ",".join(f"{each.address}:{CONTROLLER_PORT}" for each in machines)
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "listeners": f"PLAINTEXT://{self.address}:{PORT},"
            f"CONTROLLER://{self.address}:{CONTROLLER_PORT}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": voters,
            "log.dirs": str(self.home / "data"),
            **settings,
        }
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        self._config.write_text(text, encoding="utf-8")
        first = ",".join(
            f"{each.node_id}@{each.address}:{CONTROLLER_PORT}:{each.directory_id}"
            for each in machines
        )
        subprocess.run(
            [
                *(sys.executable, "-m", "tidelog", "format", "--config", str(self._config)),
                *("--cluster-id", CLUSTER_ID, "--initial-controllers", first),
            ],
            check=True,
            capture_output=True,
        )

    @property
    def _config(self) -> Path:
        return self.home / "node.properties"

    @property
    def log_text(self) -> str:
        return (self.home / "node.log").read_text(encoding="utf-8")

    def start(self) -> None:
        with (self.home / "node.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("ip", "netns", "exec", self.namespace, sys.executable),
                    *("-m", "tidelog", "broker", "--config", str(self._config)),
                ],
                stdout=log,
                stderr=log,
            )

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(20)


@contextmanager
def three_machines(directory: Path, settings: dict[str, str]) -> Iterator[list[Machine]]:
    """Connected, with a node running on each; gone in the end, whatever happens."""
    network = f"10.213.{os.getpid() % 250}"
    switch = f"tls{os.getpid() % 100_000}"
    machines = [Machine(network, number, directory / f"machine-{number}") for number in range(3)]
    try:
        ip("link", "add", switch, "type", "bridge")
        ip("addr", "add", f"{network}.1/24", "dev", switch)
        ip("link", "set", switch, "up")
        for machine in machines:
            machine.connect(switch)
        for machine in machines:
            machine.format(machines, settings)
        for machine in machines:
            machine.start()
        yield machines
    finally:
        for machine in machines:
            machine.end()
            machine.disconnect()
        subprocess.run(["ip", "link", "delete", switch], capture_output=True)
