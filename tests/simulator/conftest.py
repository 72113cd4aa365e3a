"""Small worlds, and a client that does one thing after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from tidelog.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.records.builder import NewRecord, build_batch
from tidelog.simulator.clients.asking import AskingClient, Lost
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.world.clock import EPOCH_MS
from tidelog.simulator.world.cluster import BROKER_PORT, FIRST_NODE, machine_address
from tidelog.simulator.world.conditions import Conditions
from tidelog.simulator.world.world import World

TOPIC = "orders"
FORMING_MS = 1_000
PATIENCE_MS = 30_000

WHO_LEADS = MetadataRequest(
    topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False
)

MakeWorld: TypeAlias = Callable[..., World]


class Talker(AskingClient):
    """Asks one question after the other, and asks again when no answer comes."""

    def __init__(self, name: str = "talker", node: int = FIRST_NODE) -> None:
        super().__init__(name)
        self.answers: list[Any] = []
        self.losses: list[str] = []
        self._node = node
        self._questions: deque[Callable[[int], None]] = deque()
        self._connection: int | None = None
        self._is_open = False
        self._waits = False
        self._asked_times = 0

    def create(self, topic: str = TOPIC, *, partitions: int = 1, replicas: int = 1) -> None:
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas)
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
        self._put(lambda number: self.ask(number, request, 7, self._heard))

    def produce(self, *values: bytes, acks: int = -1, topic: str = TOPIC) -> None:
        wall_ms = EPOCH_MS + self.now_ms
        batch = build_batch([NewRecord(None, value, wall_ms) for value in values])
        topics = [(topic, None, [(0, bytes(batch))])]
        self._put(
            lambda number: self.ask_produce(
                number, 11, topics, self._heard if acks else None, acks=acks, timeout_ms=10_000
            )
        )

    def fetch(self, offset: int = 0, *, wait_ms: int = 0, topic: str = TOPIC) -> None:
        wanted = FetchTopic(topic, None, [FetchPartition(0, -1, offset, -1, -1, 1 << 20)])
        request = FetchRequest(
            -1, -1, wait_ms, 1, 1 << 20, 0, 0, -1, [wanted], [], rack_id="", cluster_id=None
        )
        self._put(lambda number: self.ask_fetch(number, 12, request, self._heard))

    @property
    def is_done(self) -> bool:
        return not self._questions and not self._waits

    def on_connected(self, connection: int) -> None:
        self._is_open = True
        self._next()

    def on_closed(self, connection: int, reason: str) -> None:
        self._connection = None
        self._is_open = False
        self.losses.append(reason)
        super().on_closed(connection, reason)
        self.set_timer(200, "again")

    def on_timer(self, token: object) -> None:
        if isinstance(token, int) and token == self._asked_times and self._waits:
            self.hang_up(self._connection or 0)
            self._connection = None
            self._is_open = False
        self._next()

    def _put(self, question: Callable[[int], None]) -> None:
        self._questions.append(question)
        self.set_timer(0, "next")

    def _heard(self, answer: Any) -> None:
        self._waits = False
        if not isinstance(answer, Lost):
            self._questions.popleft()
            self.answers.append(answer)
            self._next()

    def _next(self) -> None:
        if self._waits or not self._questions:
            return
        if self._connection is None:
            self._connection = self.connect(machine_address(self._node), BROKER_PORT)
        elif self._is_open:
            self._waits = True
            self._asked_times += 1
            self.set_timer(PATIENCE_MS, self._asked_times)
            self._questions[0](self._connection)


class Writer(AskingClient):
    """Writes numbered values with acks=all to whoever leads, each until it is acknowledged."""

    def __init__(self, name: str = "writer", *, brokers: int = 3) -> None:
        super().__init__(name)
        self.acknowledged: dict[int, bytes] = {}
        self.stopped = False
        self._nodes = [machine_address(FIRST_NODE + number) for number in range(brokers)]
        self._number = 0
        self._leader: tuple[str, int] | None = None
        self._tries = 0
        self._connection: int | None = None

    @property
    def is_idle(self) -> bool:
        return self.stopped and self._connection is None

    def on_started(self) -> None:
        self._go_on()

    def on_connected(self, connection: int) -> None:
        if self._leader is None:
            self.ask(connection, WHO_LEADS, 12, self._learnt)
        else:
            self._write(connection)

    def on_closed(self, connection: int, reason: str) -> None:
        super().on_closed(connection, reason)
        if connection == self._connection:
            self._again()

    def on_timer(self, token: object) -> None:
        if token == self._tries and self._connection is not None:
            self.hang_up(self._connection)
            self._again()
        elif token == "go on":
            self._go_on()
        elif token == ("write", self._connection) and self._connection is not None:
            self._write(self._connection)

    def _go_on(self) -> None:
        if self._connection is None and not self.stopped:
            self._tries += 1
            self.set_timer(5_000, self._tries)
            address = self._leader or (self.dice.choice(self._nodes), BROKER_PORT)
            self._connection = self.connect(*address)

    def _again(self) -> None:
        self._leader = None
        self._connection = None
        self.set_timer(100, "go on")

    def _learnt(self, answer: Any) -> None:
        if isinstance(answer, Lost) or self._connection is None:
            return
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        leaders = [each.leader_id for topic in answer.topics for each in topic.partitions]
        self.hang_up(self._connection)
        self._again()
        self._leader = brokers.get(leaders[0]) if leaders else None

    def _write(self, connection: int) -> None:
        batch = build_batch([NewRecord(None, b"%d" % self._number, EPOCH_MS + self.now_ms)])
        topics = [(TOPIC, None, [(0, bytes(batch))])]
        self.ask_produce(connection, 11, topics, self._wrote, acks=-1, timeout_ms=4_000)

    def _wrote(self, answer: Any) -> None:
        if isinstance(answer, Lost) or self._connection is None:
            return
        (partition,) = answer.topics[0].partitions
        if partition.error:
            self.hang_up(self._connection)
            self._again()
            return
        self.acknowledged[partition.base_offset] = b"%d" % self._number
        self._number += 1
        self._tries += 1
        if self.stopped:
            self.hang_up(self._connection)
            self._connection = None
        else:
            self.set_timer(5_000, self._tries)
            self.set_timer(50, ("write", self._connection))


@pytest.fixture
def writer() -> Callable[..., Writer]:
    return Writer


@pytest.fixture
def talker() -> Callable[..., Talker]:
    """Makes a client; the class itself cannot be imported from here."""
    return Talker


@pytest.fixture
def make_world() -> MakeWorld:
    """A world that has started, by default one node without faults."""

    def make(
        *,
        seed: int = 1,
        brokers: int = 1,
        directories: int = 1,
        reader: Callable[[str], None] | None = None,
        forming_ms: int = FORMING_MS,
        **conditions: int,
    ) -> World:
        plan = Plan(
            seed=seed,
            brokers=brokers,
            directories=directories,
            conditions=Conditions(**conditions),
        )
        world = World(plan, reader)
        world.start()
        world.run_until(forming_ms)
        return world

    return make
