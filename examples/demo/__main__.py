"""The main job in one go: three brokers, a pipeline, a leader that dies, and the proofs.

Starts three real brokers and a topic with three replicas, and a pipeline from it to tables.
Produces orders with acks=all, ends a leader with kill -9 in the middle, shows what the cluster did
about it, starts the broker again and waits until it is back in sync and leads again. Then it
proves that every acknowledged order is in the topic and in the table exactly once, and that all
replicas hold the same bytes. Exit code 0 only when all of that holds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from examples.demo.orders import PARTITIONS, TOPIC, HastyOrders, Orders
from examples.demo.picture import draw
from examples.demo.pipeline import Pipeline
from examples.demo.proofs import Claim, prove
from examples.demo.saying import console, elapsed_s, say, wait
from examples.demo.story import Failover, Moment, Story
from examples.demo.watching import Watcher
from rich.table import Table

from tidelog.testing.cluster import Cluster

HASTY: Final = 5
SETTINGS: Final = {
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
}
"""Leadership goes home, be it of one partition alone, as soon as clients can be expected to reach
the broker that came back (`broker.reconnect.grace.ms`)."""


class Topic:
    """What the cluster says about the topic now."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        new = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        self._admin.create_topics([new])[TOPIC].result(20)

    @property
    def leaders(self) -> dict[int, int]:
        return {index: each.leader for index, each in sorted(self._partitions.items())}

    @property
    def in_sync(self) -> bool:
        return all(len(each.isrs) == 3 for each in self._partitions.values())

    @property
    def _partitions(self) -> dict[int, Any]:
        """Asked again when nobody answers: the broker that was asked may have died just then."""
        for _ in range(20):
            try:
                found: dict[int, Any] = self._admin.list_topics(TOPIC, 1).topics[TOPIC].partitions
            except KafkaException:
                continue
            return found
        raise SystemExit("no broker tells who leads the topic")


def kill_ahead_of_its_followers(cluster: Cluster, victim: int, hasty: HastyOrders) -> float:
    """Hold the other brokers still for a moment, so that the leader has records that nobody else
    has and that it will have to truncate; then kill it. When that was, on the wall clock."""
    others = [node_id for node_id in cluster.node_ids if node_id != victim]
    for node_id in others:
        cluster.pause(node_id)
    hasty.send(HASTY)
    killed = time.time()
    cluster.kill(victim)
    for node_id in others:
        cluster.resume(node_id)
    return killed


