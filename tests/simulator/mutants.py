"""Guards of the protocol, each with a way to take it out: the rules must notice every one.

A mutant replaces one function or method by one that does not guard. `seeds` are runs that are
known to need the guard; they are tried first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tidelog.controller import alter_partition
from tidelog.model.errors import ErrorCode
from tidelog.node.fetch_reading import Look
from tidelog.replication import follower, in_sync_replicas, leader, membership, partition
from tidelog.replication.high_watermark import HighWatermark
from tidelog.replication.leader import LeaderReplica
from tidelog.replication.parked import ParkedAnswers
from tidelog.replication.partition import Partition
from tidelog.storage import follower_append
from tidelog.storage.producer_state import ProducerState


@dataclass(frozen=True, slots=True)
class Mutant:
    """A guard that is gone."""

    name: str
    owner: Any
    attribute: str
    instead: Any
    seeds: tuple[int, ...] = ()


def _same(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


_limit: Final = Look._records


def _read_to_the_end(self: Look, found: Partition, wanted: Any, limit: int) -> Any:
    return _limit(self, found, wanted, found.log.end_offset)


_load: Final = ProducerState.load


def _load_once(self: ProducerState, start: int, end: int, wall_ms: int) -> int:
    """At the start of the process only, not after a truncation."""
    return end if len(self) else _load(self, start, end, wall_ms)


MUTANTS: Final = (
    Mutant("pending members do not count", in_sync_replicas, "maximal", lambda c, p: c),
    Mutant(
        "members about to leave do not count",
        in_sync_replicas,
        "maximal",
        lambda c, p: frozenset(p),
    ),
    Mutant("no fence", Partition, "fence", _same(None)),
    Mutant(
        "members join before the epoch start", LeaderReplica, "_reached_epoch_start", _same(True)
    ),
    Mutant("diverging answers tell the mark", follower, "tells_mark", _same(True)),
    Mutant("the mark moves with too few members", leader, "has_enough", _same(True)),
    Mutant("any incarnation may join", alter_partition, "_ineligible", _same(None)),
    Mutant("producers survive a truncation", ProducerState, "load", _load_once),
    Mutant("parked answers outlive their epoch", ParkedAnswers, "end_epochs_before", _same(None)),
    Mutant("followers take damaged batches", follower_append, "crc_matches", _same(True)),
    Mutant("marks leave the log", HighWatermark, "clamp", _same(None)),
    Mutant("nobody diverges", partition, "divergence", _same(None)),
    Mutant("any answer is current", follower.FollowerReplica, "_is_current", _same(True)),
    Mutant("every refusal reverts", membership, "NOT_APPLIED", frozenset(ErrorCode)),
    Mutant("consumers read to the end", Look, "_records", _read_to_the_end),
    Mutant("any proposal is taken", alter_partition, "_refused", _same(None)),
)
