"""Several nodes in one world: they form a cluster, replicate, and survive what befalls one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.model.ids import TopicPartition
from tidelog.records.batch import whole_batches
from tidelog.records.record import records_of
from tidelog.simulator.faults.faults import (
    Cut,
    Fault,
    Kill,
    Mend,
    Pause,
    PowerCut,
    Resume,
    Start,
    Stop,
    Wipe,
)
from tidelog.simulator.world.paths import apart
from tidelog.simulator.world.world import World

ORDERS = TopicPartition("orders", 0)

Talk = Callable[..., Any]
MakeWorld = Callable[..., World]


@pytest.fixture
def loaded(make_world: MakeWorld, talker: Talk, writer: Talk) -> tuple[World, Any]:
    """Three nodes, a topic on all of them, and somebody who writes to it all the time."""
    world = make_world(brokers=3)
    world.add_client(admin := talker())
    admin.create(replicas=3)
    world.run_for(1_000)
    assert admin.is_done
    world.add_client(client := writer())
    world.run_for(1_000)
    assert len(client.acknowledged) > 10
    return world, client


def leader(world: World) -> int:
    image = world.controller_image()
    assert image is not None
    return image.topics_by_name[ORDERS.topic].partitions[0].leader


def content(world: World, node_id: int) -> dict[int, bytes | None]:
    """What one replica holds, by offset."""
    node = world.machines[node_id].node
    assert node is not None
    partition = node.replicas.get(ORDERS)
    assert partition is not None
    log = partition.log
    found: dict[int, bytes | None] = {}
    offset = log.start_offset
    while offset < log.end_offset:
        piece = log.read(offset, 1 << 20, log.end_offset)
        assert piece is not None
        data = memoryview(piece.file.read(piece.position, piece.length))
        for header, batch in whole_batches(data):
            found.update((record.offset, record.value) for record in records_of(batch))
            offset = header.next_offset
    return found


def test_nodes_find_each_other_and_replicate(loaded: tuple[World, Any]) -> None:
    world, client = loaded
    client.stopped = True
    world.run_for(2_000)

    first, second, third = (content(world, node_id) for node_id in (100, 101, 102))
    assert first == second == third
    assert client.acknowledged.items() <= first.items()


@pytest.mark.parametrize(
    ("strike", "undo"),
    [
        (lambda node: Kill(node=node), lambda node: Start(node=node)),
        (lambda node: PowerCut(node=node, fate="lost"), lambda node: Start(node=node)),
        (lambda node: Pause(node=node), lambda node: Resume(node=node)),
        (lambda node: Stop(node=node), lambda node: Start(node=node)),
        (lambda node: Wipe(node=node), lambda node: Start(node=node)),
        (
            lambda node: Cut(pairs=apart([str(node)], ["100", "101", "102", "clients"])),
            lambda node: Mend(pairs=apart([str(node)], ["100", "101", "102", "clients"])),
        ),
    ],
    ids=["kill", "power cut", "pause", "stop", "wipe", "cut off"],
)
def test_what_befalls_one_node_costs_nothing_that_was_acknowledged(
    loaded: tuple[World, Any],
    strike: Callable[[int], Fault],
    undo: Callable[[int], Fault],
) -> None:
    world, client = loaded
    struck = leader(world) if leader(world) != 100 else 101
    before = len(client.acknowledged)

    world.inject(strike(struck))
    world.run_for(40_000)
    during = len(client.acknowledged)
    assert during > before
    world.inject(undo(struck))
    world.run_for(30_000)
    client.stopped = True
    world.run_for(10_000)

    assert client.is_idle
    assert len(client.acknowledged) > during
    first, second, third = (content(world, node_id) for node_id in (100, 101, 102))
    assert first == second == third
    assert client.acknowledged.items() <= first.items()
    assert all(world.is_whole(machine) for machine in world.machines.values())
