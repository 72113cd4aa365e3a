"""Whole nodes, wired to each other: connections without sockets, one clock for all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import pytest
from tests.protocol.kio_messages.entity_messages import decode_response, encode_request

from tidelog.controller.features import default_features
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import encode_record
from tidelog.model.config import NodeConfig
from tidelog.model.errors import DiskError
from tidelog.model.time import Now
from tidelog.node.core.effects import (
    Announce,
    Close,
    CloseLink,
    Effect,
    OpenLink,
    OpenListeners,
    PauseReading,
    ResumeReading,
    RunJob,
    Send,
    SendOnLink,
    Stopped,
)
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
from tidelog.node.node import Node
from tidelog.observe.events import Event
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.parts import joined
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.formatting import format_directory
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
CONTROLLER = 100
START = Now(1_000_000, 1_700_000_000_000)
BROKER_PORT, CONTROLLER_PORT = 9092, 9093

E = TypeVar("E")
Answer: TypeAlias = Any


class SeededEntropy:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class Wire:
    """A connection: a link of one node, or a client's, and a connection of another node."""

    def __init__(self, caller: Machine | Client, link: int, callee: Machine, number: int) -> None:
        self.caller = caller
        self.link = link
        self.callee = callee
        self.number = number
        self.is_cut = False


class Client:
    """Somebody who asks one node and reads its answers."""

    def __init__(self, cluster: Cluster, machine: Machine, listener: str) -> None:
        self._cluster = cluster
        self.frames: list[bytes] = []
        self.closed: str | None = None
        self.is_read = True
        self.wire = cluster.connect(self, 0, machine, listener)
        self._correlation_id = 0

    def send(self, api: ApiKey, version: int, /, **fields: Any) -> None:
        self._correlation_id += 1
        frame = encode_request(api, version, self._correlation_id, "test", fields)
        self._cluster.deliver(self.wire.callee, _frame(FrameArrived, self.wire.number, frame))

    def ask(self, api: ApiKey, version: int, /, **fields: Any) -> Answer:
        """The answer, however long it takes within reason."""
        self.send(api, version, **fields)
        self._cluster.wait_until(lambda: bool(self.frames) or self.closed is not None, 5000)
        assert self.frames, f"no answer came: {self.closed}"
        correlation_id, entity = decode_response(api, version, self.frames.pop(0))
        assert correlation_id == self._correlation_id
        return entity

    def leave(self) -> None:
        self._cluster.hang_up(self.wire, self)


def _directory_id(node_id: int, starts: int = 0) -> UUID:
    return SeededEntropy(node_id * 1000 + starts).uuid()


def _voter(node_id: int) -> Voter:
    endpoint = VoterEndpoint(name="CONTROLLER", host=f"node-{node_id}", port=CONTROLLER_PORT)
    return Voter(voter_id=node_id, voter_directory_id=_directory_id(node_id), endpoints=(endpoint,))


