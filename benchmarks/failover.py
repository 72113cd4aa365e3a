"""`python -m benchmarks.failover`: how long partitions stand still when a broker goes and returns.

A stock idempotent producer writes to every partition of a topic with three replicas, two of which
must be in sync, and stock consumers read along; everybody has default settings. A round ends one
broker and starts it again. A figure is the longest time in which *any* partition had no
acknowledged write, or a consumer received no record of it: while the broker is away, and from its
start until it leads again what it led before.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.live import CLIENTS, LiveReader, LiveWriter
from benchmarks.servers import ApacheKafka, Server, Tidelog, running
from benchmarks.waiting import wait
from tidelog.client.admin import Admin
from tidelog.client.blocking import Client
from tidelog.testing.pauses import Pauses

TOPIC = "failover"
BROKERS = 3
PARTITIONS = 6
WRITES = "writes"
SETTLED_S = 2.0
"""How long everything is watched after the last thing has happened."""
SETTINGS = {
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
}
"""So that leadership goes back within the round, on both sides."""
KILL = "kill -9 of a leader"
KILL_CONTROLLER = "kill -9 of the controller that leads"
STOP = "SIGTERM of a leader"
RETURN = "its return, until it leads again"
ROLLING = "rolling restart of all three"


@dataclass
class Trial:
    """One cluster under trial; partition n prefers broker n modulo three."""

    server: Server
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By what happened, and by whom it concerned."""
    errors: int = 0

    def __post_init__(self) -> None:
        self._nodes = list(self.server.ports)
        self._admin = AdminClient({"bootstrap.servers": self.server.bootstrap, "log_level": 0})
        self._watched: dict[str, Pauses] = {}
        placed = [
            [self._nodes[(first + step) % BROKERS] for step in range(BROKERS)]
            for first in range(PARTITIONS)
        ]
        config = {"min.insync.replicas": "2"}
        new = NewTopic(TOPIC, PARTITIONS, replica_assignment=placed, config=config)
        self._admin.create_topics([new])[TOPIC].result(30)
        self._settle()

    @contextmanager
    def live(self, clients: Sequence[str]) -> Iterator[None]:
        """Write and read all the while."""
        bootstrap = self.server.bootstrap
        with ExitStack() as stack:
            writer = stack.enter_context(LiveWriter(bootstrap, TOPIC, PARTITIONS))
            self._watched = {WRITES: writer.pauses}
            for client in clients:
                reader = LiveReader(client, bootstrap, TOPIC, PARTITIONS)
                self._watched[client] = stack.enter_context(reader).pauses
            time.sleep(SETTLED_S)
            yield
        self.errors += len(writer.failed)

    def _settle(self) -> None:
        """Wait until everybody is in sync and leads what it prefers to lead."""
        wait(self._is_home, "leaders are not where they should be")

    def _is_home(self) -> bool:
        found = self._admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
        return len(found) == PARTITIONS and all(
            len(each.isrs) == BROKERS and each.leader == self._nodes[index % BROKERS]
            for index, each in found.items()
        )

    def _controller(self) -> int:
        with Client(self.server.bootstrap) as client:
            return Admin(client).describe_quorum().leader

    def _end(self, victim: int, number: signal.Signals) -> None:
        self.server.signal(victim, number)
        wait(lambda: not self.server.is_running(victim), f"node {victim} did not end")

    def _note(self, what: str, since: float) -> None:
        """Wait until every partition has gone on for a while, and note the longest pauses."""
        calm = time.time()
        wait(
            lambda: all(each.all_went_on_after(calm) for each in self._watched.values()),
            "some partition does not go on",
        )
        time.sleep(SETTLED_S)
        until = time.time()
        for who, pauses in self._watched.items():
            longest = pauses.longest(since, until)
            self.figures.setdefault(what, {}).setdefault(who, []).append(longest.length_s)

    def round(self, what: str, *, of_controller: bool, number: signal.Signals) -> None:
        """End one broker, and start it again."""
        controller = self._controller()
        others = [node for node in self._nodes if node != controller]
        victim = controller if of_controller else others[0]
        ended = time.time()
        self._end(victim, number)
        self._note(what, ended)
        started = time.time()
        self.server.restart(victim)
        self._settle()
        self._note(RETURN, started)

    def rolling_restart(self) -> None:
        """Restart one broker after the other under load, each when all are in sync again."""
        began = time.time()
        for victim in self._nodes:
            self._end(victim, signal.SIGTERM)
            self.server.restart(victim)
            wait(self._in_sync, "not everybody is in sync")
        self._settle()
        self._note(ROLLING, began)

    def _in_sync(self) -> bool:
        found = self._admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
        return all(len(each.isrs) == BROKERS for each in found.values())


def measure(
    server: Server, rounds: int, clients: Sequence[str], say: Callable[[str], None]
) -> Trial:
    with running(server):
        trial = Trial(server)
        with trial.live(clients):
            for number in range(1, rounds + 1):
                say(f"{server.name}: round {number} of {rounds}")
                trial.round(KILL, of_controller=False, number=signal.SIGKILL)
                trial.round(KILL_CONTROLLER, of_controller=True, number=signal.SIGKILL)
                trial.round(STOP, of_controller=False, number=signal.SIGTERM)
                trial.rolling_restart()
    return trial


def show(trial: Trial) -> None:
    table = Table(
        title=f"{trial.server.name}: longest pause of any of {PARTITIONS} partitions in s, "
        "median of the rounds (worst)"
    )
    table.add_column("what happens")
    everybody = list(next(iter(trial.figures.values())))
    for who in everybody:
        table.add_column(who if who == WRITES else f"reads, {who}", justify="right")
    for what, found in trial.figures.items():
        cells = [f"{median(found[who]):.2f} ({max(found[who]):.2f})" for who in everybody]
        table.add_row(what, *cells)
    Console(width=120).print(table)
    print(f"errors that reached the application of the producer: {trial.errors}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="rounds for us")
    parser.add_argument("--kafka-rounds", type=int, default=3, help="and for Apache Kafka 4.3.1")
    parser.add_argument(
        "--client", choices=[*CLIENTS], nargs="*", default=[*CLIENTS], help="who reads along"
    )
    arguments = parser.parse_args()
    for kind, rounds in ((Tidelog, arguments.rounds), (ApacheKafka, arguments.kafka_rounds)):
        if rounds > 0:
            server = kind(BROKERS, SETTINGS)
            show(
                measure(server, rounds, arguments.client, lambda text: print(text, file=sys.stderr))
            )


if __name__ == "__main__":
    main()
