"""One record on its way through the files that docs/path-of-a-record.md names, in their order.

First through a simulated cluster, traced; then through one node, step by step.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.protocol.kio_messages.entity_messages import request_header

from tidelog.model.ids import TopicPartition
from tidelog.node.core.connections import Slot
from tidelog.node.core.inputs import FrameArrived
from tidelog.node.fetching.fetch_sessions import ParkedFetch
from tidelog.node.node import Node
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.frame import frame_bounds, read_request_header
from tidelog.protocol.parts import FileRegion, joined
from tidelog.protocol.produce import decode_produce, decode_produce_response, encode_produce
from tidelog.records.batch import read_header
from tidelog.records.validation import AcceptedBatch, validate_produced
from tidelog.replication.leader import LeaderReplica
from tidelog.simulator.clients.narrator import Narrator
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.world.cluster import FIRST_NODE
from tidelog.simulator.world.happenings import Happening, Stepped
from tidelog.simulator.world.world import World
from tidelog.storage.log_values import LogSlice

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, RecordsIn
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "path-of-a-record.md"
CODE = ROOT / "src" / "tidelog"
SHELL = "shell"
FILES_MOST = 62
"""So many files run in brokers between a Produce and its answer; it may only become less."""

LEADER, FOLLOWERS = FIRST_NODE, (FIRST_NODE + 1, FIRST_NODE + 2)
ROLES = {LEADER: "leader", **dict.fromkeys(FOLLOWERS, "follower")}


class Station(NamedTuple):
    """One step of the page: who does it, the file it names first, and the others."""

    role: str
    file: str
    others: tuple[str, ...]


def stations(heading: str) -> list[Station]:
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    _, *steps = re.split(r"^\d+\. ", section, flags=re.MULTILINE)
    found = []
    for step in steps:
        role = re.match(r"\*\*(Shell|Leader|Follower): ", step)
        file, *others = re.findall(r"`src/tidelog/([\w/.]+)`", step)
        assert role is not None, step
        found.append(Station(role[1].lower(), file, tuple(others)))
    return found


class Walk:
    """A cluster of three brokers, and which files run in which of them, call by call."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.visits: list[tuple[str, str]] = []
        self._narrator = Narrator(self.told.append)
        self._running: list[str] = []
        self._depth = 0
        self._world = World(Plan(seed=1, brokers=3, controllers=1, separate=True))
        self._world.add_client(self._narrator)
        self._world.observers.append(self._observe)
        self._world.start()
        self._world.run_for(6_000)
        self._narrator.create(LEADER, "orders", (LEADER, *FOLLOWERS), {})
        self._world.run_for(2_000)

    def produce(self, value: str) -> None:
        self._narrator.produce(LEADER, "orders", [value], acks=-1)
        self._follow()

    def fetch(self, offset: int) -> None:
        self._narrator.fetch(LEADER, "orders", offset)
        self._follow()

    @property
    def files(self) -> set[str]:
        return {file for _, file in self.visits}

    def _follow(self) -> None:
        """Until the answer is there."""
        self.visits.clear()
        before = sys.getprofile()
        sys.setprofile(self._profile)
        try:
            while self._narrator.unanswered:
                self._world.run_for(1)
        finally:
            sys.setprofile(before)

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if frame.f_code is Node.step.__code__:
            self._depth += {"call": 1, "return": -1}.get(event, 0)
        if event == "call" and self._depth:
            _, ours, file = frame.f_code.co_filename.partition(f"{CODE}/")
            if ours and not file.startswith("simulator/"):
                self._running.append(file)

    def _observe(self, _world: World, happening: Happening) -> None:
        if isinstance(happening, Stepped):
            role = ROLES.get(happening.machine.node_id)
            is_for_metadata = any(file.startswith("quorum/") for file in self._running)
            if role is not None and not is_for_metadata:
                self.visits += [(role, file) for file in self._running]
            self._running.clear()


@pytest.fixture(scope="module")
def walk() -> Walk:
    return Walk()


def require_stations(heading: str, visits: list[tuple[str, str]]) -> None:
    """Every station is passed after the one before, by whom the page says."""
    ahead = iter(visits)
    for station in stations(heading):
        if station.role != SHELL:
            here = (station.role, station.file)
            assert here in ahead, f"{heading}: {station.file} does not come next"
            for other in station.others:
                assert (station.role, other) in visits, f"{heading}: {other} does not run there"


