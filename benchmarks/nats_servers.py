"""Three servers of NATS with JetStream, its replicated log, and a client for them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.servers import ROOT, rss_mb
from benchmarks.waiting import wait
from tidelog.local.ports import HOST, free_ports

SERVER: Final = ROOT / ".cache" / "nats" / "nats-server"
STREAM: Final = "bench"
_INBOX: Final = "inbox"


class NatsClient:
    """One connection: publish with a place for the answer, take answers as they come."""

    def __init__(self, port: int, patience_s: float = 10.0) -> None:
        self._socket = socket.create_connection((HOST, port), patience_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = self._socket.makefile("rb")
        hello = json.dumps({"verbose": False, "headers": True, "no_responders": True})
        self._socket.sendall(f"CONNECT {hello}\r\nSUB {_INBOX}.* 1\r\n".encode())

    def publish(self, number: int, subject: str, payload: bytes) -> None:
        head = f"PUB {subject} {_INBOX}.{number} {len(payload)}\r\n".encode()
        self._socket.sendall(head + payload + b"\r\n")

    def answer(self) -> tuple[int, bytes]:
        """The next answer and the number it belongs to; blocks up to the socket's patience."""
        while True:
            line = self._reader.readline()
            if not line:
                raise ConnectionError("NATS closed the connection")
            if line.startswith(b"PING"):
                self._socket.sendall(b"PONG\r\n")
            elif line.startswith((b"MSG ", b"HMSG ")):
                fields = line.split()
                content = self._reader.read(int(fields[-1]) + 2)
                return int(fields[1].rpartition(b".")[2]), content[:-2]

    def ask(self, subject: str, **body: object) -> dict[str, Any]:
        """One request to JetStream's API; empty while nobody answers."""
        self.publish(0, subject, json.dumps(body).encode() if body else b"")
        _, content = self.answer()
        return {} if content.startswith(b"NATS/1.0") else dict(json.loads(content))

    def close(self) -> None:
        self._socket.close()


class Nats:
    """NATS with its default settings; one stream of three replicas on files."""

    name = "NATS JetStream 2.15.2"

    def __init__(self, servers: int = 3) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
        found = free_ports(2 * servers)
        self.ports = {f"n{each}": found[each] for each in range(servers)}
        self._routes = {f"n{each}": found[servers + each] for each in range(servers)}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.start_to_first_ack_s = 0.0

    def start(self) -> None:
        """Start, and measure the time until a replicated record has been acknowledged."""
        for name in self.ports:
            self._config(name).write_text(self._settings(name))
        began = time.monotonic()
        for name in self.ports:
            self.restart(name)
        wait(self._first_record_is_acknowledged, "NATS acknowledged nothing")
        self.start_to_first_ack_s = time.monotonic() - began

    def _settings(self, name: str) -> str:
        routes = ", ".join(f'"nats://{HOST}:{port}"' for port in self._routes.values())
        return (
            f'server_name: {name}\nlisten: "{HOST}:{self.ports[name]}"\n'
            f'jetstream {{ store_dir: "{self.directory / name}" }}\n'
            f'cluster {{ name: bench, listen: "{HOST}:{self._routes[name]}"\n'
            f"  routes: [{routes}] }}\n"
        )

    def _config(self, name: str) -> Path:
        return self.directory / f"{name}.conf"

    def _first_record_is_acknowledged(self) -> bool:
        try:
            with self.client(patience_s=0.2) as client:
                self.create(client)
                client.publish(1, STREAM, b"first")
                return b'"seq"' in client.answer()[1]
        except (OSError, ValueError):
            return False

    @staticmethod
    def create(client: NatsClient) -> None:
        client.ask(
            f"$JS.API.STREAM.CREATE.{STREAM}",
            name=STREAM, subjects=[STREAM], storage="file", num_replicas=3,
        )  # fmt: skip

    @contextmanager
    def client(self, avoiding: str = "", patience_s: float = 10.0) -> Iterator[NatsClient]:
        port = next(port for name, port in self.ports.items() if name != avoiding)
        client = NatsClient(port, patience_s)
        try:
            yield client
        finally:
            client.close()

    def leader(self) -> str:
        """Who leads the stream, once all its replicas are current."""
        found: list[str] = []

        def known() -> bool:
            cluster: dict[str, Any] = {}
            with suppress(OSError), self.client() as client:
                cluster = client.ask(f"$JS.API.STREAM.INFO.{STREAM}").get("cluster", {})
            replicas = cluster.get("replicas", [])
            found[:] = [cluster.get("leader", "")]
            return (
                bool(found[0])
                and len(replicas) == 2
                and all(each.get("current") for each in replicas)
            )

        wait(known, "the stream of NATS has no leader with current replicas")
        return found[0]

    def kill(self, name: str) -> None:
        os.kill(self._processes[name].pid, signal.SIGKILL)
        self._processes[name].wait()

    def restart(self, name: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(SERVER), "-c", str(self._config(name))], stdout=log, stderr=log
            )

    def rss_mb(self) -> float:
        """Resident memory of a server now, on average."""
        return sum(rss_mb(each.pid) for each in self._processes.values()) / len(self._processes)

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
