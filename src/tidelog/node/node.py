"""A whole node without IO: what happens goes in, what is to be done comes out.

The same class runs under asyncio in a broker and under the simulator. Storage is written inside
`step`; everything else that touches the world is an effect, carried out in order.

Invariant  `step` never waits for the disk: whatever must be synced is synced by a `RunJob` effect,
           and what depends on it comes after `JobFinished`. Only `start` does, before the node
           is known to anybody.
Invariant  Effects leave in the order in which they were decided.
"""

from __future__ import annotations

from functools import partial

from tidelog.controller.image import BROKER_CONFIG
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.records import MetadataRecord
from tidelog.coordinator.groups.shard import GroupShard
from tidelog.coordinator.internal_topics import offsets_topic, transactions_topic
from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.time import Now
from tidelog.node.api.fetch import retry
from tidelog.node.broker_state import BrokerState
from tidelog.node.control.active_controller import ActiveController
from tidelog.node.control.alter_partitions import AlterPartitions
from tidelog.node.control.control_plane import ControlPlane
from tidelog.node.control.controller_joining import ControllersJoining
from tidelog.node.control.controller_locator import ControllerLocator
from tidelog.node.control.controller_watch import ControllerWatch
from tidelog.node.control.directory_assignments import DirectoryAssignments
from tidelog.node.control.lifecycle import Lifecycle
from tidelog.node.control.local_controller import LocalController
from tidelog.node.control.producer_ids import ProducerIds
from tidelog.node.control.remote_controller import RemoteController
from tidelog.node.coordination.coordinators import Coordinators
from tidelog.node.coordination.group_metadata import GroupMetadata
from tidelog.node.coordination.transaction_markers import TransactionMarkers
from tidelog.node.coordination.transaction_shards import transaction_shard
from tidelog.node.core.connections import Connection, HeldBytes
from tidelog.node.core.effects import Effect, Lane, OpenListeners, Stopped
from tidelog.node.core.inputs import (
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    Input,
    JobFinished,
    LinkClosed,
    LinkFrame,
    LinkOpened,
    StopRequested,
    TickEnded,
    TimePassed,
)
from tidelog.node.core.requests import frame_arrived
from tidelog.node.fetching.parked_fetches import ParkedFetches
from tidelog.node.metadata.metadata_feed import MetadataFeed
from tidelog.node.metadata.metadata_follower import MetadataFollower
from tidelog.node.metadata.quorum_member import QuorumMember
from tidelog.node.metadata.voter_updates import VoterUpdates
from tidelog.node.replicas.hosting import Hosting
from tidelog.node.replicas.housekeeping import Housekeeping
from tidelog.node.replicas.opening import (
    bootstrap_records,
    open_directories,
    open_quorum,
    quorum_listener,
)
from tidelog.node.replicas.replica_fetchers import ReplicaFetchers
from tidelog.observe.events import NodeStarted, NodeStopped
from tidelog.quorum.quorum import Quorum
from tidelog.storage.filesystem import FileSystem


