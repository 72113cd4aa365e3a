"""Where the replicas of new partitions go.

Each choice takes the candidate that makes the result most even: replicas of one partition are
spread over racks first, then over brokers that live, then over those that hold the least. Ties are
broken by an order drawn anew for each placement, so that small topics spread over the cluster.

Invariant  No partition has two replicas on one broker, and the first, its leader, lives.
Invariant  A rack gets a second replica of a partition only when every usable rack has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from tidelog.controller.registrations import BrokerRegistration
from tidelog.model.entropy import Entropy
from tidelog.model.errors import ErrorCode, Refusal


class UsableBroker(NamedTuple):
    """A broker that may get replicas."""

    broker_id: int
    rack: str | None
    active: bool


def usable_brokers(brokers: Iterable[BrokerRegistration]) -> list[UsableBroker]:
    """The brokers that may get replicas: those with a directory that is not cordoned."""
    return [
        UsableBroker(broker.broker_id, broker.rack, broker.active)
        for broker in sorted(brokers, key=lambda broker: broker.broker_id)
        if not broker.log_dirs or set(broker.log_dirs) - set(broker.cordoned_log_dirs)
    ]


def place(
    brokers: Collection[UsableBroker], partitions: int, replication_factor: int, entropy: Entropy
) -> list[tuple[int, ...]] | Refusal:
    """The replicas of each new partition, its leader first."""
    why = None
    if replication_factor > len(brokers):
        why = (
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered or some brokers have all their log "
            "directories cordoned"
        )
    elif not any(broker.active for broker in brokers):
        why = "All brokers are currently fenced or in controlled shutdown"
    if why is not None:
        return Refusal(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {replication_factor} time(s): {why}.",
        )
    layout = _Layout(_shuffled(brokers, entropy))
    return [layout.next_partition(replication_factor) for _ in range(partitions)]


def _shuffled(brokers: Collection[UsableBroker], entropy: Entropy) -> list[UsableBroker]:
    order = list(brokers)
    for last in range(len(order) - 1, 0, -1):
        other = entropy.below(last + 1)
        order[last], order[other] = order[other], order[last]
    return order


class _Layout:
    """How much each broker has got so far."""

    def __init__(self, order: list[UsableBroker]) -> None:
        self._order = order
        self._led: Counter[int] = Counter()
        self._held: Counter[int] = Counter()
        self._followed: Counter[tuple[int, int]] = Counter()

    def next_partition(self, replication_factor: int) -> tuple[int, ...]:
        leader = min(
            (broker for broker in self._order if broker.active),
            key=lambda broker: (self._led[broker.broker_id], self._held[broker.broker_id]),
        )
        replicas = [leader]
        while len(replicas) < replication_factor:
            replicas.append(self._next_follower(leader, replicas))
        self._led[leader.broker_id] += 1
        for replica in replicas:
            self._held[replica.broker_id] += 1
            self._followed[leader.broker_id, replica.broker_id] += 1
        return tuple(replica.broker_id for replica in replicas)

    def _next_follower(self, leader: UsableBroker, replicas: list[UsableBroker]) -> UsableBroker:
        used_racks = Counter(replica.rack for replica in replicas)
        return min(
            (broker for broker in self._order if broker not in replicas),
            key=lambda broker: (
                used_racks[broker.rack],
                not broker.active,
                self._held[broker.broker_id],
                # Spreads what a leader leaves behind when it fails over several successors.
                self._followed[leader.broker_id, broker.broker_id],
            ),
        )
