"""A whole node on a disk in memory: time and jobs by hand, peers without sockets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeAlias
from uuid import UUID

import pytest

from tidelog.controller.features import default_features
from tidelog.controller.records import encode_record
from tidelog.model.config import NodeConfig
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.effects import (
    Announce,
    Close,
    Effect,
    OpenListeners,
    PauseReading,
    ResumeReading,
    RunJob,
    Send,
    Stopped,
)
from tidelog.node.inputs import (
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    Input,
    JobFinished,
    StopRequested,
    TickEnded,
    TimePassed,
)
from tidelog.node.node import Node
from tidelog.observe.events import Event
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.formatting import format_directory
from tidelog.records.batch import whole_batches
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import Record, records_of
from tidelog.replication.partition import Partition
from tidelog.storage.memory_filesystem import MemoryFileSystem
from tidelog.wire.apis import SUPPORTED, ApiKey
from tidelog.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    decode_fetch_response,
    encode_fetch,
)
from tidelog.wire.messages import decode_response, encode_request, request_header
from tidelog.wire.parts import joined
from tidelog.wire.produce import (
    ProducedPartition,
    ProduceResponse,
    decode_produce_response,
    encode_produce,
)

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

Answer: TypeAlias = Any
Topic: TypeAlias = str | UUID
Batch: TypeAlias = bytes | bytearray | None
Wanted: TypeAlias = Mapping[Any, int | FetchPartition]
"""By topic, a name or an id, and partition: the offset, or all there is to say."""


class SeededEntropy:
    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class Peer:
    """Somebody who is connected: sends requests, reads the answers in order."""

    def __init__(self, bench: NodeBench, connection: int, client_id: str) -> None:
        self.bench = bench
        self.connection = connection
        self.client_id = client_id
        self.closed: str | None = None
        self.is_read = True
        self.frames: list[bytes] = []
        self.sent = bytearray()
        """The buffer of the last request, which the node must have let go."""
        self._correlation_id = 0

    def send_frame(self, frame: bytes) -> None:
        """Send bytes as one request, in a buffer that the node may write to."""
        self.sent = bytearray(frame)
        view = memoryview(self.sent)
        self.bench.step(FrameArrived(self.bench.now, self.connection, view))
        view.release()

    def send(self, api: ApiKey, version: int, /, **fields: Any) -> None:
        self._correlation_id += 1
        self.send_frame(encode_request(api, version, self._correlation_id, self.client_id, fields))

    def send_body(self, api: ApiKey, version: int, body: bytes) -> None:
        self._correlation_id += 1
        flexible = version >= SUPPORTED[api].first_flexible
        header = request_header(api, version, self._correlation_id, self.client_id, flexible)
        self.send_frame(header + body)

    def answer(self) -> bytes:
        """The next answer, which must be there."""
        assert self.closed is None, f"the connection was closed: {self.closed}"
        assert self.frames, "no answer came"
        return self.frames.pop(0)

    def ask(self, api: ApiKey, version: int, /, **fields: Any) -> Answer:
        """Send a request, end the tick, decode the only answer."""
        self.send(api, version, **fields)
        self.bench.end_tick()
        frame = self.answer()
        assert not self.frames, "more than one answer came"
        correlation_id, entity = decode_response(api, version, frame)
        assert correlation_id == self._correlation_id
        return entity

    def leave(self) -> None:
        self.bench.step(ConnectionClosed(self.bench.now, self.connection, "the peer hung up"))

    # Producing

    def send_produce(
        self,
        topics: Mapping[Any, Batch],
        *,
        version: int = 9,
        acks: int = -1,
        transactional_id: str | None = None,
    ) -> None:
        wanted = [
            (*_named(topic, version), [(index, batch)]) for (topic, index), batch in topics.items()
        ]
        body = encode_produce(version, transactional_id, acks, 30_000, wanted)
        self.send_body(ApiKey.PRODUCE, version, body)

    def produced(self, version: int = 9) -> ProduceResponse:
        return decode_produce_response(self.answer(), version)

    def produce(
        self, topic: Topic, batch: Batch, partition: int = 0, *, version: int = 9, **how: Any
    ) -> ProducedPartition:
        """Produce one batch and end the tick; what became of it."""
        self.send_produce({(topic, partition): batch}, version=version, **how)
        self.bench.end_tick()
        [answered] = self.produced(version).topics
        [result] = answered.partitions
        return result

    # Fetching

    def send_fetch(
        self,
        wanted: Wanted | None = None,
        *,
        version: int = 12,
        forget: Sequence[tuple[Topic, int]] = (),
        **how: Any,
    ) -> None:
        """Ask for offsets; a whole `FetchPartition` where more than the offset matters."""
        request = FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchTopic(*_named(topic, version, 13), [_wanted(index, what)])
                for (topic, index), what in (wanted or {}).items()
            ],
            forgotten=[(*_named(topic, version, 13), [index]) for topic, index in forget],
            rack_id="",
            cluster_id=None,
        )._replace(**how)
        self.send_body(ApiKey.FETCH, version, encode_fetch(version, request))

    def fetched(self, version: int = 12) -> FetchResponse:
        return decode_fetch_response(memoryview(self.answer()), version)

    def fetch(
        self,
        wanted: Wanted | None = None,
        *,
        version: int = 12,
        **how: Any,
    ) -> FetchResponse:
        """Fetch and end the tick; the answer must be there by then."""
        self.send_fetch(wanted, version=version, **how)
        self.bench.end_tick()
        return self.fetched(version)

    def fetch_one(
        self, topic: Topic, offset: int | FetchPartition, *, version: int = 12, **how: Any
    ) -> FetchedPartition:
        """Fetch one partition, without patience; what it gave."""
        index = offset.partition if isinstance(offset, FetchPartition) else 0
        how.setdefault("max_wait_ms", 0)
        [answered] = self.fetch({(topic, index): offset}, version=version, **how).topics
        [result] = answered.partitions
        return result


def _named(topic: Topic, version: int, by_id_since: int = 13) -> tuple[str | None, UUID | None]:
    assert isinstance(topic, UUID) == (version >= by_id_since), "name or id, by version"
    return (None, topic) if isinstance(topic, UUID) else (topic, None)


def _wanted(index: int, what: int | FetchPartition) -> FetchPartition:
    if isinstance(what, FetchPartition):
        return what
    return FetchPartition(index, -1, what, -1, -1, 1 << 20)


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
        self._carry_out(self.node.step(happened))

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
            job.work()
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
                    assert not self.listeners, "listeners are opened once"
                    self.listeners = names
                case Announce(event):
                    self.events.append(event)
                case Stopped():
                    self.stopped = effect
                case RunJob():
                    self.jobs.append(effect)
        while self.jobs and not self.holds_jobs:
            self.run_job()

    # Asking

    def connect(self, listener: str = "PLAINTEXT", client_id: str = "test") -> Peer:
        connection = len(self.peers) + 1
        peer = self.peers[connection] = Peer(self, connection, client_id)
        self.step(ConnectionOpened(self.now, connection, listener, "10.0.0.7"))
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
        hosted = self.node.broker.replicas.get(TopicPartition(topic, index))
        assert hosted is not None
        return hosted

    def of_kind(self, kind: type[Any]) -> list[Any]:
        """The events of one kind so far."""
        return [event for event in self.events if isinstance(event, kind)]


NewBench: TypeAlias = Callable[..., NodeBench]
NewBatch: TypeAlias = Callable[..., bytes]
RecordsIn: TypeAlias = Callable[[FetchedPartition], list[Record]]


@pytest.fixture
def new_bench() -> NewBench:
    """Make a started node with settings of one's own."""

    def make(files: MemoryFileSystem | None = None, /, **settings: str) -> NodeBench:
        named = {name.replace("_", "."): text for name, text in settings.items()}
        return NodeBench(named, files).start()

    return make


@pytest.fixture
def bench(new_bench: NewBench) -> NodeBench:
    """A started node."""
    return new_bench()


@pytest.fixture
def starting() -> NodeBench:
    """A node that has just begun to start and waits for its first job."""
    held = NodeBench({})
    held.holds_jobs = True
    return held.start()


@pytest.fixture
def peer(bench: NodeBench) -> Peer:
    """A client of `bench`."""
    return bench.connect()


@pytest.fixture
def batch() -> NewBatch:
    """Make a batch as a producer sends it, one record per value."""

    def make(
        *values: bytes, timestamp: int = START.wall_ms, key: bytes | None = b"key", **how: Any
    ) -> bytes:
        records = [NewRecord(key, value, timestamp) for value in values or (b"value",)]
        return bytes(build_batch(records, **how))

    return make


@pytest.fixture
def records_in() -> RecordsIn:
    """The records of the whole batches that a partition answered with."""

    def read(fetched: FetchedPartition) -> list[Record]:
        assert isinstance(fetched.records, memoryview)
        return [
            record for _, whole in whole_batches(fetched.records) for record in records_of(whole)
        ]

    return read
