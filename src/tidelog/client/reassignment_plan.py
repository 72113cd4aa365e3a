"""Where partitions shall be: plans in Kafka's JSON, and plans that spread topics over brokers.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [100, 101]}]}

Invariant  A plan names a partition once, and no broker twice for a partition.
Invariant  A plan that is made here moves no replica that may stay without making brokers uneven.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeGuard

from tidelog.model.errors import TidelogError
from tidelog.model.ids import TopicPartition

Plan = dict[TopicPartition, tuple[int, ...]]
"""The replicas of each partition, the preferred leader first."""

_VERSION: Final = 1
_ANY_DIRECTORY: Final = "any"


class UnusablePlan(TidelogError):
    """A plan that says nothing that can be done; the message says where it goes wrong."""


def read_plan(text: str) -> Plan:
    """The plan behind Kafka's JSON."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusablePlan(f"the plan is not JSON: {error}") from error
    if not isinstance(given, dict) or not isinstance(given.get("partitions"), list):
        raise UnusablePlan('a plan is {"version": 1, "partitions": [...]}')
    if given.get("version", _VERSION) != _VERSION:
        raise UnusablePlan(f"the plan has version {given['version']}, only {_VERSION} is known")
    plan: Plan = {}
    for position, entry in enumerate(given["partitions"], 1):
        name, replicas = _entry(entry, f"entry {position} of the plan")
        if name in plan:
            raise UnusablePlan(f"the plan names {name} twice")
        plan[name] = replicas
    if not plan:
        raise UnusablePlan("the plan names no partition")
    return plan


def _entry(entry: Any, where: str) -> tuple[TopicPartition, tuple[int, ...]]:
    fields = entry if isinstance(entry, dict) else {}
    topic, partition, replicas = map(fields.get, ("topic", "partition", "replicas"))
    if not isinstance(topic, str) or not topic or not _is_number(partition):
        raise UnusablePlan(f"{where} has no topic, or no partition that is a number")
    name = TopicPartition(topic, partition)
    if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
        raise UnusablePlan(f"{where} ({name}) has no replicas that are numbers of brokers")
    if len(set(replicas)) != len(replicas):
        raise UnusablePlan(f"{where} ({name}) names a broker twice: {replicas}")
    directories = fields.get("log_dirs")
    if directories is not None and directories != [_ANY_DIRECTORY] * len(replicas):
        raise UnusablePlan(
            f"{where} ({name}) chooses log directories; brokers do that, leave out log_dirs"
        )
    return name, tuple(replicas)


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def write_plan(plan: Mapping[TopicPartition, Iterable[int]]) -> str:
    """The plan in Kafka's JSON, as its tools read it too."""
    partitions = [
        {"topic": name.topic, "partition": name.partition, "replicas": list(replicas)}
        for name, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": _VERSION, "partitions": partitions}, indent=1) + "\n"


def spread(
    present: Mapping[TopicPartition, Sequence[int]],
    brokers: Sequence[int],
    racks: Mapping[int, str | None],
    replication_factor: int | None = None,
) -> Plan:
    """The partitions evenly on these brokers, each with as many replicas as it has or as is said.

    Replicas that may stay do; a new one goes to a rack that has none of the partition, then to the
    broker that has least. Leaders are even as well.
    """
    factors = {name: replication_factor or len(replicas) for name, replicas in present.items()}
    largest = max(factors.values(), default=0)
    if largest > len(brokers):
        raise UnusablePlan(f"{largest} replicas need as many brokers, and {len(brokers)} are given")
    room = -(-sum(factors.values()) // len(brokers)) if brokers else 0
    held: Counter[int] = Counter()
    placed: dict[TopicPartition, list[int]] = {}
    for name in sorted(present):
        placed[name] = []
        for replica in present[name]:
            fits = replica in brokers and held[replica] < room
            if fits and len(placed[name]) < factors[name]:
                placed[name].append(replica)
                held[replica] += 1
    for name, replicas in placed.items():
        while len(replicas) < factors[name]:
            taken = Counter(racks.get(each) for each in replicas)
            chosen = min(
                (each for each in brokers if each not in replicas),
                key=lambda each: (taken[racks.get(each)], held[each]),
            )
            replicas.append(chosen)
            held[chosen] += 1
    return _with_even_leaders(placed, present, -(-len(placed) // max(1, len(brokers))))


def _with_even_leaders(
    placed: Mapping[TopicPartition, list[int]],
    present: Mapping[TopicPartition, Sequence[int]],
    most: int,
) -> Plan:
    """Each partition's preferred leader to the front: the one it has, unless that has too many."""
    led: Counter[int] = Counter()
    leaders: dict[TopicPartition, int] = {}
    for name, replicas in placed.items():
        first = present[name][0] if present[name] else None
        if first is not None and first in replicas and led[first] < most:
            leaders[name] = first
            led[first] += 1
    for name, replicas in placed.items():
        if name not in leaders:
            leaders[name] = min(replicas, key=lambda each: led[each])
            led[leaders[name]] += 1
    return {
        name: (leaders[name], *(each for each in replicas if each != leaders[name]))
        for name, replicas in placed.items()
    }