def fail_over(
    cluster: Cluster, topic: Topic, orders: Orders, watcher: Watcher, count: int
) -> Failover:
    """Produce all the while; kill the leader of the first partition and start it again."""
    story, before, hasty = Story(cluster), topic.leaders, HastyOrders(cluster.bootstrap)
    victim = before[0]
    orders.start()
    hasty.send(1)
    wait(lambda: len(orders.acknowledged) > count // 6, "a sixth of the orders is not acknowledged")
    story.skip()
    killed = kill_ahead_of_its_followers(cluster, victim, hasty)
    say(
        f"kill -9 of broker {victim} after {len(orders.acknowledged):,} acknowledged orders, and "
        f"{HASTY} with acks=1 that only it has"
    )
    wait(lambda: victim not in topic.leaders.values(), "the dead broker still leads")
    wait(lambda: len(orders.acknowledged) > count // 3, "the orders came to a halt")
    story.tell()
    say(f"leaders are {topic.leaders}; {len(orders.acknowledged):,} orders acknowledged")
    started = time.time()
    pauses = _pauses("while it is away", orders, watcher, killed, started)
    cluster.start(victim)
    say(f"broker {victim} started again")
    wait(lambda: topic.in_sync, f"broker {victim} is not back in sync")
    wait(lambda: topic.leaders == before, f"broker {victim} does not lead again", 60)
    returned = time.time()
    wait(lambda: watcher.pauses.all_went_on_after(returned), "a partition is not read any more")
    pauses += _pauses("when it returns", orders, watcher, started, time.time())
    orders.finish()
    story.tell()
    say(f"leaders are {topic.leaders} again; {len(orders.acknowledged):,} orders acknowledged")
    return Failover(cluster, victim, killed, started, pauses)


def _pauses(
    when: str, orders: Orders, watcher: Watcher, since: float, until: float
) -> list[Moment]:
    """Where the longest pauses of any partition ended, for writes and for reads."""
    found = []
    for what, pauses in (("acknowledged", orders.pauses), ("received", watcher.pauses)):
        partition, began, length_s = pauses.longest(since, until)
        longest = f"the longest pause {when}: {length_s * 1000:.0f} ms without an order"
        found.append(Moment(began + length_s, f"{longest} {what} in {TOPIC}-{partition}"))
        say(found[-1].what)
    return found


def run(cluster: Cluster, home: Path, count: int, per_second: int, plot: Path) -> bool:
    """The story from the first order to the proof."""
    say(f"three brokers are ready on {cluster.bootstrap}")
    topic = Topic(cluster.bootstrap)
    wait(lambda: topic.in_sync, "the new topic is not in sync")
    say(f"topic {TOPIC}: {PARTITIONS} partitions with 3 replicas each, leaders {topic.leaders}")
    pipeline = Pipeline(home / "pipeline", cluster.bootstrap)
    orders = Orders(cluster.bootstrap, count, per_second)
    with Watcher(cluster.bootstrap, TOPIC, PARTITIONS) as watcher:
        with pipeline:
            say("the pipeline watches: orders as JSON, bronze, silver with a rule, daily revenue")
            failover = fail_over(cluster, topic, orders, watcher, count)
            everything_read = watcher.read_up_to(_ends(orders))
            say(f"{sum(watcher.found.values()):,} orders read back by a stock consumer")
            in_topic = sum(_ends(orders))
            wait(lambda: pipeline.has_taken(in_topic), "the pipeline is behind", 180, 0.5)
            say("the pipeline has come to the end of the topic as well; daily revenue:")
        for row in pipeline.revenue():
            console.print(
                "           {day} {country}  {orders:,} orders  {revenue:,.2f}".format(**row)
            )
        claims = prove(cluster, orders, watcher, pipeline)
    claims.append(Claim("a stock consumer read all of the topic", everything_read))
    moments = failover.moments()
    draw(plot, orders.moments, watcher.samples, moments)
    _summarise(moments, claims)
    say(f"throughput, lag and high watermark over the failover: {plot}")
    for failure in orders.failed[:5]:
        console.print(f"[red]{failure}[/red]")
    return all(claim.holds for claim in claims)


def _ends(orders: Orders) -> list[int]:
    ends = [0] * PARTITIONS
    for partition, offset in orders.acknowledged.values():
        ends[partition] = max(ends[partition], offset + 1)
    return ends


def _summarise(moments: Sequence[Moment], claims: Sequence[Claim]) -> None:
    console.print("\n[bold]What happened[/bold]")
    for at, what in moments:
        console.print(f"  {(at - moments[0].at) * 1000:+8.0f} ms  {what}")
    table = Table(title="What was promised", title_justify="left", show_header=False)
    for what, holds in claims:
        table.add_row("[green]holds[/green]" if holds else "[red]BROKEN[/red]", what)
    console.print()
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--orders", type=int, default=60_000, help="how many orders to send at least"
    )
    parser.add_argument("--per-second", type=int, default=3_000, help="how fast to send them")
    parser.add_argument("--plot", type=Path, default=Path("demo.html"), help="where to draw it")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR",
        help="keep cluster and tables in this directory, and leave the cluster running",
    )  # fmt: skip
    arguments = parser.parse_args()
    with ExitStack() as stack:
        home = arguments.keep
        if home is None:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-demo-")))
        cluster = Cluster(home / "cluster", brokers=3, settings=SETTINGS)
        cluster.__enter__()
        if arguments.keep is None:
            stack.push(cluster)
        holds = run(cluster, home, arguments.orders, arguments.per_second, arguments.plot)
        if arguments.keep is not None:
            say(f"the cluster goes on: tidelog status --data {home / 'cluster'}")
        verdict = "everything that was promised holds" if holds else "a promise is broken"
        say(f"{verdict}; {elapsed_s():.0f} s in all")
        return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
