"""A cluster at one moment, as values: what its brokers, its nodes and their processes tell.

Invariant  What nobody told is absent, never guessed: None, or no entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from tidelog.client.admin import BrokerEntry, QuorumDescription
from tidelog.model.ids import TopicPartition
from tidelog.monitor.metrics_text import Samples


class PartitionState(Protocol):
    """What of a partition can be wrong, whoever tells it."""

    @property
    def leader(self) -> int: ...

    @property
    def replicas(self) -> tuple[int, ...]: ...

    @property
    def in_sync(self) -> tuple[int, ...]: ...


class BrokerTold(NamedTuple):
    """What a broker says of its disks, or why it says nothing."""

    silent: str | None = None
    failed_directories: tuple[str, ...] = ()
    usable_bytes: int | None = None


class NodeTold(NamedTuple):
    """What a node says of itself over HTTP."""

    listener: str
    node_id: int | None
    silent: str | None = None
    """Why there is no answer; then all that follows is empty."""
    state: Mapping[str, Any] | None = None
    metrics: Samples | None = None
    problems: tuple[str, ...] = ()
    """As its /healthz names them."""
    clock_ahead_ms: int = 0
    """Of whoever asked."""
    clock_unsure_ms: int = 0
    """How wrong that may be, since the answer was on its way."""


class ProcessSeen(NamedTuple):
    """The process of a node of a cluster on this machine."""

    state: str
    """running, paused or stopped."""
    ending: str | None = None
    """Why it stopped."""


class ClusterSnapshot(NamedTuple):
    """Everything that could be learnt."""

    at_ms: int
    cluster_id: str
    quorum: QuorumDescription | None
    no_controller: str | None
    """Why nobody can decide anything."""
    brokers: tuple[BrokerEntry, ...]
    told: Mapping[int, BrokerTold]
    """By brokers that are not fenced."""
    partitions: Mapping[TopicPartition, PartitionState]
    adding: Mapping[TopicPartition, tuple[int, ...]]
    """Replicas that are on their way to a partition and not missed yet."""
    min_in_sync: Mapping[str, int]
    """min.insync.replicas by topic."""
    nodes: tuple[NodeTold, ...] = ()
    processes: Mapping[int, ProcessSeen] = {}
    not_told: tuple[str, ...] = ()
    """What was asked for and refused."""
