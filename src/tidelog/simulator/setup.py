"""What a run consists of besides machines: the clients that load it and the rules it must keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidelog.simulator.checkers.watch import watch
from tidelog.simulator.workload import add_workload
from tidelog.simulator.world import World

Setup: TypeAlias = Callable[[World], None]
"""Adds clients, observers and expectations to a world that has not started yet."""


def expect_started(world: World) -> None:
    """Every node that is to live must be unfenced in the end (L2)."""

    def missing() -> str | None:
        image = world.controller_image()
        for node_id in world.machines:
            registered = None if image is None else image.brokers.get(node_id)
            if node_id not in world.plan.dead and (registered is None or registered.fenced):
                return f"node {node_id} is not unfenced"
        return None

    world.expect("L2", missing)


def standard_setup(world: World) -> None:
    """The clients and rules of `tidelog sim`."""
    expect_started(world)
    watch(world, add_workload(world))
