"""What a run consists of besides machines: the clients that load it and the rules it must keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from tidelog.model.settings.access import STANDARD_AUTHORIZER
from tidelog.simulator.clients.groups import SESSION_MS
from tidelog.simulator.clients.workload import (
    OFFSETS_PARTITIONS,
    add_copiers,
    add_groups,
    add_guests,
    add_table,
    add_transactions,
    add_workload,
)
from tidelog.simulator.rules.access_rules import AccessRules
from tidelog.simulator.rules.copy_rules import CopyRules
from tidelog.simulator.rules.group_rules import GroupRules
from tidelog.simulator.rules.offset_rules import OffsetRules
from tidelog.simulator.rules.table_rules import TableRules
from tidelog.simulator.rules.transaction_progress import TransactionProgress
from tidelog.simulator.rules.transaction_rules import TransactionRules
from tidelog.simulator.rules.watch import watch
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.world.dice import stream
from tidelog.simulator.world.world import World

Setup: TypeAlias = Callable[[World], None]
"""Adds clients, observers and expectations to a world that has not started yet."""

MARK_SOON_MS: Final = 500
"""Members commit all the time: high watermarks must reach followers in between, or nothing is ever
still."""
LOAD_BYTES: Final = 100
"""Coordinators load one batch at a time: clients often meet one that is not ready."""


def expect_started(world: World) -> None:
    """Every node that is to live must be unfenced in the end (L2)."""

    def missing() -> str | None:
        image = world.controller_image()
        for node_id in world.plan.broker_ids:
            registered = None if image is None else image.brokers.get(node_id)
            if node_id not in world.plan.dead and (registered is None or registered.fenced):
                return f"node {node_id} is not unfenced"
        return None

    world.expect("L2", missing)


def standard_setup(
    world: World,
    *,
    with_transactions: bool = False,
    with_groups: bool = False,
    with_compaction: bool = False,
    with_access_control: bool = False,
) -> None:
    """The clients and rules of `tidelog sim`."""
    expect_started(world)
    ghost = watch(world, add_workload(world))
    if with_transactions:
        TransactionRules(world, ghost, *add_transactions(world)).watch()
        TransactionProgress(world, ghost).watch()
    if with_groups:
        groups, histories = add_groups(world)
        for members in groups:
            GroupRules(world, ghost, members).watch()
        for history in histories:
            OffsetRules(world, ghost, history).watch()
    if with_transactions and with_groups:
        copiers, auditor, reader = add_copiers(world)
        TransactionRules(world, ghost, copiers, reader).watch()
        CopyRules(world, ghost, copiers, auditor).watch()
    if with_compaction:
        writer, table_reader, keeps_tombstones = add_table(world)
        TableRules(world, ghost, writer, table_reader, keeps_tombstones=keeps_tombstones).watch()
    if with_access_control:
        AccessRules(world, *add_guests(world)).watch()


def with_transactions(plan: Plan) -> Plan:
    """The same run on nodes that are ready for `transactional_setup`."""
    replicas = min(3, plan.brokers)
    settings = {
        "transaction.state.log.num.partitions": 2,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min(2, replicas),
        "transaction.state.log.load.buffer.size": LOAD_BYTES,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
    }
    given = tuple((name, str(value)) for name, value in settings.items())
    return replace(plan, settings=(*plan.settings, *given))


def transactional_setup(world: World) -> None:
    """The same, and producers that write to several partitions at once."""
    standard_setup(world, with_transactions=True)


def with_groups(plan: Plan) -> Plan:
    """The same run on nodes that are ready for `grouped_setup`."""
    settings = {
        "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
        "offsets.topic.replication.factor": min(3, plan.brokers),
        "offsets.load.buffer.size": LOAD_BYTES,
        "group.initial.rebalance.delay.ms": 500,
        "group.consumer.assignment.interval.ms": 0,
        "group.consumer.session.timeout.ms": SESSION_MS,
        "group.consumer.min.session.timeout.ms": SESSION_MS,
        "replica.fetch.wait.max.ms": MARK_SOON_MS,
    }
    given = tuple((name, str(value)) for name, value in settings.items())
    return replace(plan, settings=(*plan.settings, *given))


def grouped_setup(world: World) -> None:
    """The same, and a group of consumers whose coordinators come and go."""
    standard_setup(world, with_groups=True)


def with_compaction(plan: Plan) -> Plan:
    """The same run on nodes with small segments, and cleaners that look for work all the time."""
    settings = {
        "log.index.interval.bytes": 0,
        "log.index.size.max.bytes": stream(plan.seed, "compaction").choice((96, 240)),
        "log.cleaner.backoff.ms": 250,
        "log.cleaner.min.cleanable.ratio": 0.01,
        "log.segment.delete.delay.ms": 500,
    }
    given = tuple((name, str(value)) for name, value in settings.items())
    return replace(plan, settings=(*plan.settings, *given))


def with_access_control(plan: Plan) -> Plan:
    """The same run on nodes with an authorizer; what no rule speaks of is open to all.

    Nobody proves here who he is, so that no node can be a super user; only a controller that is
    alone begins without one.
    """
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "allow.everyone.if.no.acl.found": "true",
    }
    return replace(plan, settings=(*plan.settings, *settings.items()))


def with_throttles(plan: Plan) -> Plan:
    """The same run on brokers that hold up replicas which are not in sync, on one side or both."""
    dice = stream(plan.seed, "throttles")
    sides = dice.choice((("leader",), ("follower",), ("leader", "follower")))
    settings = {
        f"{side}.replication.throttled.rate": str(dice.choice((500, 2_000, 8_000)))
        for side in sides
    }
    return replace(plan, settings=(*plan.settings, *settings.items()))