class Node:
    """One node: a broker, a controller, or both."""

    def __init__(self, config: NodeConfig, files: FileSystem, entropy: Entropy) -> None:
        self._connections: dict[int, Connection] = {}
        most = config.queued_max_request_bytes
        self._memory = HeldBytes() if most <= 0 else HeldBytes(most)
        self._stopping: str | None = None
        self._closing = False
        self._stopped = False
        self.broker = broker = BrokerState(config, files, entropy)
        broker.parked = ParkedFetches(
            broker.deadlines,
            lambda parked, now, time_is_up: retry(broker, parked, now, time_is_up),
        )
        broker.alter_partitions = AlterPartitions(broker)
        broker.assignments = DirectoryAssignments(broker)
        broker.fetchers = ReplicaFetchers(broker)
        metadata = GroupMetadata(broker)
        broker.groups = Coordinators(
            broker,
            offsets_topic(config),
            lambda partition, timers: GroupShard(
                config,
                entropy,
                metadata,
                timers,
                metadata.times_of,
                lambda: partition.rules.largest_batch,
            ),
        )
        broker.transaction_markers = TransactionMarkers(broker)
        broker.transactions = Coordinators(
            broker, transactions_topic(config), partial(transaction_shard, broker)
        )
        self._hosting = Hosting(broker)
        self._housekeeping = Housekeeping(broker)
        self._lifecycle = Lifecycle(broker, self._hosting, self._housekeeping)
        self._plane: ControlPlane | None = None
        self._joining: ControllersJoining | None = None
        self._member: QuorumMember
        self._follower: MetadataFollower

    @property
    def quorum(self) -> Quorum[MetadataRecord]:
        """This node's part in the quorum, from the start on."""
        return self.broker.quorum

    @property
    def next_deadline_ms(self) -> int | None:
        """When `TimePassed` is due, on the monotonic clock; a node about to stop waits for jobs."""
        is_over = self._stopped or self._stopping is not None
        return None if is_over else self.broker.deadlines.next_ms

    def step(self, happened: Input) -> list[Effect]:
        """Let one thing happen."""
        if self._stopped or (self._closing and type(happened) is not JobFinished):
            return []
        if type(happened) is FrameArrived:
            connection = self._connections.get(happened.connection)
            if connection is not None and not connection.closed and self._stopping is None:
                frame_arrived(self.broker, happened.now, connection, happened.frame)
        elif type(happened) is LinkFrame:
            self.broker.links.frame_arrived(happened)
        elif type(happened) is TickEnded:
            self._end_tick(happened.now)
        else:
            self._step_rarely(happened)
        return self._take_effects()

    def _step_rarely(self, happened: Input) -> None:
        match happened:
            case TimePassed():
                if self._stopping is None:
                    self.broker.deadlines.run_due(happened.now)
            case JobFinished():
                self.broker.jobs.finished(happened.job_id, happened.now, happened.error)
                self._stop_if_asked_and_idle()
            case ConnectionOpened():
                self._connections[happened.connection] = Connection(
                    happened.connection,
                    happened.listener,
                    happened.peer_host,
                    self.broker.effects,
                    self._memory,
                )
            case ConnectionClosed():
                connection = self._connections.pop(happened.connection, None)
                if connection is not None:
                    connection.lost()
                    if self._plane is not None and self._plane.chores is not None:
                        self._plane.chores.connection_closed(connection, happened.now)
            case LinkOpened():
                self.broker.links.opened(happened)
            case LinkClosed():
                self.broker.links.closed(happened)
            case StopRequested():
                self._lifecycle.leave(
                    happened.now, lambda later: self._leave_quorum(happened.reason, later)
                )

    def _end_tick(self, now: Now) -> None:
        failure = self._hosting.note_failures() or self._lifecycle.failure
        failure = failure or self._follower.failure
        if self._joining is not None:
            failure = failure or self._joining.failure
        if failure is None:
            self._lifecycle.tell_failures(now)
        self.broker.transaction_markers.send(now)  # it appends, which parked fetches wait for
        self.broker.parked.tick_ended(now)
        self.broker.alter_partitions.send(now)
        self.broker.assignments.send(now)
        self.broker.fetchers.fetch(now)
        plane = self._plane
        if plane is not None and plane.fetches.have_news:
            plane.fetches.look_again()
        if failure is not None:
            self._end(clean=False, cause=failure)

    def start(self, now: Now) -> list[Effect]:
        """Open the metadata log and join the cluster; called once, before any step."""
        broker = self.broker
        broker.directories = open_directories(broker.config, broker.files, broker.entropy)
        broker.cluster_id = broker.directories[0].identity.cluster_id
        broker.quorum = quorum = open_quorum(broker, now)
        self._member = member = QuorumMember(broker, quorum, quorum_listener(broker.config))
        locator = ControllerLocator(broker.config, quorum)
        broker.controller_watch = ControllerWatch(broker, quorum, locator)
        broker.metadata = feed = MetadataFeed(broker, quorum.replica, self._apply)
        remote = RemoteController(broker, locator, self._lifecycle.hung_up)
        self._follower = follower = MetadataFollower(broker, quorum, member, feed, locator)
        broker.control = remote
        member.on_change = [feed.catch_up, follower.look]
        member.on_leader = [remote.leader_changed]
        if broker.config.is_controller:
            plane = self._become_controller(quorum, locator)
            broker.control = ActiveController(broker, plane, LocalController(broker, plane), remote)
            updates = VoterUpdates(broker, quorum)
            member.on_change = [plane.quorum_changed, follower.look, updates.look]
        member.on_leader.append(lambda later: self._controller_changed(locator, later))
        broker.producer_ids = ProducerIds(broker.control.allocate_producer_ids)
        feed.load_snapshot(now)
        if broker.config.is_broker:
            self._lifecycle.begin(now)
        else:  # it has no logs to load but the metadata's
            self._housekeeping.start(now)
        member.start(now)
        broker.controller_watch.start(now)
        return self._take_effects()

    def _become_controller(
        self, quorum: Quorum[MetadataRecord], locator: ControllerLocator
    ) -> ControlPlane:
        """Keep the metadata log with others, and be ready to decide."""
        broker = self.broker
        plane = self._plane = broker.control_plane = ControlPlane(
            broker,
            quorum,
            self._member,
            broker.metadata,
            bootstrap_records(broker),
            lambda now: self._controller_changed(locator, now),
        )
        self._joining = ControllersJoining(
            broker, plane, locator, quorum.endpoints, self._lifecycle.incarnation
        )
        names = tuple(endpoint.name for endpoint in broker.config.controller_endpoints)
        broker.effects.append(OpenListeners(names))
        if not broker.config.is_broker:
            broker.announce(
                NodeStarted(
                    node_id=broker.node_id,
                    cluster_id=broker.cluster_id,
                    roles=broker.config.process_roles,
                    cause="it follows the metadata log",
                )
            )
        return plane

    def _controller_changed(self, locator: ControllerLocator, now: Now) -> None:
        """Somebody can decide who could not before: let it hear from this node."""
        if locator.address is None:
            return
        if self.quorum.is_active:
            self.broker.controller_watch.heard(now)
        if self._joining is not None:
            self._joining.join(now)
        if self.broker.config.is_broker:
            self._lifecycle.controller_changed(now)

    def _apply(self, delta: ImageDelta, now: Now) -> None:
        if any(kind == BROKER_CONFIG for kind, _ in delta.configs):
            self.broker.reconfigure()
        if not self.broker.config.is_broker:
            return
        self._hosting.apply(delta, now)
        if delta.topics_deleted:
            deleted = frozenset(topic.name for topic in delta.topics_deleted.values())
            self.broker.groups.tell_all(now, lambda shard: shard.topics_deleted(deleted, now))
        self._lifecycle.metadata_changed(delta, now)

    def _leave_quorum(self, reason: str, now: Now) -> None:
        if self._stopping is None:
            self._member.leave(now, lambda later: self._stop_once_idle(reason))

    def _stop_once_idle(self, reason: str) -> None:
        if self._stopping is None:
            self._stopping = reason
            self._housekeeping.stop()
            self._hosting.give_up_loading()
        self._stop_if_asked_and_idle()

    def _stop_if_asked_and_idle(self) -> None:
        """Put everything on disk and mark the stop as clean, once no job is at work on it."""
        if self._stopping is None or self._closing or not self.broker.jobs.are_done:
            return
        self._closing = True  # the logs are the job's from now on
        reason, epoch = self._stopping, self.broker.broker_epoch

        def closed(_now: Now, error: str | None) -> None:
            self._end(clean=error is None, cause=error or reason)

        self.broker.jobs.run(Lane.LONG, lambda: self._hosting.close(epoch), closed)

    def _end(self, *, clean: bool, cause: str) -> None:
        broker = self.broker
        self._stopped = True
        self._hosting.give_up_loading()
        broker.announce(NodeStopped(node_id=broker.node_id, clean=clean, cause=cause))
        broker.effects.append(Stopped(None if clean else cause))

    def _take_effects(self) -> list[Effect]:
        # Connections hold on to the list, so it is emptied in place, never replaced.
        effects = self.broker.effects[:]
        self.broker.effects.clear()
        return effects
