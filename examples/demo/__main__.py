"""The main job in one go: produce with a stock client, kill a leader, lose nothing.

Starts three real brokers and a topic with three replicas, produces orders with acks=all, ends a
leader with kill -9 in the middle, shows what the cluster did about it, starts the broker again and
waits until it is back in sync and leads again. Then it proves that every acknowledged order is
there exactly once and that all replicas hold the same bytes. Exit code 0 only when all of that
holds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from tidelog.testing.cluster import Cluster

TOPIC = "orders"
PARTITIONS = 3
console = Console(highlight=False, soft_wrap=True)
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

    def longest_pause_since(self, moment: float) -> float:
        """The longest time without an acknowledgement from then on."""
        moments = [moment, *(each for each in self.moments if each > moment)]
        return max(b - a for a, b in pairwise(moments))


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


def replicas_are_identical(cluster: Cluster) -> bool:
    """Compare the files of all brokers, byte by byte."""
    copies = [
        {
            path.relative_to(cluster.data(node_id)): path.read_bytes()
            for path in cluster.data(node_id).glob(f"{TOPIC}-*/*.log")
        }
        for node_id in cluster.node_ids
    ]
    return all(copy == copies[0] for copy in copies)


class Story:
    """What the brokers themselves say about the topic and each other, as it happens."""

    ABOUT = (TOPIC, "fenced", "registered", "listens")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._told: dict[int, int] = {}
        self.skip()

    def skip(self) -> None:
        """What was said so far is not part of the story."""
        self._told = {each: len(self._cluster.log_text(each)) for each in self._cluster.node_ids}

    def tell(self) -> None:
        """Everything since the last time, in the order in which it happened."""
        lines = []
        for node_id, told in self._told.items():
            text = self._cluster.log_text(node_id)
            self._told[node_id] = len(text)
            for line in text[told:].splitlines():
                moment, _, said = line.partition(" ")
                if any(word in said for word in self.ABOUT):
                    lines.append((moment, node_id, said))
        for moment, node_id, said in sorted(lines):
            clock = moment.partition("T")[2].rstrip("Z")
            console.print(f"  [cyan]{clock} node {node_id}:[/cyan] {said}", soft_wrap=True)


class Topic:
    """What the cluster says about the topic now."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        new = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        self._admin.create_topics([new])[TOPIC].result(20)

    @property
    def leaders(self) -> dict[int, int]:
        found = self._admin.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions
        return {index: each.leader for index, each in found.items()}

    @property
    def in_sync(self) -> bool:
        found = self._admin.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions
        return all(len(each.isrs) == 3 for each in found.values())


def wait(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 30
    while not condition():
        if time.monotonic() > until:
            raise SystemExit(f"30 s went by and {what}")
        time.sleep(0.02)


def prove(cluster: Cluster, orders: Orders, found: Counter[int]) -> list[tuple[str, bool]]:
    """The claims, each checked."""
    return [
        ("no order was refused", not orders.failed),
        ("every acknowledged order is in the topic", set(orders.acknowledged) <= set(found)),
        ("no order is there twice", all(times == 1 for times in found.values())),
        ("all replicas hold the same bytes", replicas_are_identical(cluster)),
        ("every batch on disk is whole and its CRC fits", sound_on_disk(cluster.data())),
    ]


def run(cluster: Cluster, count: int) -> bool:
    """The story from the first order to the proof."""
    third = count // 3
    say(f"three brokers are ready on {cluster.bootstrap}")
    topic = Topic(cluster.bootstrap)
    wait(lambda: topic.in_sync, "the new topic is not in sync")
    before = topic.leaders
    say(f"topic {TOPIC}: {PARTITIONS} partitions with 3 replicas each, leaders {before}")
    orders, story = Orders(cluster.bootstrap), Story(cluster)
    orders.send(third)
    orders.wait_for(third // 2)
    victim = before[0]
    story.skip()
    killed = time.monotonic()
    cluster.kill(victim)
    say(f"kill -9 of broker {victim} after {len(orders.acknowledged):,} acknowledged orders")
    orders.send(third)
    wait(lambda: victim not in topic.leaders.values(), "the dead broker still leads")
    orders.wait_for(2 * third)
    story.tell()
    say(f"leaders are {topic.leaders}; {len(orders.acknowledged):,} orders acknowledged")
    pause = orders.longest_pause_since(killed)
    say(f"the longest time without an acknowledgement was {pause:.2f} s")
    cluster.start(victim)
    say(f"broker {victim} starts again")
    orders.send(count - 2 * third)
    orders.finish()
    wait(lambda: topic.in_sync, f"broker {victim} is not back in sync")
    wait(lambda: topic.leaders == before, f"broker {victim} does not lead again")
    story.tell()
    say(f"leaders are {topic.leaders} again")
    say(f"{len(orders.acknowledged):,} orders acknowledged")
    found = read_back(cluster.bootstrap)
    say(f"{sum(found.values()):,} orders read back")
    claims = prove(cluster, orders, found)
    table = Table(title="What was promised", show_header=False)
    for claim, holds in claims:
        table.add_row("[green]holds[/green]" if holds else "[red]BROKEN[/red]", claim)
    console.print(table)
    for failure in orders.failed[:5]:
        console.print(f"[red]{failure}[/red]")
    return all(holds for _, holds in claims)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=60_000, help="how many orders to send")
    parser.add_argument("--data", type=Path, help="keep the cluster's files in this directory")
    arguments = parser.parse_args()
    settings = {"leader.imbalance.check.interval.seconds": "1"}
    with Cluster(arguments.data, brokers=3, settings=settings) as cluster:
        return 0 if run(cluster, arguments.orders) else 1


if __name__ == "__main__":
    raise SystemExit(main())
