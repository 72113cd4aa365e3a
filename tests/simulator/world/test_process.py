"""A process: links to other nodes, frames that are gone, jobs one after the other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.protocol.kio_messages.entity_messages import decode_response, encode_request

from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadlines
from tidelog.node.core.effects import CloseLink, Effect, Lane, OpenLink, RunJob, SendOnLink
from tidelog.node.core.inputs import (
    Input,
    JobFinished,
    LinkClosed,
    LinkFrame,
    LinkOpened,
    TickEnded,
    TimePassed,
)
from tidelog.node.node import Node
from tidelog.protocol.apis import ApiKey
from tidelog.simulator.faults.faults import Cut, Kill, Pause, PowerCut, Resume, Start
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.world.cluster import BROKER_PORT, FIRST_NODE, machine_address
from tidelog.simulator.world.paths import apart
from tidelog.simulator.world.world import World
from tidelog.storage.filesystem import FileSystem

ASK_VERSIONS = encode_request(ApiKey.API_VERSIONS, 0, 7, "pinger", {})
AFTER_MS = 500


class Pinger(Node):
    """In the place of a node: does what it is told and writes down what it hears."""

    deadlines: Deadlines
    heard: list[tuple[int, Input]]
    kept: list[memoryview]
    orders: list[Effect]
    before_step: Callable[[], None]

    def start(self, now: Now) -> list[Effect]:
        self.heard = []
        self.kept = []
        self.orders = []
        self.before_step = lambda: None
        self.deadlines = Deadlines()
        self.deadlines.every(now.monotonic_ms + 10, 10, lambda now: None)
        return []

    @property
    def next_deadline_ms(self) -> int | None:
        return self.deadlines.next_ms

    def step(self, happened: Input) -> list[Effect]:
        self.before_step()
        if isinstance(happened, TimePassed):
            self.deadlines.run_due(happened.now)
        elif not isinstance(happened, TickEnded):
            self.heard.append((happened.now.monotonic_ms, happened))
            if isinstance(happened, LinkFrame):
                self.kept.append(happened.frame)
                copied = happened._replace(frame=memoryview(bytes(happened.frame)))
                self.heard[-1] = (happened.now.monotonic_ms, copied)
        orders, self.orders = self.orders, []
        return orders

    @property
    def kinds(self) -> list[type[Input]]:
        return [type(happened) for _, happened in self.heard]


def pinger(world: World, node_id: int = 101) -> Pinger:
    process = world.machines[node_id].process
    assert process is not None and isinstance(process.node, Pinger)
    return process.node


def build(config: NodeConfig, files: FileSystem, entropy: Entropy) -> Node:
    return (Node if config.node_id == FIRST_NODE else Pinger)(config, files, entropy)


@pytest.fixture
def world() -> World:
    """Node 100, and a pinger in the place of node 101."""
    world = World(Plan(seed=1, brokers=2), build_node=build)
    world.start()
    world.run_for(AFTER_MS)
    return world


def opened(world: World, port: int = BROKER_PORT) -> Pinger:
    node = pinger(world)
    node.orders.append(OpenLink(1, machine_address(FIRST_NODE), port))
    world.run_for(AFTER_MS)
    return node


def test_a_link_opens_carries_a_question_and_brings_the_answer(world: World) -> None:
    node = opened(world)
    node.orders.append(SendOnLink(1, [ASK_VERSIONS]))
    world.run_for(AFTER_MS)

    assert node.kinds == [LinkOpened, LinkFrame]
    frame = node.heard[1][1]
    assert isinstance(frame, LinkFrame)
    correlation_id, answer = decode_response(ApiKey.API_VERSIONS, 0, frame.frame)
    assert (correlation_id, answer.error_code.name) == (7, "none")


def test_the_bytes_of_a_frame_are_gone_after_the_step(world: World) -> None:
    node = opened(world)
    node.orders.append(SendOnLink(1, [ASK_VERSIONS]))
    world.run_for(AFTER_MS)

    assert set(bytes(node.kept[0])) == {0xA5}


def test_a_port_nobody_listens_on_refuses(world: World) -> None:
    assert opened(world, port=1).heard[0][1][1:] == (1, "connection refused", True)


def test_a_link_to_a_killed_process_breaks_at_once(world: World) -> None:
    node = opened(world)
    world.inject(Kill(node=100))
    world.run_for(AFTER_MS)

    assert node.kinds == [LinkOpened, LinkClosed]


def test_a_link_to_a_machine_without_power_breaks_when_it_is_back(world: World) -> None:
    node = opened(world)
    world.inject(PowerCut(node=100, fate="kept"))
    node.orders.append(SendOnLink(1, [ASK_VERSIONS]))
    world.run_for(5_000)
    assert node.kinds == [LinkOpened]

    world.inject(Start(node=100))
    world.run_for(AFTER_MS)

    assert node.kinds == [LinkOpened, LinkClosed]


def test_nothing_more_is_heard_of_a_link_that_was_given_up(world: World) -> None:
    node = opened(world)
    node.orders += [SendOnLink(1, [ASK_VERSIONS]), CloseLink(1, "no use")]
    world.run_for(AFTER_MS)
    node.orders += [OpenLink(2, machine_address(FIRST_NODE), 1), CloseLink(2, "no use")]
    world.run_for(AFTER_MS)

    assert node.kinds == [LinkOpened]
    hundred = world.machines[100].node
    assert hundred is not None
    assert world.network.open_connections == 0


def test_an_unreachable_peer_is_given_up_after_a_while(world: World) -> None:
    world.inject(Cut(pairs=apart(["100"], ["101"])))
    node = opened(world)
    assert node.heard == []
    world.run_for(20_000)

    assert node.heard[0][1][1:] == (1, "connection timed out", False)


def test_jobs_run_one_after_the_other_and_a_pause_holds_them(world: World) -> None:
    node = pinger(world)
    done: list[int] = []

    def job(number: int) -> Callable[[], None]:
        return lambda: done.append(number)

    node.orders += [RunJob(number, job(number), Lane.FLUSHES) for number in range(20)]
    world.run_for(AFTER_MS)
    assert done == list(range(20))
    assert finished(node) == list(range(20))

    world.machines[101].disk.slow_down(0, 200_000)
    node.orders += [RunJob(20, job(20), Lane.FLUSHES), RunJob(21, job(21), Lane.FLUSHES)]
    world.run_for(20)
    world.inject(Pause(node=101))
    world.run_for(10_000)
    assert len(finished(node)) == 20
    assert len(done) <= 21
    world.inject(Resume(node=101))
    world.run_for(5_000)

    assert done == finished(node) == list(range(22))


def test_lanes_do_not_wait_for_each_other(world: World) -> None:
    node = pinger(world)
    world.machines[101].disk.slow_down(0, 200_000)
    slow = [RunJob(number, lambda: None, Lane.FLUSHES) for number in range(50)]
    node.orders += [*slow, RunJob(50, lambda: None, Lane.QUORUM)]
    world.run_for(2_000)

    assert 50 in finished(node)
    assert len(finished(node)) < 50


def test_a_step_that_syncs_breaks_a_rule(world: World) -> None:
    node = pinger(world)
    files = world.machines[101].disk.files
    node.before_step = lambda: files.sync_directory("/data")

    with pytest.raises(Violation, match=r"waits for /data to be on disk within a step") as found:
        world.run_for(2_000)
    assert found.value.rule == "S7"


def finished(node: Pinger) -> list[int]:
    return [happened.job_id for _, happened in node.heard if isinstance(happened, JobFinished)]
