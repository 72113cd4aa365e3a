"""The main job in one go: produce with a stock client, kill the broker, lose nothing.

Starts a real broker, produces orders with acks=all, ends the broker with kill -9 in the middle,
starts it again, and proves that every acknowledged order is there exactly once and that every
byte on disk is sound. Exit code 0 only when all of that holds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from tidelog.testing.cluster import Cluster

TOPIC = "orders"
PARTITIONS = 3
console = Console(highlight=False)
began = time.monotonic()


def say(text: str) -> None:
    console.print(f"[dim]{time.monotonic() - began:7.3f} s[/dim]  {text}")


class Orders:
    """Sends orders and remembers which were acknowledged, and when."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failed: list[str] = []
        self.moments: list[float] = []
        self._next = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "queue.buffering.max.messages": 0,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 20,
                "topic.metadata.refresh.fast.interval.ms": 20,
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )

    def send(self, count: int) -> None:
        """Queue orders; acknowledgements arrive while we go on."""
        for _ in range(count):
            order = {
                "order": self._next,
                "customer": self._next % 97,
                "cents": self._next * 7 % 9999,
            }
            key = str(order["customer"]).encode()
            self._producer.produce(
                TOPIC, json.dumps(order).encode(), key, on_delivery=self._delivered
            )
            self._producer.poll(0)
            self._next += 1

    def wait_for(self, count: int) -> None:
        """Go on once that many orders are acknowledged, with the others still on their way."""
        until = time.monotonic() + 30
        while len(self.acknowledged) < count and time.monotonic() < until:
            self._producer.poll(0.005)

    def finish(self) -> None:
        """Wait until everything sent is acknowledged or has failed."""
        left = self._producer.flush(60)
        if left:
            self.failed.append(f"{left} orders were never answered")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        order = json.loads(message.value() or b"{}")["order"]
        self.acknowledged[order] = (message.partition() or 0, message.offset() or 0)
        self.moments.append(time.monotonic())

    @property
    def longest_pause_s(self) -> float:
        return max(b - a for a, b in zip(self.moments, self.moments[1:], strict=False))


def read_back(bootstrap: str) -> Counter[int]:
    """Every order in the topic, with how often it is there."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    found: Counter[int] = Counter()
    ends = 0
    while ends < PARTITIONS:
        message = consumer.poll(10)
        if message is None:
            raise SystemExit("the consumer heard nothing for 10 s")
        if message.error() is not None:
            ends += 1
        else:
            found[json.loads(message.value() or b"{}")["order"]] += 1
    consumer.close()
    return found


def sound_on_disk(data: Path) -> bool:
    """Check every batch of every segment with the command a person would use."""
    segments = sorted(str(path) for path in data.glob(f"{TOPIC}-*/*.log"))
    tidelog = [str(Path(sys.executable).with_name("tidelog")), "log", "dump", "--json"]
    return all(
        subprocess.run([*tidelog, path], capture_output=True).returncode == 0 for path in segments
    )


def story(cluster: Cluster, since: int) -> None:
    """What the broker itself said, from a position in its log on."""
    for line in cluster.log_text()[since:].splitlines():
        if any(word in line for word in ("recovered", "led by", "started", "listens")):
            said = line.partition(" ")[2]
            console.print(f"             [cyan]broker:[/cyan] {said}", soft_wrap=True)


def prove(orders: Orders, found: Counter[int], data: Path) -> list[tuple[str, bool]]:
    """The claims, each checked."""
    return [
        ("no order was refused", not orders.failed),
        ("every acknowledged order is in the topic", set(orders.acknowledged) <= set(found)),
        ("no order is there twice", all(times == 1 for times in found.values())),
        ("every batch on disk is whole and its CRC fits", sound_on_disk(data)),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=60_000, help="how many orders to send")
    parser.add_argument("--data", type=Path, help="keep the cluster's files in this directory")
    arguments = parser.parse_args()
    third = arguments.orders // 3
    with Cluster(arguments.data) as cluster:
        say(f"one broker is ready on {cluster.bootstrap}")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
        say(f"topic {TOPIC} has {PARTITIONS} partitions")
        orders = Orders(cluster.bootstrap)
        orders.send(third)
        orders.wait_for(third // 2)
        said = len(cluster.log_text())
        cluster.kill()
        say(f"kill -9 after {len(orders.acknowledged):,} acknowledged orders; the producer goes on")
        orders.send(third)
        cluster.start()
        say("the broker is back")
        story(cluster, said)
        orders.send(arguments.orders - 2 * third)
        orders.finish()
        say(f"{len(orders.acknowledged):,} orders acknowledged")
        say(f"the longest pause between two acknowledgements was {orders.longest_pause_s:.2f} s")
        found = read_back(cluster.bootstrap)
        say(f"{sum(found.values()):,} orders read back")
        claims = prove(orders, found, cluster.data())
    table = Table(title="What was promised", show_header=False)
    for claim, holds in claims:
        table.add_row("[green]holds[/green]" if holds else "[red]BROKEN[/red]", claim)
    console.print(table)
    for failure in orders.failed[:5]:
        console.print(f"[red]{failure}[/red]")
    return 0 if all(holds for _, holds in claims) else 1


if __name__ == "__main__":
    raise SystemExit(main())