def test_the_page_names_files_that_exist() -> None:
    for heading in ("Written", "Read"):
        for station in stations(heading):
            for file in (station.file, *station.others):
                assert (CODE / file).is_file(), file
            assert (station.role == SHELL) == station.file.startswith("shell/"), station.file


def test_a_record_with_acks_all_passes_the_stations_of_the_page(walk: Walk) -> None:
    walk.produce("a record")
    assert walk.told[-1] == "acknowledged: offset 0"
    require_stations("Written", walk.visits)


def test_the_path_of_a_record_does_not_become_longer(walk: Walk) -> None:
    walk.produce("another record")
    print(f"{len(walk.files)} files:", *sorted(walk.files), sep="\n  ")
    assert len(walk.files) <= FILES_MOST


def test_a_reader_is_answered_by_the_stations_of_the_page(walk: Walk) -> None:
    walk.fetch(0)
    assert walk.told[-1].startswith("read: 0=a record")
    require_stations("Read", walk.visits)


def test_a_record_goes_that_way(
    bench: NodeBench, peer: Peer, batch: NewBatch, records_in: RecordsIn
) -> None:
    bench.create_topic("orders")
    node = bench.node
    consumer = bench.connect()
    consumer.send_fetch({("orders", 0): 0}, session_epoch=0, max_wait_ms=0)
    session = consumer.fetched().session_id
    consumer.send_fetch(session_id=session, session_epoch=1, max_wait_ms=60_000)

    # 1. Bytes arrive: the frame is found in place in whatever was received.
    body = encode_produce(9, None, -1, 1000, [("orders", None, [(0, batch(b"a record"))])])
    request = request_header(ApiKey.PRODUCE, 9, 77, "walker", True) + body
    received = bytearray(len(request).to_bytes(4, "big") + request + b"the next")
    bounds = frame_bounds(received, 0, len(received))
    assert bounds == (4, 4 + len(request))
    frame = memoryview(received)[slice(*bounds)]

    # 2. A request: header and body are read, the batch stays a view of the receive buffer.
    header = read_request_header(frame)
    assert (header.api_key, header.correlation_id) == (ApiKey.PRODUCE, 77)
    decoded = decode_produce(frame[header.body_offset :], 9)
    [(index, records)] = decoded.topics[0].partitions
    assert records is not None
    assert records.obj is received

    # 3. The handler, and the replica it will find.
    partition = node.replicas.locate(node.cluster.image, TopicPartition("orders", index), None)
    assert partition is bench.partition("orders")

    # 4. The partition leads, and its rules accept the batch as it is.
    assert isinstance(partition.leader(), LeaderReplica)
    accepted = validate_produced(records, partition.rules, bench.now.wall_ms, 9)
    assert isinstance(accepted, AcceptedBatch)
    assert accepted.data is records

    # 5. to 7. The node does all that: the batch is in the log, patched in place; this replica is
    # the only one, so it is committed at once.
    before = partition.log.end_offset
    connection = node._connections[peer.connection]
    held = connection.reserve()
    node.rooms.requests.frame_arrived(bench.now, connection, frame)
    stamped = read_header(records)
    assert (stamped.base_offset, stamped.leader_epoch) == (before, partition.leader_epoch)
    assert partition.log.end_offset == before + 1
    assert partition.log.segments.active.size == len(records)
    assert partition.high_watermark.offset == before + 1

    # 8. The answer takes its place behind what is still due, and leaves when its turn comes.
    assert isinstance(held, Slot)
    bench.step(FrameArrived(bench.now, 4711, frame))  # from nobody: only lets effects out
    assert peer.frames == []
    connection.fill(held, [b"the earlier one"])
    bench.end_tick()
    assert peer.answer() == b"the earlier one"
    answer = decode_produce_response(peer.answer(), 9)
    assert (answer.correlation_id, answer.topics[0].partitions[0].base_offset) == (77, before)

    # 9. The reader, parked in its session, was told of news and is answered from the file.
    [fetched] = consumer.fetched().topics[0].partitions
    assert [record.value for record in records_in(fetched)] == [b"a record"]
    found = partition.log.read(before, 1 << 20, before + 1)
    assert isinstance(found, LogSlice)

    # 10. Bytes leave: a file, a position and a length are all the shell gets.
    region = FileRegion(found.file, found.position, found.length)
    assert joined([region]) == bytes(records)


def test_the_reader_waits_where_the_page_says(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("orders")
    peer.send_fetch({("orders", 0): 0}, max_wait_ms=60_000)
    [waiting] = bench.node._connections[peer.connection].waiting
    assert isinstance(waiting, ParkedFetch)
