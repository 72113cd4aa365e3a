"""A whole node without IO: what happens goes in, what is to be done comes out.

The same class runs under asyncio in a broker and under the simulator. Storage is written inside
`step`; everything else that touches the world is an effect, carried out in order.

Invariant  `step` never waits for the disk: whatever must be synced is synced by a `RunJob` effect,
           and what depends on it comes after `JobFinished`. Only `start` does, before the node
           is known to anybody.
Invariant  Effects leave in the order in which they were decided.
"""

from __future__ import annotations

from tidelog.controller.records import MetadataRecord
from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.errors import InvariantBroken
from tidelog.model.principal import Principal
from tidelog.model.time import Now
from tidelog.node.core.authentication import Authentication
from tidelog.node.core.connections import Connection, QueuedBytes
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
    RequestTook,
    StopRequested,
    TickEnded,
    TimePassed,
)
from tidelog.node.inspection.inspection import Inspection
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.replicas.replicas import Replicas
from tidelog.node.wiring import Rooms, build_rooms
from tidelog.observe.events import ConnectionDropped, NodeStarted, NodeStopped
from tidelog.quorum.quorum import Quorum
from tidelog.storage.filesystem import FileSystem


class Node:
    """One node: a broker, a controller, or both."""

    def __init__(self, config: NodeConfig, files: FileSystem, entropy: Entropy) -> None:
        self.config = config
        """As the file has it; `cluster.config` is what counts."""
        self._files = files
        self._entropy = entropy
        self._rooms: Rooms | None = None
        self._connections: dict[int, Connection] = {}
        most = config.queued_max_request_bytes
        self._memory = QueuedBytes() if most <= 0 else QueuedBytes(most)
        self._stopping: str | None = None
        self._closing = False
        self._stopped = False

    @property
    def rooms(self) -> Rooms:
        """What the node consists of, once it has started."""
        if self._rooms is None:
            raise InvariantBroken("a node has rooms from its start on")
        return self._rooms

    @property
    def has_started(self) -> bool:
        """Whether it could open what it has on disk."""
        return self._rooms is not None

    @property
    def quorum(self) -> Quorum[MetadataRecord]:
        """This node's part in the quorum."""
        return self.rooms.metadata.quorum

    @property
    def cluster(self) -> ClusterView:
        """The cluster as this node sees it."""
        return self.rooms.base.cluster

    @property
    def replicas(self) -> Replicas:
        """The partitions that this node hosts."""
        return self.rooms.replicas.replicas

    @property
    def inspection(self) -> Inspection:
        """What it tells about itself."""
        return self.rooms.inspection

    @property
    def problems(self) -> list[str]:
        """Why it is not well."""
        if self._stopped:
            return ["the node has stopped"]
        if self._stopping is not None:
            return [f"the node is stopping: {self._stopping}"]
        if self.rooms.replicas.lifecycle.is_leaving:
            return ["the node is stopping: its leaderships move to others"]
        return []

    @property
    def next_deadline_ms(self) -> int | None:
        """When `TimePassed` is due, on the monotonic clock; a node about to stop waits for jobs."""
        is_over = self._stopped or self._stopping is not None
        if is_over or self._rooms is None:
            return None
        return self._rooms.base.runtime.deadlines.next_ms

    def start(self, now: Now) -> list[Effect]:
        """Open the metadata log and join the cluster; called once, before any step."""
        rooms = self._rooms = build_rooms(self.config, self._files, self._entropy, now)
        cluster, runtime = rooms.base.cluster, rooms.base.runtime
        runtime.now = now
        if self.config.is_controller:
            names = tuple(endpoint.name for endpoint in self.config.controller_endpoints)
            runtime.effects.append(OpenListeners(names))
            if not self.config.is_broker:
                runtime.announce(
                    NodeStarted(
                        cluster_id=cluster.cluster_id,
                        roles=self.config.process_roles,
                        cause="it follows the metadata log",
                    )
                )
        rooms.metadata.feed.load_snapshot(now)
        if self.config.is_broker:
            rooms.replicas.lifecycle.begin(now)
        else:  # it has no logs to load but the metadata's
            rooms.replicas.housekeeping.start(now)
        rooms.metadata.member.start(now)
        rooms.metadata.watch.start(now)
        return runtime.take_effects()

    def step(self, happened: Input) -> list[Effect]:
        """Let one thing happen."""
        if self._stopped or (self._closing and type(happened) is not JobFinished):
            return []
        rooms = self.rooms
        runtime = rooms.base.runtime
        runtime.now = happened.now
        if type(happened) is FrameArrived:
            connection = self._connections.get(happened.connection)
            if connection is not None and not connection.closed and self._stopping is None:
                rooms.requests.frame_arrived(happened.now, connection, happened.frame)
        elif type(happened) is LinkFrame:
            runtime.links.frame_arrived(happened)
        elif type(happened) is TickEnded:
            self._end_tick(rooms, happened.now)
        else:
            self._step_rarely(rooms, happened)
        return runtime.take_effects()

    def _step_rarely(self, rooms: Rooms, happened: Input) -> None:
        runtime = rooms.base.runtime
        match happened:
            case TimePassed():
                if self._stopping is None:
                    runtime.deadlines.run_due(happened.now)
            case JobFinished():
                runtime.jobs.finished(happened.job_id, happened.now, happened.error)
                self._stop_if_asked_and_idle()
            case ConnectionOpened():
                self._connection_opened(rooms, happened)
            case ConnectionClosed():
                connection = self._connections.pop(happened.connection, None)
                if connection is not None:
                    connection.lost()
                    plane = rooms.control.plane
                    if plane is not None and plane.periodic_tasks is not None:
                        plane.periodic_tasks.connection_closed(connection, happened.now)
            case RequestTook():
                rooms.base.throttles.took(happened.nanoseconds)
            case LinkOpened():
                runtime.links.opened(happened)
            case LinkClosed():
                runtime.links.closed(happened)
            case StopRequested():
                rooms.replicas.lifecycle.leave(
                    happened.now, lambda later: self._leave_quorum(happened.reason, later)
                )

    def _connection_opened(self, rooms: Rooms, happened: ConnectionOpened) -> None:
        runtime = rooms.base.runtime
        connection = self._connections[happened.connection] = Connection(
            happened.connection,
            happened.listener,
            happened.peer_host,
            runtime.effects,
            self._memory,
        )
        who = rooms.base.listeners.principal_of(happened.listener, happened.certificate)
        if isinstance(who, Principal):
            rules = rooms.base.sasl.rules_of(happened.listener)
            if rules is None:
                connection.principal = who
            else:  # whatever it has shown, it proves itself by other means
                authentication = Authentication(runtime, connection, rules)
                connection.authentication = authentication
                connection.waiting[authentication] = None
            return
        runtime.announce(
            ConnectionDropped(listener=happened.listener, peer_host=happened.peer_host, cause=who)
        )
        connection.close(who)

    def _end_tick(self, rooms: Rooms, now: Now) -> None:
        control, replicas = rooms.control, rooms.replicas
        failure = replicas.hosting.note_failures() or replicas.lifecycle.failure
        failure = failure or control.follower.failure or rooms.metadata.recognition.misplaced
        if control.joining is not None:
            failure = failure or control.joining.failure
        if failure is None:
            replicas.lifecycle.tell_failures(now)
        # It appends, which parked fetches wait for.
        rooms.coordination.transaction_markers.send(now)
        rooms.parked.tick_ended(now)
        control.alter_partitions.send(now)
        control.assignments.send(now)
        replicas.fetchers.fetch(now)
        plane = control.plane
        if plane is not None and plane.fetches.have_news:
            plane.fetches.look_again()
        if failure is not None:
            self._end(clean=False, cause=failure)

    def _leave_quorum(self, reason: str, now: Now) -> None:
        if self._stopping is None:
            self.rooms.metadata.member.leave(now, lambda later: self._stop_once_idle(reason))

    def _stop_once_idle(self, reason: str) -> None:
        if self._stopping is None:
            self._stopping = reason
            self.rooms.replicas.housekeeping.stop()
            self.rooms.replicas.hosting.give_up_loading()
        self._stop_if_asked_and_idle()

    def _stop_if_asked_and_idle(self) -> None:
        """Put everything on disk and mark the stop as clean, once no job is at work on it."""
        jobs = self.rooms.base.runtime.jobs
        if self._stopping is None or self._closing or not jobs.are_done:
            return
        self._closing = True  # the logs are the job's from now on
        reason, epoch = self._stopping, self.cluster.broker_epoch

        def closed(_now: Now, error: str | None) -> None:
            self._end(clean=error is None, cause=error or reason)

        jobs.run(Lane.LONG, lambda: self.rooms.replicas.hosting.close(epoch), closed)

    def _end(self, *, clean: bool, cause: str) -> None:
        runtime = self.rooms.base.runtime
        self._stopped = True
        self.rooms.replicas.hosting.give_up_loading()
        runtime.announce(NodeStopped(clean=clean, cause=cause))
        runtime.effects.append(Stopped(None if clean else cause))
