"""A whole node on a disk in memory, with time and jobs by hand."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any
from uuid import UUID

from tests.node.peer import Peer

from tidelog.controller.features import default_features
from tidelog.controller.records import encode_record
from tidelog.model.config import NodeConfig
from tidelog.model.errors import DiskError
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.core.effects import (
    Announce,
    Close,
    Effect,
    LimitConnections,
    LimitFrames,
    MeasureRequests,
    OpenListeners,
    PauseReading,
    ResumeReading,
    RunJob,
    Send,
    Stopped,
)
from tidelog.node.core.inputs import (
    ConnectionOpened,
    Input,
    JobFinished,
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
from tidelog.replication.partition import Partition
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
NODE_ID = 100
START = Now(1_000_000, 1_700_000_000_000)
SETTINGS: Mapping[str, str] = {
    "node.id": str(NODE_ID),
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "log.dirs": "/data",
}


class SeededEntropy:
    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class NodeBench:
    """A node, its disk, its clock, and everything it asked for."""

    def __init__(
        self,
        settings: Mapping[str, str],
        files: MemoryFileSystem | None = None,
        *,
        seed: int = 1,
        now: Now = START,
    ) -> None:
        self.config = NodeConfig.from_properties({**SETTINGS, **settings})
        self.entropy = SeededEntropy(seed)
        self.now = now
        self.files = MemoryFileSystem() if files is None else files
        self.files.wall_ms = now.wall_ms
        if files is None:
            self._format()
        self.node = Node(self.config, self.files, self.entropy)
        self.events: list[Event] = []
        self.peers: dict[int, Peer] = {}
        self.listeners: tuple[str, ...] = ()
        self.limits: list[LimitConnections] = []
        self.measures_requests = False
        self.stopped: Stopped | None = None
        self.holds_jobs = False
        """Jobs wait for `run_jobs` instead of running at once."""
        self.jobs: list[RunJob] = []

    def _format(self) -> None:
        for path in dict.fromkeys((*self.config.log_directories, self.config.metadata_directory)):
            directory_id = self.entropy.uuid()
            endpoints = tuple(
                VoterEndpoint(name=name, host=host, port=port)
                for name, host, port in self.config.controller_endpoints
            )
            voter = Voter(voter_id=NODE_ID, voter_directory_id=directory_id, endpoints=endpoints)
            votes_here = path == self.config.metadata_directory
            format_directory(
                self.files,
                path,
                cluster_id=CLUSTER_ID,
                node_id=NODE_ID,
                directory_id=directory_id,
                bootstrap=[encode_record(record) for record in default_features()],
                voters=(voter,) if votes_here else (),
                wall_ms=self.now.wall_ms,
            )

    # Driving

    def start(self) -> NodeBench:
        """Let the node join its cluster, as far as jobs allow."""
        self._carry_out(self.node.start(self.now))
        self.end_tick()
        return self

    def step(self, happened: Input) -> None:
        syncs = self.files.sync_count
        effects = self.node.step(happened)
        assert self.files.sync_count == syncs, f"{self.files.last_synced} is synced within a step"
        self._carry_out(effects)

    def end_tick(self) -> None:
        self.step(TickEnded(self.now))

    def wait(self, milliseconds: int) -> None:
        """Let time pass, stopping at every deadline on the way."""
        until_ms = self.now.monotonic_ms + milliseconds
        while (due_ms := self.node.next_deadline_ms) is not None and due_ms <= until_ms:
            self._advance(max(due_ms, self.now.monotonic_ms))
            self.step(TimePassed(self.now))
            self.end_tick()
        self._advance(until_ms)

    def _advance(self, monotonic_ms: int) -> None:
        passed_ms = monotonic_ms - self.now.monotonic_ms
        self.now = Now(monotonic_ms, self.now.wall_ms + passed_ms)
        self.files.wall_ms = self.now.wall_ms

    def run_jobs(self, error: str | None = None) -> None:
        """Run the jobs that wait, or let them all fail without having run."""
        while self.jobs:
            self.run_job(error)
        self.end_tick()

    def run_job(self, error: str | None = None) -> None:
        """Run the job that has waited for the longest."""
        job = self.jobs.pop(0)
        if error is None:
            try:
                job.work()
            except DiskError as failure:
                error = str(failure)
        self.step(JobFinished(self.now, job.job_id, error))

    def stop(self) -> None:
        self.step(StopRequested(self.now, "the test is over"))

    def again(
        self,
        files: MemoryFileSystem | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        holds_jobs: bool = False,
    ) -> NodeBench:
        """Another process on the same disk, or on what a crash left of it."""
        given = {**self.config.given, **(settings or {})}
        seed = self.entropy.below(1 << 30)
        following = NodeBench(given, files or self.files, seed=seed, now=self.now)
        following.holds_jobs = holds_jobs
        return following.start()

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(connection, parts):
                    self.peers[connection].frames.append(joined(parts))
                case Close(connection, reason):
                    self.peers[connection].closed = reason
                case PauseReading(connection):
                    self.peers[connection].is_read = False
                case ResumeReading(connection):
                    self.peers[connection].is_read = True
                case OpenListeners(names):
                    assert not {*names} & {*self.listeners}, "a listener is opened once"
                    self.listeners += names
                case LimitConnections():
                    self.limits.append(effect)
                case MeasureRequests(is_wanted):
                    self.measures_requests = is_wanted
                case LimitFrames(connection, most_bytes):
                    self.peers[connection].frame_limit = most_bytes
                case Announce(event):
                    self.events.append(event)
                case Stopped():
                    self.stopped = effect
                case RunJob():
                    self.jobs.append(effect)
        while self.jobs and not self.holds_jobs:
            self.run_job()

    # Asking

    def connect(
        self, listener: str = "PLAINTEXT", client_id: str = "test", host: str = "10.0.0.7"
    ) -> Peer:
        connection = len(self.peers) + 1
        peer = self.peers[connection] = Peer(self, connection, client_id)
        self.step(ConnectionOpened(self.now, connection, listener, host))
        return peer

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> UUID:
        """Create a topic as an admin client does; its id."""
        answer = self.connect().ask(
            ApiKey.CREATE_TOPICS,
            7,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": -1,
                    "assignments": [],
                    "configs": [
                        {"name": key.replace("_", "."), "value": text}
                        for key, text in configs.items()
                    ],
                }
            ],
            timeout=1000,
        )
        [created] = answer.topics
        assert created.error_code == 0, created.error_message
        assert isinstance(created.topic_id, UUID)
        return created.topic_id

    def delete_topic(self, name: str) -> None:
        answer = self.connect().ask(
            ApiKey.DELETE_TOPICS, 6, topics=[{"name": name, "topic_id": None}], timeout=1000
        )
        assert [each.error_code for each in answer.responses] == [0]

    def partition(self, topic: str, index: int = 0) -> Partition:
        """The replica this node hosts."""
        hosted = self.node.replicas.get(TopicPartition(topic, index))
        assert hosted is not None
        return hosted

    def of_kind(self, kind: type[Any]) -> list[Any]:
        """The events of one kind so far."""
        return [event for event in self.events if isinstance(event, kind)]
