"""`python -m benchmarks.scale`: how a cluster of three carries more and more partitions.

Every partition has three replicas. What is measured for each number of partitions must not grow
faster than that number.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.servers import Server, Tidelog, running
from benchmarks.waiting import wait
from tidelog.client.admin import Admin
from tidelog.client.blocking import Client

PER_TOPIC = 100
IDLE_S = 5.0
ROWS = {
    "create a partition": "ms",
    "idle CPU of all three": "% of a core",
    "memory of a broker": "MB",
    "memory of a replica": "kB",
    "another controller decides after": "s",
    "killed broker serves again after": "s",
    "killed broker in sync again after": "s",
}


class Crowd:
    """A cluster with many partitions."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        self._partitions = 0
        self._empty_mb = server.rss_mb()

    def grow_to(self, partitions: int) -> float:
        """Milliseconds that each new partition took."""
        wanted, began = partitions - self._partitions, time.monotonic()
        while self._partitions < partitions:
            name = f"crowd-{self._partitions}"
            new = NewTopic(name, PER_TOPIC, 3, config={"min.insync.replicas": "2"})
            self._admin.create_topics([new], operation_timeout=60)[name].result(90)
            self._partitions += PER_TOPIC
        wait(self._all_in_sync, "not everything is in sync")
        return (time.monotonic() - began) * 1000 / wanted

    def _all_in_sync(self) -> bool:
        topics = self._admin.list_topics(timeout=60).topics
        found = [each for name, topic in topics.items() if name.startswith("crowd-")
                 for each in topic.partitions.values()]  # fmt: skip
        return len(found) == self._partitions and all(len(each.isrs) == 3 for each in found)

    def idle_cpu(self) -> float:
        before = self._server.cpu_seconds()
        time.sleep(IDLE_S)
        return (self._server.cpu_seconds() - before) / IDLE_S * 100

    def memory_mb(self) -> float:
        return self._server.rss_mb()

    def memory_of_a_replica_kb(self) -> float:
        return (self._server.rss_mb() - self._empty_mb) * 1024 / self._partitions

    def take_over(self) -> tuple[float, float, float]:
        """Kill the active controller: until another decides, it serves again, it is in sync."""
        victim = self._controller()
        self._server.signal(victim, signal.SIGKILL)
        wait(lambda: not self._server.is_running(victim), f"node {victim} did not end")
        decided = wait(lambda: self._controller() not in (victim, -1), "nobody decides")
        began = time.monotonic()
        self._server.restart(victim)
        serves = time.monotonic() - began
        wait(self._all_in_sync, f"node {victim} is not in sync")
        return decided, serves, time.monotonic() - began

    def _controller(self) -> int:
        try:
            with Client(self._server.bootstrap) as client:
                return Admin(client).describe_quorum().leader
        except Exception:  # nobody leads just now
            return -1


def measure(sizes: list[int], say: Callable[[str], None]) -> dict[int, list[float]]:
    columns = {}
    with running(Tidelog(3)) as server:
        crowd = Crowd(server)
        for size in sizes:
            say(f"{size:,} partitions: create")
            create_ms = crowd.grow_to(size)
            say(f"{size:,} partitions: idle")
            figures = [create_ms, crowd.idle_cpu(), crowd.memory_mb()]
            figures.append(crowd.memory_of_a_replica_kb())
            say(f"{size:,} partitions: take over")
            columns[size] = [*figures, *crowd.take_over()]
    return columns


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.scale", description=__doc__)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1_000, 3_000, 10_000], help="rising numbers"
    )
    sizes = parser.parse_args().sizes
    columns = measure(sizes, lambda text: print(text, file=sys.stderr))
    table = Table(title="Three combined nodes, RF 3")
    table.add_column("partitions")
    for size in sizes:
        table.add_column(f"{size:,}", justify="right")
    for row, (name, unit) in enumerate(ROWS.items()):
        table.add_row(name, *(f"{columns[size][row]:,.2f} {unit}" for size in sizes))
    Console().print(table)


if __name__ == "__main__":
    main()
