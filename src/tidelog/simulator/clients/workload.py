"""The load on a simulated cluster: a few topics, and clients of every kind, drawn from the seed.

Invariant  Producers stop soon after the calm has begun, so that the cluster can become still.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.coordinator.internal_topics import OFFSETS_TOPIC
from tidelog.model.ids import TopicPartition
from tidelog.simulator.clients.admin import NEVER, Administrator, AdminPaces, NewTopic
from tidelog.simulator.clients.classic import ClassicMember
from tidelog.simulator.clients.committed import CommittedReader
from tidelog.simulator.clients.consumer import Consumer
from tidelog.simulator.clients.copier import Copier
from tidelog.simulator.clients.copier_member import CopierMember
from tidelog.simulator.clients.copy_auditor import CopyAuditor
from tidelog.simulator.clients.groups import GroupMember, Member
from tidelog.simulator.clients.guests import Doorkeeper, GuestReader, GuestWriter
from tidelog.simulator.clients.history import ACKS_ALL, History
from tidelog.simulator.clients.markers import LateCoordinator, LateCopies
from tidelog.simulator.clients.offset_history import OffsetHistory
from tidelog.simulator.clients.offsets import Auditor, Committer, Custodian
from tidelog.simulator.clients.producer import Producer
from tidelog.simulator.clients.shifts import Bursts, Shifts, has_silences
from tidelog.simulator.clients.surveyor import Surveyor
from tidelog.simulator.clients.table import TableReader, TableWriter
from tidelog.simulator.clients.transactions import TransactionalProducer
from tidelog.simulator.world.world import World

ORDERS: Final = "orders"
LEDGER: Final = "ledger"
SPOOL: Final = "spool"
"""Rather available than complete: one replica is enough, and whoever is left may lead."""
SCRATCH: Final = "scratch"
"""Deleted and created again."""
CONSUMER_GROUP: Final = "consumer-group"
CLASSIC_GROUP: Final = "classic-group"
SIMPLE_GROUP: Final = "simple-group"
"""Groups: of the consumer protocol, of the classic one, and one without members."""
OFFSETS_PARTITIONS: Final = 2
PAIRS: Final = "pairs"
PAIRS_PARTITIONS: Final = 2
COPIES: Final = "copies"
TABLE: Final = "table"
"""Compacted."""
VAULT: Final = "vault"
"""Of which rules speak that come and go."""
LONG_MS: Final = 24 * 3_600_000
SHORT_MS: Final = 100
PAIR: Final = "pair"
"""The transactional id of those who write them."""
ANY_TIME: Final = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
"""Clocks jump: a batch that is sent again may come from the future."""
SPOOL_CONFIGS: Final = {
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "true",
}
SILENCE_MOST_MS: Final = 6_000
GOES_ON_MS: Final = 2_000
"""How long producers go on in the calm."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The clients of a world, and what they were promised."""

    history: History
    administrator: Administrator
    producers: tuple[Producer, ...]
    consumers: tuple[Consumer, ...]


def add_workload(world: World) -> Workload:
    """Give the world topics and clients."""
    dice = world.dice("workload")
    nodes, history = world.plan.broker_ids, History()
    stop_ms = world.plan.faults_ms + GOES_ON_MS
    replicas = min(3, len(nodes))
    flush_messages = str(dice.choice((1, 3)))
    everyday = {**ANY_TIME, **_throttled(world)}
    topics = (
        NewTopic(ORDERS, 2, replicas, everyday),
        NewTopic(LEDGER, 1, replicas, {**everyday, "flush.messages": flush_messages}),
        NewTopic(SPOOL, 1, replicas, {**everyday, **SPOOL_CONFIGS}),
    )
    orders = [TopicPartition(ORDERS, 0), TopicPartition(ORDERS, 1)]
    safe = [*orders, TopicPartition(LEDGER, 0)]
    unsafe = [*orders, TopicPartition(SPOOL, 0)]
    administrator = Administrator(
        "admin",
        nodes,
        topics,
        history,
        scratch=NewTopic(SCRATCH, 1, replicas, everyday),
        paces=AdminPaces(
            delete_ms=dice.choice((0, 4_000, 15_000)),
            reassign_ms=dice.choice((0, 0, 3_000, 10_000)),
            prefer_ms=dice.choice((0, 0, 400, 2_000)),
            elect_ms=dice.choice((0, 2_000, 10_000)),
            recreate_ms=dice.choice((0, 0, 4_000)),
        ),
        stop_ms=stop_ms,
    )
    pace = dice.choice((60, 150, 400))
    bursts = _draw_bursts(world)
    producers = [
        Producer(
            "steady",
            nodes,
            safe,
            history,
            idempotent=True,
            interval_ms=pace,
            stop_ms=stop_ms,
            bursts=bursts,
        )
    ]
    others = (("all", ACKS_ALL), ("hasty", 1), ("careless", 0))
    for name, acks in others:
        if dice.random() < 0.6:
            interval_ms = dice.choice((100, 300, 1_000))
            producers.append(
                Producer(
                    name,
                    nodes,
                    unsafe,
                    history,
                    acks=acks,
                    interval_ms=interval_ms,
                    stop_ms=stop_ms,
                    bursts=bursts,
                )
            )
    everything = [*safe, TopicPartition(SPOOL, 0)]
    consumers = (
        Consumer("reader", nodes, everything, history, may_lose=frozenset({SPOOL})),
        Consumer("neighbour", nodes, orders, history, home=dice.choice(nodes)),
    )
    surveyor = Surveyor("surveyor", nodes, safe, history, stop_ms=stop_ms)
    for client in (administrator, *producers, *consumers, surveyor):
        world.add_client(client)
    return Workload(history, administrator, tuple(producers), consumers)


