"""Nodes with several log directories: what befalls one of them, and what the others make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.model.ids import TopicPartition
from tidelog.simulator.faults.faults import FailDisk, HealDisk, Start, Stop, WipeDirectory
from tidelog.simulator.world.machine import Machine
from tidelog.simulator.world.world import World
from tidelog.storage.identity import read_clean_shutdown, read_identity

PARTITIONS = 4


@pytest.fixture
def world(make_world: Callable[..., World], talker: Callable[..., Any]) -> World:
    """Three nodes with two directories each, and a topic in both of them everywhere."""
    world = make_world(brokers=3, directories=2)
    world.add_client(admin := talker())
    admin.create(partitions=PARTITIONS, replicas=3)
    for number in range(5):
        admin.produce(b"%d" % number)
    world.run_for(4_000)
    assert all(world.is_whole(machine) for machine in world.machines.values())
    return world


def homes(machine: Machine) -> dict[int, str]:
    """The directories of the replicas that a machine serves."""
    node = machine.node
    assert node is not None
    hosted = {
        index: partition.log
        for index in range(PARTITIONS)
        if (partition := node.replicas.get(TopicPartition("orders", index))) is not None
    }
    return {
        index: log.directory.rpartition("/")[0]
        for index, log in hosted.items()
        if log.health.offline_reason is None
    }


def in_sync(world: World, node_id: int) -> set[int]:
    """The partitions that a node is in sync in."""
    image = world.controller_image()
    assert image is not None
    partitions = image.topics_by_name["orders"].partitions
    return {index for index, partition in partitions.items() if node_id in partition.isr}


def at(machine: Machine, path: str) -> set[int]:
    return {index for index, home in homes(machine).items() if home == path}


def test_a_failed_directory_costs_its_replicas_and_no_others(world: World) -> None:
    machine = world.machines[102]
    good, bad = at(machine, "/data"), at(machine, "/disk1")
    assert good and bad
    world.inject(FailDisk(node=102, how="sync", part="/disk1/"))
    world.run_for(90_000)

    assert machine.process is not None
    assert homes(machine).keys() == good == in_sync(world, 102)
    assert machine.is_crippled and machine.doomed

    world.calm()
    world.run_for(30_000)

    assert homes(machine).keys() == good | bad == in_sync(world, 102)


def test_a_stop_with_a_failed_directory_is_marked_as_clean_in_the_others_only(
    world: World,
) -> None:
    machine = world.machines[102]
    world.inject(FailDisk(node=102, how="sync", part="/disk1/"))
    world.inject(Stop(node=102))
    world.run_for(30_000)

    assert machine.process is None
    assert read_clean_shutdown(machine.disk.files, "/data") is not None
    assert read_clean_shutdown(machine.disk.files, "/disk1") is None

    world.inject(HealDisk(node=102))
    world.inject(Start(node=102))
    world.run_for(30_000)

    assert world.is_whole(machine)


def test_a_wiped_directory_is_another_one_and_is_filled_again(world: World) -> None:
    machine = world.machines[102]
    kept, lost = (read_identity(machine.disk.files, path) for path in ("/data", "/disk1"))
    bad = at(machine, "/disk1")
    world.inject(WipeDirectory(node=102, path="/disk1"))
    assert machine.process is None and machine.lossy
    assert not any(name.startswith("orders") for name in machine.disk.files.list("/disk1"))
    assert read_identity(machine.disk.files, "/data") == kept
    blank = read_identity(machine.disk.files, "/disk1")
    assert blank is not None and lost is not None
    assert blank.directory_id != lost.directory_id

    world.inject(Start(node=102))
    world.run_for(60_000)

    assert world.is_whole(machine) and not machine.lossy
    assert bad <= homes(machine).keys() == in_sync(world, 102)


def test_no_directory_is_wiped_while_somebody_else_is_not_whole(world: World) -> None:
    world.inject(WipeDirectory(node=101, path="/disk1"))
    world.inject(WipeDirectory(node=102, path="/disk1"))

    assert world.machines[101].lossy
    assert not world.machines[102].lossy
    assert world.machines[102].disk.files.list("/disk1") != ["meta.properties"]
