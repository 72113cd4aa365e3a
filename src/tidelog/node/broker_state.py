"""What the handlers of a node share: its configuration, its view of the cluster, its replicas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from tidelog.controller.image import BROKER_CONFIG, ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.coordinator.groups.shard import GroupShard
from tidelog.coordinator.transactions.shard import TransactionShard
from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.ids import NO_EPOCH, NO_LEADER, TopicPartition
from tidelog.node.core.deadlines import Deadlines
from tidelog.node.core.effects import Announce, Effect, LimitConnections
from tidelog.node.core.held_requests import HeldRequests
from tidelog.node.core.jobs import Jobs
from tidelog.node.core.links import Links
from tidelog.node.fetching.fetch_sessions import FetchSessions
from tidelog.node.metadata.departures import Departures
from tidelog.node.metadata.encoded_topics import EncodedTopics
from tidelog.node.replicas.awaited_followers import AwaitedFollowers
from tidelog.node.replicas.flushes import Flushes
from tidelog.node.replicas.replicas import Replicas
from tidelog.observe.events import Event
from tidelog.protocol.apis import SUPPORTED, ApiKey, ListenerScope
from tidelog.protocol.produce import NodeEndpoint
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from tidelog.node.control.alter_partitions import AlterPartitions
    from tidelog.node.control.control_plane import ControlPlane
    from tidelog.node.control.controller_channel import ControllerChannel
    from tidelog.node.control.controller_watch import ControllerWatch
    from tidelog.node.control.directory_assignments import DirectoryAssignments
    from tidelog.node.control.producer_ids import ProducerIds
    from tidelog.node.coordination.coordinators import Coordinators
    from tidelog.node.coordination.transaction_markers import TransactionMarkers
    from tidelog.node.fetching.parked_fetches import ParkedFetches
    from tidelog.node.metadata.metadata_feed import MetadataFeed
    from tidelog.node.replicas.replica_fetchers import ReplicaFetchers
    from tidelog.quorum.quorum import Quorum


class ClusterNode(NamedTuple):
    """A node of the cluster and where a client finds it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class BrokerState:
    """One node's state; `Node` routes what happens to it, handlers read and change it."""

    quorum: Quorum[MetadataRecord]
    """This node's copy of the metadata log, and what it knows of those who keep it."""
    control: ControllerChannel
    """The active controller, here or elsewhere."""
    control_plane: ControlPlane
    """This node's part in the quorum; only controllers have one."""
    controller_watch: ControllerWatch
    metadata: MetadataFeed
    parked: ParkedFetches
    fetchers: ReplicaFetchers
    alter_partitions: AlterPartitions
    assignments: DirectoryAssignments
    producer_ids: ProducerIds
    groups: Coordinators[GroupShard]
    """The group coordinators on this node."""
    transactions: Coordinators[TransactionShard]
    """The transaction coordinators on this node."""
    transaction_markers: TransactionMarkers

    def __init__(self, config: NodeConfig, files: FileSystem, entropy: Entropy) -> None:
        self.config = config
        """The file's settings, with what the cluster changed since the start."""
        self._file = config
        self.cluster_id = ""
        self.node_id = config.node_id
        self.broker_epoch = NO_EPOCH
        """Of this process's registration; -1 before the controller has given one."""
        self.files = files
        self.entropy = entropy
        self.image = ClusterImage()
        self.replicas = Replicas()
        self.directories: list[LogDirectory] = []
        self.deadlines = Deadlines()
        self.sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, entropy)
        self.effects: list[Effect] = []
        self.jobs = Jobs(self.effects)
        self.links = Links(self.effects, self.deadlines, f"broker-{config.node_id}")
        self.departures = Departures(self.deadlines, config.broker_disconnect_grace_ms)
        self.held = HeldRequests(self.deadlines)
        self.awaited = AwaitedFollowers(config.node_id, self.deadlines)
        self.flushes = Flushes(self.jobs)
        self.fetch_max_bytes = config.fetch_max_bytes
        self.controller_names = frozenset(config.controller_names)
        self.selects_by_rack = config.replica_selector_class is not None
        """Whether consumers are sent to a replica in their own rack."""
        self.encoded_topics = EncodedTopics(self)
        self._served_on: dict[str, frozenset[ApiKey]] = {}

    @property
    def coordinators(self) -> tuple[Coordinators[Any], ...]:
        """All that come and go with the leadership of internal topics."""
        return (self.groups, self.transactions)

    def reconfigure(self) -> None:
        """Go by what the cluster now sets for all brokers and for this one."""
        before = self.config
        self.config = config = self._file.under(
            self.image.config(BROKER_CONFIG, ""),
            self.image.config(BROKER_CONFIG, str(self.node_id)),
        )
        limits = LimitConnections(config.max_connections_per_ip, config.max_connections)
        if limits != (before.max_connections_per_ip, before.max_connections):
            self.effects.append(limits)

    def announce(self, event: Event) -> None:
        """Let people see that something happened."""
        self.effects.append(Announce(event))

    def scope_of(self, listener: str) -> ListenerScope:
        """Whether a listener serves clients and brokers, or the quorum."""
        if listener in self.controller_names:
            return ListenerScope.CONTROLLER
        return ListenerScope.BROKER

    def served_on(self, listener: str) -> frozenset[ApiKey]:
        """The APIs that a listener serves; asked for every request."""
        served = self._served_on.get(listener)
        if served is None:
            scope = self.scope_of(listener)
            served = frozenset(key for key, range_ in SUPPORTED.items() if range_.scope & scope)
            self._served_on[listener] = served
        return served

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name behind a topic id."""
        topic = self.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def is_live(self, broker_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        registration = self.image.brokers.get(broker_id)
        return registration is not None and not registration.fenced

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """Where a live broker can be reached by somebody who uses that listener."""
        if not self.is_live(broker_id):
            return None
        point = self.image.brokers[broker_id].endpoint(listener)
        return None if point is None else (point.host, point.port)

    def live_brokers(self, listener: str, *, include_fenced: bool = False) -> list[ClusterNode]:
        """The brokers that a client of this listener can use."""
        return [
            ClusterNode(broker_id, point.host, point.port, registration.rack, registration.fenced)
            for broker_id, registration in sorted(self.image.brokers.items())
            if (point := registration.endpoint(listener)) is not None
            and (include_fenced or not registration.fenced)
        ]

    def listed_brokers(self, listener: str) -> list[ClusterNode]:
        """The brokers that clients keep connections to: live ones, and those gone just now."""
        return [
            node
            for node in self.live_brokers(listener, include_fenced=True)
            if not node.is_fenced or self.departures.is_lately_fenced(node.node_id)
        ]

    def controllers(self) -> list[ClusterNode]:
        """The controllers, as a client of the controller listener sees them."""
        return [
            ClusterNode(node_id, point.host, point.port, None, False)
            for node_id, registration in sorted(self.image.controllers.items())
            for point in registration.endpoints[:1]
        ]

    def passes_on(self, listener: str) -> int:
        """The broker where clients send what a controller decides, to be passed on.

        Preferably this one: whoever asks has just reached it.
        """
        live = [node.node_id for node in self.live_brokers(listener)]
        if self.node_id in live:
            return self.node_id
        return live[0] if live else NO_LEADER

    def current_leader(self, name: TopicPartition) -> tuple[int, int]:
        """Who leads a partition and in which epoch, for a client that asked somebody else."""
        partition = self.image.partition(*name)
        if partition is None:
            return NO_LEADER, NO_EPOCH
        return partition.leader, partition.leader_epoch

    def leader_endpoints(self, leaders: Iterable[int], listener: str) -> list[NodeEndpoint]:
        """Addresses of the leaders that an answer names, as users of that listener reach them."""
        found = []
        for leader in sorted(set(leaders)):
            point = self.endpoint(leader, listener)
            if point is not None:
                rack = self.image.brokers[leader].rack
                found.append(NodeEndpoint(leader, *point, rack))
        return found