def _throttled(world: World) -> dict[str, str]:
    """All replicas of a topic, on the sides on which brokers have a rate for them."""
    given = dict(world.plan.settings)
    return {
        f"{side}.replication.throttled.replicas": "*"
        for side in ("leader", "follower")
        if f"{side}.replication.throttled.rate" in given
    }


def _draw_bursts(world: World) -> Bursts | None:
    """Silences longer than followers may lag behind, where that is not too long for a run."""
    lag_max_ms = int(dict(world.plan.settings).get("replica.lag.time.max.ms", LONG_MS))
    if not has_silences(world.seed) or lag_max_ms > SILENCE_MOST_MS:
        return None
    return Bursts(world.dice("bursts"), lag_max_ms, world.plan.faults_ms)


def add_transactions(world: World) -> tuple[tuple[TransactionalProducer, ...], CommittedReader]:
    """Give the world a topic, two producers with one transactional id, and who reads them."""
    dice = world.dice("transactions")
    nodes = world.plan.broker_ids
    stop_ms = world.plan.faults_ms + GOES_ON_MS
    topic = NewTopic(PAIRS, PAIRS_PARTITIONS, min(3, len(nodes)), ANY_TIME)
    partitions = tuple(TopicPartition(PAIRS, index) for index in range(PAIRS_PARTITIONS))
    producers = tuple(
        TransactionalProducer(
            name,
            nodes,
            partitions,
            transactional_id=PAIR,
            adds=dice.random() < 0.5,
            interval_ms=dice.choice((50, 300)),
            start_ms=start_ms,
            stop_ms=stop_ms,
        )
        for name, start_ms in (("first", 0), ("second", dice.choice((5_000, 15_000))))
    )
    administrator = Administrator(
        "pairs admin", nodes, (topic,), History(), scratch=topic, paces=NEVER, stop_ms=stop_ms
    )
    reader = CommittedReader("pairs reader", nodes, partitions)
    late = LateCoordinator("old coordinator", nodes, partitions, producers, stop_ms=stop_ms)
    copies = LateCopies("late copies", nodes, [late.name], stop_ms)
    world.observers.append(copies.overhear)
    for client in (administrator, *producers, reader, late, copies):
        world.add_client(client)
    return producers, reader


def add_groups(
    world: World,
) -> tuple[tuple[tuple[GroupMember, ...], ...], tuple[OffsetHistory, ...]]:
    """Give the world a group of each protocol that shares a topic, one of them with somebody who
    deletes it, and somebody who commits offsets without a group."""
    nodes = world.plan.broker_ids
    stop_ms = world.plan.faults_ms + GOES_ON_MS
    consumer_members = tuple(
        Member(f"consumer-member-{number}", nodes, ORDERS, stop_ms, CONSUMER_GROUP)
        for number in (1, 2, 3)
    )
    orders = (TopicPartition(ORDERS, 0), TopicPartition(ORDERS, 1))
    of_classic = OffsetHistory(CLASSIC_GROUP, orders)
    of_simple = OffsetHistory(SIMPLE_GROUP, (TopicPartition(LEDGER, 0),))
    shifts = Shifts(world.dice("shifts"), stop_ms)
    classic_members = tuple(
        ClassicMember(
            f"{kind}-member-{number}",
            nodes,
            ORDERS,
            of_classic,
            shifts,
            stop_ms,
            is_static=kind == "static",
        )
        for number, kind in enumerate(("dynamic", "static", "dynamic"), start=1)
    )
    administrator = Administrator(
        "groups admin",
        nodes,
        (),
        History(),
        scratch=NewTopic(SCRATCH, 1, 1, {}),
        paces=NEVER._replace(prefer_ms=world.dice("groups").choice((0, 1_000, 3_000))),
        stop_ms=stop_ms,
        others=[TopicPartition(OFFSETS_TOPIC, index) for index in range(OFFSETS_PARTITIONS)],
    )
    clients = (
        administrator,
        *consumer_members,
        Committer("committer", nodes, of_simple, stop_ms),
        Auditor("simple group auditor", nodes, of_simple, stop_ms),
        *classic_members,
        Custodian("custodian", nodes, of_classic, shifts, stop_ms),
        Auditor("classic group auditor", nodes, of_classic, stop_ms),
    )
    for place, client in enumerate(clients):
        world.add_client(client, stream=f"groups/{place}")
    return (consumer_members, classic_members), (of_simple, of_classic)


