"""What the handlers of each family of APIs need of the node: no more, and nothing that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.controller.records import MetadataRecord
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.groups.shard import GroupShard
from tidelog.coordinator.transactions.records import TransactionRecord
from tidelog.coordinator.transactions.shard import TransactionShard
from tidelog.model.errors import InvariantBroken
from tidelog.node.control.control_plane import ControlPlane
from tidelog.node.control.controller_channel import ControllerChannel
from tidelog.node.control.producer_ids import ProducerIds
from tidelog.node.coordination.coordinators import Coordinators
from tidelog.node.coordination.marker_writing import MarkerWriting
from tidelog.node.coordination.transaction_joining import TransactionJoining
from tidelog.node.coordination.transactional_produce import TransactionGate
from tidelog.node.core.authorization import Authorization
from tidelog.node.core.delayed_requests import DelayedRequests
from tidelog.node.core.listeners import Listeners
from tidelog.node.core.runtime import Runtime
from tidelog.node.fetching.awaited_followers import AwaitedFollowers
from tidelog.node.fetching.fetch_reading import ReadingContext
from tidelog.node.fetching.fetch_sessions import FetchSessions, ParkedFetches
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.departures import Departures
from tidelog.node.metadata.encoded_topics import EncodedTopics
from tidelog.node.quotas.client_throttles import ClientThrottles
from tidelog.node.quotas.mutation_throttles import MutationThrottles
from tidelog.node.replicas.flushes import Flushes
from tidelog.node.replicas.replicas import Replicas
from tidelog.quorum.quorum import Quorum
from tidelog.storage.log_directory import LogDirectory


class RecordsContext(NamedTuple):
    """Produce, Fetch, and what else is asked about logs."""

    authorization: Authorization
    runtime: Runtime
    cluster: ClusterView
    directories: Sequence[LogDirectory]
    replicas: Replicas
    flushes: Flushes
    transaction_gate: TransactionGate
    reading: ReadingContext
    sessions: FetchSessions
    parked: ParkedFetches
    awaited: AwaitedFollowers
    delayed_requests: DelayedRequests
    throttles: ClientThrottles


class GroupsContext(NamedTuple):
    """Groups and the offsets they commit."""

    authorization: Authorization
    runtime: Runtime
    cluster: ClusterView
    groups: Coordinators[GroupShard, GroupRecord]


class TransactionsContext(NamedTuple):
    """Producers and their transactions."""

    authorization: Authorization
    cluster: ClusterView
    replicas: Replicas
    producer_ids: ProducerIds
    groups: Coordinators[GroupShard, GroupRecord]
    transactions: Coordinators[TransactionShard, TransactionRecord]
    joining: TransactionJoining
    markers: MarkerWriting


class ClusterContext(NamedTuple):
    """What every node can say of the cluster."""

    authorization: Authorization
    cluster: ClusterView
    listeners: Listeners
    quorum: Quorum[MetadataRecord]
    control: ControllerChannel
    departures: Departures
    delayed_requests: DelayedRequests
    encoded_topics: EncodedTopics
    groups: Coordinators[GroupShard, GroupRecord]
    transactions: Coordinators[TransactionShard, TransactionRecord]


class AdminContext(NamedTuple):
    """What the active controller decides for clients, wherever it is."""

    authorization: Authorization
    runtime: Runtime
    cluster: ClusterView
    quorum: Quorum[MetadataRecord]
    control: ControllerChannel
    mutations: MutationThrottles
    plane: ControlPlane | None
    """The controller of this node, if it has one."""

    @property
    def decides(self) -> bool:
        """Whether this node is the active controller."""
        return self.plane is not None and self.plane.is_active

    @property
    def own_plane(self) -> ControlPlane:
        """The controller of this node, for what is decided here."""
        if self.plane is None:
            raise InvariantBroken("only controllers decide")
        return self.plane


class ControllerContext(NamedTuple):
    """What a controller does for brokers and for other controllers."""

    authorization: Authorization
    cluster: ClusterView
    plane: ControlPlane