class Machine:
    """A disk, and while it runs a node on it."""

    def __init__(self, cluster: Cluster, node_id: int, settings: Mapping[str, str]) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.host = f"node-{node_id}"
        controls = node_id in cluster.controllers
        serves = node_id in cluster.brokers
        listeners = [f"PLAINTEXT://{self.host}:{BROKER_PORT}"] if serves else []
        if controls:
            listeners.append(f"CONTROLLER://{self.host}:{CONTROLLER_PORT}")
        roles = [*(["broker"] if serves else []), *(["controller"] if controls else [])]
        self.config = NodeConfig.from_properties(
            {
                "node.id": str(node_id),
                "process.roles": ",".join(roles),
                "listeners": ",".join(listeners),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": ",".join(
                    f"node-{each}:{CONTROLLER_PORT}" for each in cluster.controllers
                ),
                "log.dirs": "/data",
                **settings,
            }
        )
        self.files = MemoryFileSystem()
        self.events: list[Event] = []
        self.listeners: tuple[str, ...] = ()
        self.stopped: Stopped | None = None
        self.is_paused = False
        self.unread: list[Wire] = []
        """Links of other nodes that this one stopped reading."""
        self.holds_jobs = False
        """Jobs wait for `release_jobs`."""
        self._held_jobs: list[RunJob] = []
        self.inbox: deque[Callable[[Now], Input]] = deque()
        self._node: Node | None = None
        self._starts = 0
        self._connections = 0
        self._wires: list[Wire] = []
        self.format()

    def format(self, cluster_id: str = CLUSTER_ID) -> None:
        """Give it an empty disk."""
        self.files = MemoryFileSystem()
        self.files.wall_ms = self.cluster.now.wall_ms
        voters = tuple(map(_voter, self.cluster.controllers))
        for number, path in enumerate(self.config.log_directories):
            format_directory(
                self.files,
                path,
                cluster_id=cluster_id,
                node_id=self.node_id,
                directory_id=_directory_id(self.node_id, self._starts + 500 * number),
                bootstrap=[encode_record(record) for record in default_features()],
                voters=voters if self.config.is_controller and number == 0 else (),
                wall_ms=self.cluster.now.wall_ms,
            )

    @property
    def node(self) -> Node:
        assert self._node is not None, f"{self.host} does not run"
        return self._node

    @property
    def is_running(self) -> bool:
        return self._node is not None

    @property
    def is_serving(self) -> bool:
        """Whether it has opened all its listeners."""
        return len(self.listeners) == len(self.config.endpoints)

    @property
    def image(self) -> ClusterImage:
        return self.node.cluster.image

    def of_kind(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    # Life

    def start(self) -> None:
        self._starts += 1
        self.stopped = None
        self.listeners = ()
        entropy = SeededEntropy(self.node_id * 100 + self._starts)
        self._node = Node(self.config, self.files, entropy)
        self.carry_out(self._node.start(self.cluster.now))
        self.step(TickEnded(self.cluster.now))
        self.cluster.settle()

    def kill(self) -> None:
        """The process is gone from one moment to the next; its connections close."""
        self._node = None
        self._held_jobs = []
        self.is_paused = False
        self.inbox.clear()
        self.listeners = ()
        for wire in [*self._wires]:
            self.cluster.hang_up(wire, self)
        self.cluster.settle()

    def stop(self) -> None:
        """Ask the node to stop, and wait until it has."""
        self.step(StopRequested(self.cluster.now, "the test is over"))
        self.cluster.settle()
        self.cluster.wait_until(lambda: self.stopped is not None, 20_000)

    def step(self, happened: Input) -> None:
        if self._node is not None:
            effects = self._node.step(happened)
            if isinstance(happened, FrameArrived | LinkFrame):
                happened.frame.release()  # as in a shell, whose buffer takes the next one
            self.carry_out(effects)

    def listener_at(self, port: int) -> str | None:
        ports = {endpoint.port: endpoint.name for endpoint in self.config.endpoints}
        name = ports.get(port)
        return name if name in self.listeners else None

    def accept(self, wire: Wire) -> None:
        self._connections += 1
        wire.number = self._connections
        self._wires.append(wire)

    def dial(self, wire: Wire) -> None:
        self._wires.append(wire)

    def forget(self, wire: Wire) -> None:
        if wire in self._wires:
            self._wires.remove(wire)

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case OpenLink(link, host, port):
                    self.cluster.open_link(self, link, host, port)
                case SendOnLink(link, parts):
                    wire = self._wire(lambda each: each.caller is self and each.link == link)
                    if wire is not None and not wire.is_cut:
                        frame = joined(parts)
                        self.cluster.deliver(wire.callee, _frame(FrameArrived, wire.number, frame))
                case CloseLink(link):
                    wire = self._wire(lambda each: each.caller is self and each.link == link)
                    if wire is not None:
                        self.cluster.hang_up(wire, self)
                case Send(connection, parts):
                    wire = self._wire(
                        lambda each: each.callee is self and each.number == connection
                    )
                    if wire is not None and not wire.is_cut:
                        self.cluster.answer(wire, joined(parts))
                case Close(connection):
                    wire = self._wire(
                        lambda each: each.callee is self and each.number == connection
                    )
                    if wire is not None:
                        self.cluster.hang_up(wire, self)
                case PauseReading(connection) | ResumeReading(connection):
                    wire = self._wire(
                        lambda each: each.callee is self and each.number == connection
                    )
                    if wire is not None and isinstance(wire.caller, Client):
                        wire.caller.is_read = isinstance(effect, ResumeReading)
                    elif wire is not None and isinstance(effect, PauseReading):
                        self.unread.append(wire)
                case OpenListeners(names):
                    self.listeners += names
                case Announce(event):
                    self.events.append(event)
                case RunJob():
                    self._held_jobs.append(effect)
                    if not self.holds_jobs:
                        self.release_jobs()
                case Stopped():
                    self.stopped = effect
                    self._node = None
                    for each in [*self._wires]:
                        self.cluster.hang_up(each, self)

    def release_jobs(self) -> None:
        """Do the jobs that wait, and from now on every job at once."""
        self.holds_jobs = False
        jobs, self._held_jobs = self._held_jobs, []
        for job_id, work, _lane in jobs:
            error = None
            try:
                work()
            except DiskError as failure:
                error = str(failure)
            self.cluster.deliver(self, _job_finished(job_id, error))

    def _wire(self, fits: Callable[[Wire], bool]) -> Wire | None:
        return next((wire for wire in self._wires if fits(wire)), None)


def _frame(
    make: Callable[[Now, int, memoryview], Input], number: int, frame: bytes
) -> Callable[[Now], Input]:
    return lambda now: make(now, number, memoryview(bytearray(frame)))


def _job_finished(job_id: int, error: str | None) -> Callable[[Now], Input]:
    return lambda now: JobFinished(now, job_id, error)


class Cluster:
    """Brokers, the first of them controllers as well; time passes only when told to."""

    def __init__(
        self,
        brokers: int,
        settings: Mapping[str, str],
        controllers: int = 1,
        *,
        separate: bool = False,
    ) -> None:
        self.now = START
        self.controllers = range(CONTROLLER, CONTROLLER + controllers)
        first = CONTROLLER + controllers if separate else CONTROLLER
        self.brokers = range(first, first + brokers)
        ids = sorted({*self.controllers, *self.brokers})
        self.machines = {node_id: Machine(self, node_id, settings) for node_id in ids}
        self.answer_becomes: Callable[[Wire, bytes], bytes] = lambda _, frame: frame
        """What a node gets in the place of an answer to it."""

    def __getitem__(self, node_id: int) -> Machine:
        return self.machines[node_id]

    def start(self, *node_ids: int) -> None:
        """Start nodes, by default all, and wait until they serve."""
        machines = [self[node_id] for node_id in node_ids or self.machines]
        for machine in machines:
            machine.start()
        self.wait_until(lambda: all(machine.is_serving for machine in machines), 5000)

    def client(self, node_id: int, listener: str = "PLAINTEXT") -> Client:
        return Client(self, self[node_id], listener)

    def create_topic(
        self, name: str, partitions: int = 1, factor: int = 2, via: int = 100, **configs: str
    ) -> UUID:
        """Its settings have underscores in the place of dots."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": factor,
            "assignments": [],
            "configs": [
                {"name": name.replace("_", "."), "value": value} for name, value in configs.items()
            ],
        }
        answer = self.client(via).ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=1000)
        [created] = answer.topics
        assert created.error_code == 0, created.error_message
        self.wait(10)
        assert isinstance(created.topic_id, UUID)
        return created.topic_id

    # Connections

    def open_link(self, caller: Machine, link: int, host: str, port: int) -> None:
        callee = next((each for each in self.machines.values() if each.host == host), None)
        listener = None if callee is None or not callee.is_running else callee.listener_at(port)
        if callee is None or listener is None:
            self.deliver(caller, lambda now: LinkClosed(now, link, "connection refused"))
            return
        caller.dial(self.connect(caller, link, callee, listener))
        self.deliver(caller, lambda now: LinkOpened(now, link))

    def connect(self, caller: Machine | Client, link: int, callee: Machine, listener: str) -> Wire:
        wire = Wire(caller, link, callee, 0)
        callee.accept(wire)
        number, host = wire.number, getattr(caller, "host", "10.0.0.7")
        self.deliver(callee, lambda now: ConnectionOpened(now, number, listener, host))
        return wire

    def answer(self, wire: Wire, frame: bytes) -> None:
        if isinstance(wire.caller, Client):
            wire.caller.frames.append(frame)
        else:
            frame = self.answer_becomes(wire, frame)
            self.deliver(wire.caller, _frame(LinkFrame, wire.link, frame))

    def hang_up(self, wire: Wire, by: Machine | Client) -> None:
        """One end closes; the other one hears of it."""
        wire.is_cut = True
        wire.callee.forget(wire)
        if isinstance(wire.caller, Machine):
            wire.caller.forget(wire)
        if wire.callee is not by or by.is_running:
            reason = "the peer hung up"
            self.deliver(wire.callee, lambda now: ConnectionClosed(now, wire.number, reason))
        if wire.caller is by:
            return
        if isinstance(wire.caller, Client):
            wire.caller.closed = "the node hung up"
        else:
            self.deliver(wire.caller, lambda now: LinkClosed(now, wire.link, "the peer hung up"))

    def deliver(self, machine: Machine, make: Callable[[Now], Input]) -> None:
        machine.inbox.append(make)

    # Time

    def settle(self) -> None:
        """Let everything happen that needs no time to pass."""
        while (machine := self._busy()) is not None:
            while machine.inbox and machine.is_running:
                machine.step(machine.inbox.popleft()(self.now))
            machine.step(TickEnded(self.now))

    def _busy(self) -> Machine | None:
        for machine in self.machines.values():
            if not machine.is_running:
                machine.inbox.clear()
            elif machine.inbox and not machine.is_paused:
                return machine
        return None

    def wait(self, milliseconds: int) -> None:
        """Let time pass, stopping at every deadline on the way."""
        self.settle()
        until_ms = self.now.monotonic_ms + milliseconds
        while (due_ms := min(self._deadlines(), default=until_ms + 1)) <= until_ms:
            self._advance(max(due_ms, self.now.monotonic_ms))
            for machine in self.machines.values():
                if machine.is_running and not machine.is_paused:
                    machine.step(TimePassed(self.now))
                    machine.step(TickEnded(self.now))
            self.settle()
        self._advance(until_ms)

    def wait_until(self, is_so: Callable[[], bool], within_ms: int) -> int:
        """Wait until something is so; how long that took."""
        waited_ms = 0
        self.settle()
        while not is_so():
            assert waited_ms < within_ms, "it did not come about in time"
            self.wait(1)
            waited_ms += 1
        return waited_ms

    def _deadlines(self) -> Iterator[int]:
        for machine in self.machines.values():
            if machine.is_running and not machine.is_paused:
                due_ms = machine.node.next_deadline_ms
                if due_ms is not None:
                    yield due_ms

    def _advance(self, monotonic_ms: int) -> None:
        passed_ms = monotonic_ms - self.now.monotonic_ms
        self.now = Now(monotonic_ms, self.now.wall_ms + passed_ms)
        for machine in self.machines.values():
            machine.files.wall_ms = self.now.wall_ms


NewCluster: TypeAlias = Callable[..., Cluster]


@pytest.fixture
def new_cluster() -> NewCluster:
    """Makes clusters of some brokers, none of them started; settings with underscores."""

    def new(
        brokers: int = 2, controllers: int = 1, *, separate: bool = False, **settings: str
    ) -> Cluster:
        named = {key.replace("_", "."): text for key, text in settings.items()}
        return Cluster(brokers, named, controllers, separate=separate)

    return new


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    """Nodes 100 and 101, both serving."""
    two = new_cluster(2)
    two.start()
    return two
