"""`python -m benchmarks.watching`: what it costs a loaded cluster that somebody looks.

Three brokers take a steady load over all partitions. In turns nobody watches, somebody watches all
nodes, and somebody has one partition under the microscope as well; what the brokers' processes use
meanwhile is compared. A scrape of the metrics is measured by itself.
"""

from __future__ import annotations

import argparse
import http.client
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from statistics import mean
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from benchmarks.scale import Crowd
from benchmarks.servers import Tidelog, running
from tidelog.local.local_cluster import LocalCluster
from tidelog.local.ports import free_ports

WAYS = {"nobody": None, "watched": "", "microscope": "?microscope=crowd-0-0"}


class Watched(Tidelog):
    """Brokers that answer over HTTP."""

    def prepare(self) -> None:
        ports = free_ports(3 * self.brokers)
        self._cluster = LocalCluster.create(
            self.directory,
            ports=ports[: self.brokers],
            controller_ports=ports[self.brokers : 2 * self.brokers],
            http_ports=ports[2 * self.brokers :],
            settings=self.settings,
        )

    @property
    def http(self) -> list[str]:
        """Where the nodes answer."""
        listeners = (each.http_listener for each in self.cluster.descriptions.values())
        return [each for each in listeners if each is not None]


class Seen(NamedTuple):
    """One stretch of time."""

    cpu_percent: float
    """Of a core, a broker."""
    events: float
    """Events a second that a watcher of one broker was told."""


class Load:
    """Records at a steady rate, to one partition after the other."""

    def __init__(self, server: Watched, per_second: int) -> None:
        self._producer = Producer(
            {"bootstrap.servers": server.bootstrap, "acks": "all", "linger.ms": 5, "log_level": 0}
        )
        topics = AdminClient({"bootstrap.servers": server.bootstrap}).list_topics(timeout=60).topics
        self._places = [
            (name, index)
            for name, topic in topics.items()
            if name.startswith("crowd-")
            for index in topic.partitions
        ]
        self._per_second = per_second
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._producer.flush(30)

    def _run(self) -> None:
        sent, began = 0, time.monotonic()
        while not self._ends.is_set():
            due = int((time.monotonic() - began) * self._per_second)
            for number in range(sent, due):
                topic, partition = self._places[number % len(self._places)]
                with suppress(BufferError):
                    self._producer.produce(topic, b"x" * 200, partition=partition)
            sent = due
            self._producer.poll(0.005)


class Watcher:
    """Reads a stream to its end and counts what it is told."""

    def __init__(self, listener: str, query: str) -> None:
        self.events = 0
        self._connection = http.client.HTTPConnection(listener, timeout=60)
        self._connection.request("GET", f"/watch{query}")
        self._socket = self._connection.sock
        self._response = self._connection.getresponse()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
            for line in self._response:
                self.events += line.startswith(b"data:")

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._response.close()
        self._connection.close()


@contextmanager
def watching(server: Watched, query: str | None) -> Iterator[list[Watcher]]:
    watchers = [] if query is None else [Watcher(each, query) for each in server.http]
    try:
        yield watchers
    finally:
        for watcher in watchers:
            watcher.close()


def measure(server: Watched, query: str | None, seconds: float) -> Seen:
    with watching(server, query) as watchers:
        time.sleep(min(3.0, seconds / 2))  # everything is told once
        told, cpu, began = sum(each.events for each in watchers), server.cpu_seconds(), time.time()
        time.sleep(seconds)
        passed, used = time.time() - began, server.cpu_seconds() - cpu
        told = sum(each.events for each in watchers) - told
    return Seen(used / passed / server.brokers * 100, told / passed / server.brokers)


def scrape(server: Watched) -> tuple[float, float]:
    """Milliseconds of CPU that a scrape costs a broker, and kilobytes that it gives."""
    rounds, size = 20, 0
    before = server.cpu_seconds()
    for _ in range(rounds):
        for listener in server.http:
            connection = http.client.HTTPConnection(listener, timeout=60)
            connection.request("GET", "/metrics")
            size = len(connection.getresponse().read())
            connection.close()
        time.sleep(0.6)
    idle_from, began = server.cpu_seconds(), time.monotonic()
    time.sleep(rounds * 0.6)
    idle = (server.cpu_seconds() - idle_from) / (time.monotonic() - began) * rounds * 0.6
    used = idle_from - before - idle
    return max(0.0, used) / rounds / server.brokers * 1000, size / 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.watching", description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--records", type=int, default=2000, help="a second, over all partitions")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each stretch")
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    table = Table(
        title=f"3 brokers, RF 3, {arguments.records} records a second over all partitions"
    )
    for column in ("partitions", "", "CPU of a broker", "more", "events a second"):
        table.add_column(column, justify="right")
    server = Watched(3)
    with running(server):
        crowd = Crowd(server)
        for partitions in arguments.partitions:
            say(f"{partitions} partitions")
            crowd.grow_to(partitions)
            _rows(table, server, partitions, arguments, say)
        Console().print(table)


def _rows(
    table: Table,
    server: Watched,
    partitions: int,
    arguments: argparse.Namespace,
    say: Callable[[str], None],
) -> None:
    seen: dict[str, list[Seen]] = {way: [] for way in WAYS}
    with Load(server, arguments.records):
        for turn in range(arguments.rounds):
            say(f"  turn {turn + 1} of {arguments.rounds}")
            for way, query in WAYS.items():
                seen[way].append(measure(server, query, arguments.seconds))
    alone = mean(each.cpu_percent for each in seen["nobody"])
    for way, found in seen.items():
        cpu, events = mean(each.cpu_percent for each in found), mean(each.events for each in found)
        more = "" if way == "nobody" else f"{cpu - alone:+.2f} % of a core"
        table.add_row(f"{partitions:,}", way, f"{cpu:.2f} %", more, f"{events:.1f}")
    cost_ms, kilobytes = scrape(server)
    table.add_row(f"{partitions:,}", "a scrape", f"{cost_ms:.1f} ms", "", f"{kilobytes:.0f} kB")


if __name__ == "__main__":
    main()
