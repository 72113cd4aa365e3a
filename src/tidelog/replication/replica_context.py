"""What a replica needs from the node around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.observe.counters import ReplicationCounters
from tidelog.observe.events import Event
from tidelog.observe.live_watch import LiveWatch
from tidelog.replication.messages import (
    AlterPartitionOutcome,
    ProposalFate,
    ProposeInSyncReplicas,
)
from tidelog.storage.partition_log import PartitionLog


class BrokerEligibility(NamedTuple):
    """What the metadata says about a broker that wants to be in sync."""

    is_live: bool
    """Registered, not fenced and not shutting down."""
    broker_epoch: int
    """Of its current incarnation; -1 when it is not registered."""


class Eligibility(Protocol):
    """The brokers of the cluster, as the newest known metadata has them."""

    def of(self, broker_id: int) -> BrokerEligibility: ...


class Proposer(Protocol):
    """The leader of a partition, as far as whoever carries its proposals knows it."""

    @property
    def name(self) -> TopicPartition: ...

    @property
    def topic_id(self) -> UUID: ...

    def stands_by(self, proposal: ProposeInSyncReplicas) -> bool:
        """Whether it still waits for an answer to this one."""
        ...

    def proposal_answered(
        self, proposal: ProposeInSyncReplicas, outcome: AlterPartitionOutcome, now: Now
    ) -> ProposalFate:
        """The controller answered; what is left to do with the proposal."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaContext:
    """Shared by all replicas of a node."""

    eligibility: Eligibility
    propose: Callable[[Proposer, ProposeInSyncReplicas], None]
    """Send a proposal to the controller; the answer comes by `Proposer.proposal_answered`."""
    announce: Callable[[Event], None]
    identify: Callable[[PartitionLog], None] = lambda _: None
    """Make durable what a log begins with, now that it has records."""
    lag_max_ms: int = 30_000
    """`replica.lag.time.max.ms`"""
    fetch_backoff_ms: int = 1_000
    """`replica.fetch.backoff.ms`"""
    counters: ReplicationCounters = field(default_factory=ReplicationCounters)
    watch: LiveWatch = field(default_factory=LiveWatch)