def add_copiers(world: World) -> tuple[tuple[Copier, ...], CopyAuditor, CommittedReader]:
    """Give the world copiers of the pairs, two of them under one transactional id."""
    dice = world.dice("copiers")
    nodes = tuple(world.machines)
    stop_ms = world.plan.faults_ms + GOES_ON_MS
    topic = NewTopic(COPIES, PAIRS_PARTITIONS, min(3, len(nodes)), ANY_TIME)
    inputs = tuple(TopicPartition(PAIRS, index) for index in range(PAIRS_PARTITIONS))
    outputs = tuple(TopicPartition(COPIES, index) for index in range(PAIRS_PARTITIONS))
    copiers = tuple(
        Copier(
            name,
            nodes,
            CopierMember(f"{name}'s member", nodes, PAIRS, stop_ms),
            outputs,
            transactional_id=transactional_id,
            adds=dice.random() < 0.5,
            interval_ms=dice.choice((20, 200)),
            start_ms=start_ms,
            stop_ms=stop_ms,
        )
        for name, transactional_id, start_ms in (
            ("copier", "one", 0),
            ("copier's successor", "one", dice.choice((4_000, 12_000))),
            ("other copier", "two", 0),
        )
    )
    administrator = Administrator(
        "copies admin", nodes, (topic,), History(), scratch=topic, paces=NEVER, stop_ms=stop_ms
    )
    auditor = CopyAuditor("copy auditor", nodes, inputs, stop_ms)
    reader = CommittedReader("copies reader", nodes, outputs)
    members = (copier.member for copier in copiers)
    clients = (administrator, *members, *copiers, auditor, reader)
    for place, client in enumerate(clients):
        world.add_client(client, stream=f"copiers/{place}")
    return copiers, auditor, reader


def add_table(world: World) -> tuple[TableWriter, TableReader, bool]:
    """Give the world a compacted topic with its clients; whether its tombstones are kept."""
    dice = world.dice("table")
    nodes = tuple(world.machines)
    stop_ms = world.plan.faults_ms + GOES_ON_MS
    keeps_tombstones = dice.random() < 0.5
    configs = {
        **ANY_TIME,
        "cleanup.policy": "compact",
        "delete.retention.ms": str(LONG_MS if keeps_tombstones else SHORT_MS),
    }
    topic = NewTopic(TABLE, 1, min(3, len(nodes)), configs)
    administrator = Administrator(
        "table admin", nodes, (topic,), History(), scratch=topic, paces=NEVER, stop_ms=stop_ms
    )
    writer = TableWriter(
        "table writer",
        nodes,
        TopicPartition(TABLE, 0),
        interval_ms=dice.choice((30, 120)),
        stop_ms=stop_ms,
    )
    reader = TableReader("table reader", nodes, writer)
    for client in (administrator, writer, reader):
        world.add_client(client)
    return writer, reader, keeps_tombstones


def add_guests(world: World) -> tuple[Doorkeeper, GuestWriter, GuestReader]:
    """Give the world a topic that is not open to all, guests, and who forbids them something."""
    dice = world.dice("guests")
    nodes = world.plan.broker_ids
    partition = TopicPartition(VAULT, 0)
    writer = GuestWriter("guest writer", nodes, partition, dice.choice((30, 100)))
    reader = GuestReader("guest reader", nodes, partition, dice.choice((10, 50)))
    doorkeeper = Doorkeeper(
        "doorkeeper",
        nodes,
        VAULT,
        min(3, len(nodes)),
        (writer, reader),
        interval_ms=dice.choice((200, 800)),
        stop_ms=world.plan.faults_ms + GOES_ON_MS,
    )
    for place, client in enumerate((doorkeeper, writer, reader)):
        world.add_client(client, stream=f"guests/{place}")
    return doorkeeper, writer, reader
