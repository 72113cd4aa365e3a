"""After one fault no partition stands still for long, for clients as patient as stock ones are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import pytest

from tidelog.controller.partition_image import PartitionImage
from tidelog.node.api import metadata
from tidelog.simulator.clients.stock_clients import StockReader, StockWriter
from tidelog.simulator.faults.faults import Kill, Start, Stop
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.world.machine import Machine
from tidelog.simulator.world.world import World

pytestmark = pytest.mark.long

TOPIC, PARTITIONS = "orders", 3
BOUND_MS = 500
AWAY_MS = 3_000
SETTINGS = (
    ("leader.imbalance.check.interval.seconds", "1"),
    ("leader.imbalance.per.broker.percentage", "0"),
)


class Live(NamedTuple):
    """A world with a topic that is written to and read all the time."""

    world: World
    writer: StockWriter
    reader: StockReader

    def partitions(self) -> list[PartitionImage]:
        image = self.world.controller_image()
        if image is None:
            return []
        found = [image.partition(TOPIC, index) for index in range(PARTITIONS)]
        return [each for each in found if each is not None]

    def leaders(self) -> list[int]:
        return [each.leader for each in self.partitions()]

    def in_sync(self) -> bool:
        found = self.partitions()
        return len(found) == PARTITIONS and all(len(each.isr) == 3 for each in found)

    def is_home(self) -> bool:
        return self.in_sync() and all(each.leader == each.replicas[0] for each in self.partitions())

    def run_until(self, condition: Callable[[], bool], within_ms: int = 30_000) -> None:
        until_ms = self.world.now_ms + within_ms
        while not condition():
            assert self.world.now_ms < until_ms
            self.world.run_for(10)

    def longest_ms(self) -> tuple[int, int]:
        """Without a write and without a record, of any partition."""
        found = [client.judgement for client in (self.writer, self.reader)]
        writes, reads = [max(each.longest_ms.values()) for each in found if each is not None]
        return writes, reads


NewLive: TypeAlias = Callable[..., Live]


@pytest.fixture
def live(talker: Callable[..., Any]) -> NewLive:
    def make(seed: int, **settings: str) -> Live:
        given = tuple((name.replace("_", "."), value) for name, value in settings.items())
        world = World(Plan(seed=seed, controllers=3, settings=(*SETTINGS, *given)))
        nodes = world.plan.broker_ids
        creator = talker()
        writer = StockWriter("writer", nodes, TOPIC, PARTITIONS)
        reader = StockReader("reader", nodes, TOPIC, PARTITIONS)
        world.add_client(creator)
        world.start()
        world.run_for(3_000)
        creator.create(TOPIC, partitions=PARTITIONS, replicas=3)
        made = Live(world, writer, reader)
        made.run_until(lambda: creator.is_done)
        world.run_for(1_000)
        for client in (writer, reader):
            world.add_client(client)
        made.run_until(lambda: writer.has_begun and reader.has_begun)
        world.run_for(1_000)
        for client in (writer, reader):
            client.judge(BOUND_MS)
        return made

    return make


def decider(live: Live) -> int:
    leader = live.world.quorum_leader()
    assert leader is not None
    return leader.node_id


def goes_and_returns(live: Live, fault: type[Kill | Stop], victim: int) -> None:
    live.world.inject(fault(node=victim))
    live.run_until(lambda: bool(live.leaders()) and victim not in live.leaders())
    live.world.run_for(AWAY_MS)
    live.world.inject(Start(node=victim))
    live.run_until(live.is_home)
    live.world.run_for(2_000)


def leader_only(live: Live) -> int:
    """A broker that leads something, and decides nothing."""
    return next(each for each in live.leaders() if each != decider(live))


def roll(live: Live) -> None:
    """Restart all of them, each as soon as everybody is in sync."""
    machines = live.world.machines
    for victim in live.world.plan.broker_ids:
        live.world.inject(Stop(node=victim))
        live.run_until(partial(_is_down, machines[victim]))
        live.world.inject(Start(node=victim))
        live.run_until(live.in_sync)
    live.run_until(live.is_home)


def _is_down(machine: Machine) -> bool:
    return machine.node is None


@pytest.mark.parametrize(("fault", "seed"), [(Kill, 1), (Kill, 2), (Stop, 1)])
def test_no_partition_stands_still_when_a_leader_goes_and_returns(
    live: NewLive, fault: type[Kill | Stop], seed: int
) -> None:
    made = live(seed)
    goes_and_returns(made, fault, leader_only(made))
    assert max(made.longest_ms()) <= BOUND_MS


def test_nor_when_it_is_the_controller_that_decides(live: NewLive) -> None:
    made = live(1)
    goes_and_returns(made, Kill, decider(made))
    assert max(made.longest_ms()) <= BOUND_MS


def test_nor_when_all_are_restarted_one_after_the_other(live: NewLive) -> None:
    made = live(2)
    roll(made)
    assert max(made.longest_ms()) <= BOUND_MS


# What the rule is there for: without each of these it fires.


def test_the_rule_notices_leadership_that_goes_back_too_early(live: NewLive) -> None:
    made = live(1, broker_reconnect_grace_ms="0")
    with pytest.raises(Violation, match="L21"):
        goes_and_returns(made, Kill, leader_only(made))


def test_the_rule_notices_clients_that_are_told_of_no_leader(
    live: NewLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "_leaders_in_doubt", lambda *_: set())
    made = live(1)
    with pytest.raises(Violation, match="L21"):
        goes_and_returns(made, Kill, leader_only(made))
