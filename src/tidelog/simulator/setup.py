"""What a run consists of besides machines: the clients that load it and the rules it must keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from tidelog.simulator.checkers.transaction_rules import TransactionRules
from tidelog.simulator.checkers.watch import watch
from tidelog.simulator.plan import Plan
from tidelog.simulator.workload import add_transactions, add_workload
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


def with_transactions(plan: Plan) -> Plan:
    """The same run on nodes that are ready for `transactional_setup`."""
    replicas = min(3, plan.brokers)
    settings = {
        "transaction.state.log.num.partitions": 2,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min(2, replicas),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
    }
    given = tuple((name, str(value)) for name, value in settings.items())
    return replace(plan, settings=(*plan.settings, *given))


def transactional_setup(world: World) -> None:
    """The same, and producers that write to several partitions at once."""
    expect_started(world)
    ghost = watch(world, add_workload(world))
    partitions, producers = add_transactions(world)
    TransactionRules(world, ghost, producers, partitions).expect()
