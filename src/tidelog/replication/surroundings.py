"""What a replica needs from the node around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.observe.events import Event
from tidelog.replication.messages import ProposeInSyncReplicas
from tidelog.storage.partition_log import PartitionLog

if TYPE_CHECKING:
    from tidelog.replication.partition import Partition


class BrokerEligibility(NamedTuple):
    """What the metadata says about a broker that wants to be in sync."""

    is_live: bool
    """Registered, not fenced and not shutting down."""
    broker_epoch: int
    """Of its current incarnation; -1 when it is not registered."""


class Eligibility(Protocol):
    """The brokers of the cluster, as the newest known metadata has them."""

    def of(self, broker_id: int) -> BrokerEligibility: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Shared by all replicas of a node."""

    eligibility: Eligibility
    propose: Callable[[Partition, ProposeInSyncReplicas], None]
    """Send a proposal to the controller; the answer comes by `Partition.proposal_answered`."""
    announce: Callable[[Event], None]
    identify: Callable[[PartitionLog], None] = lambda _: None
    """Make durable what a log begins with, now that it has records."""
    lag_max_ms: int = 30_000
    """`replica.lag.time.max.ms`"""
    fetch_backoff_ms: int = 1_000
    """`replica.fetch.backoff.ms`"""
