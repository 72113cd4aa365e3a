"""`python -m benchmarks.failover`: how long writes stand still when a broker goes away.

A stock idempotent producer with its default settings writes a record every millisecond to a
partition with three replicas, two of which must be in sync. A round ends one broker; its figure is
the longest time without an acknowledged record.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from confluent_kafka import ElectionType, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.servers import ApacheKafka, Server, Tidelog, running
from benchmarks.waiting import PATIENCE_S, wait
from tidelog.client.admin import Admin
from tidelog.client.blocking import Client

TOPIC = "failover"
BROKERS = 3


class Pulse:
    """A record every millisecond, and when each was acknowledged."""

    def __init__(self, server: Server, partition: int) -> None:
        self._partition = partition
        self._producer = Producer(
            {
                "bootstrap.servers": server.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.acknowledged: list[tuple[float, float]] = []
        """(when it was sent, when its answer came), in the order of the answers."""
        self.failed: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Pulse:
        self._thread.start()
        wait(lambda: len(self.acknowledged) > 200, "the producer gets no answers")
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        if self._producer.flush(PATIENCE_S):
            self.failed.append("some records were never answered")

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            sent = time.monotonic()
            self._producer.produce(
                TOPIC,
                b"x" * 100,
                partition=self._partition,
                on_delivery=lambda error, _, sent=sent: self._answered(error, _, sent),
            )
            due = max(due + 0.001, sent - 0.1)
            while (left := due - time.monotonic()) > 0:
                self._producer.poll(left)
            self._producer.poll(0)

    def _answered(self, error: KafkaError | None, _: Message, sent: float) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        with self._lock:
            self.acknowledged.append((sent, time.monotonic()))

    def goes_on_after(self, moment: float) -> bool:
        """Whether a record that was sent after `moment` is acknowledged."""
        return bool(self.acknowledged) and self.acknowledged[-1][0] > moment

    def longest_pause_since(self, moment: float) -> float:
        with self._lock:
            answers = [answered for _, answered in self.acknowledged if answered >= moment]
        return max(
            after - before for before, after in zip([moment, *answers], answers, strict=False)
        )


@dataclass
class Trial:
    """One cluster under trial; partition n prefers the n-th broker."""

    server: Server
    figures: dict[str, list[float]] = field(default_factory=dict)
    errors: int = 0

    def __post_init__(self) -> None:
        self._nodes = list(self.server.ports)
        self._admin = AdminClient({"bootstrap.servers": self.server.bootstrap, "log_level": 0})
        placed = [
            [self._nodes[(first + step) % BROKERS] for step in range(BROKERS)]
            for first in range(BROKERS)
        ]
        config = {"min.insync.replicas": "2"}
        new = NewTopic(TOPIC, BROKERS, replica_assignment=placed, config=config)
        self._admin.create_topics([new])[TOPIC].result(30)
        self._settle()

    def _settle(self) -> None:
        """Wait until everybody is in sync and leads what it prefers to lead."""
        wait(self._in_sync, "not everybody is in sync")
        partitions = [TopicPartition(TOPIC, index) for index in range(BROKERS)]
        self._admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30)
        wait(lambda: self._leaders() == self._nodes, "leaders are not where they should be")

    def _in_sync(self) -> bool:
        found = self._admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
        return len(found) == BROKERS and all(len(each.isrs) == BROKERS for each in found.values())

    def _leaders(self) -> list[int]:
        found = self._admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
        return [found[index].leader for index in sorted(found)]

    def _controller(self) -> int:
        with Client(self.server.bootstrap) as client:
            return Admin(client).describe_quorum().leader

    def _end(self, victim: int, number: signal.Signals) -> None:
        self.server.signal(victim, number)
        wait(lambda: not self.server.is_running(victim), f"node {victim} did not end")

    def round(self, name: str, *, of_controller: bool, number: signal.Signals) -> None:
        """End one broker and see how long its partition takes no writes."""
        controller = self._controller()
        others = [node for node in self._nodes if node != controller]
        victim = controller if of_controller else others[0]
        with Pulse(self.server, self._nodes.index(victim)) as pulse:
            began = time.monotonic()
            self._end(victim, number)
            ended = time.monotonic()
            wait(lambda: pulse.goes_on_after(ended), "no write was acknowledged")
            self.figures.setdefault(name, []).append(pulse.longest_pause_since(began))
            self.server.restart(victim)
            self._settle()
        self.errors += len(pulse.failed)

    def rolling_restart(self, name: str) -> None:
        """Restart one broker after the other under load."""
        with Pulse(self.server, 0) as pulse:
            began = time.monotonic()
            for victim in self._nodes:
                self._end(victim, signal.SIGTERM)
                self.server.restart(victim)
                self._settle()
            self.figures.setdefault(name, []).append(pulse.longest_pause_since(began))
        self.errors += len(pulse.failed)


def measure(server: Server, rounds: int, say: Callable[[str], None]) -> Trial:
    with running(server):
        trial = Trial(server)
        for number in range(1, rounds + 1):
            say(f"{server.name}: round {number} of {rounds}")
            trial.round("kill -9 of a leader", of_controller=False, number=signal.SIGKILL)
            trial.round(
                "kill -9 of the controller that leads", of_controller=True, number=signal.SIGKILL
            )
            trial.round("SIGTERM of a leader", of_controller=False, number=signal.SIGTERM)
        say(f"{server.name}: rolling restart")
        trial.rolling_restart("rolling restart of all three")
    return trial


def show(trials: list[Trial]) -> None:
    table = Table(title="Longest pause without an acknowledged write, median (worst)")
    table.add_column("what happens")
    for trial in trials:
        table.add_column(trial.server.name, justify="right")
    for name in trials[0].figures:
        cells = [
            f"{median(trial.figures[name]):.2f} s ({max(trial.figures[name]):.2f} s)"
            for trial in trials
        ]
        table.add_row(name, *cells)
    table.add_row("errors that reached the application", *(str(each.errors) for each in trials))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="rounds of each kind for us")
    parser.add_argument("--kafka-rounds", type=int, default=3, help="and for Apache Kafka 4.3.1")
    arguments = parser.parse_args()
    trials: list[Trial] = []
    for server, rounds in (
        (Tidelog(BROKERS), arguments.rounds),
        (ApacheKafka(BROKERS), arguments.kafka_rounds),
    ):
        if rounds > 0:
            trials.append(measure(server, rounds, lambda text: print(text, file=sys.stderr)))
    show(trials)


if __name__ == "__main__":
    main()
