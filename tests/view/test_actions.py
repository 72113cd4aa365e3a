"""What a page does to a real cluster, and the command that it shows for it: both do the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.local.ports import free_port_of_a_cluster
from tests.view.test_server import serving

from tidelog.client.admin import Admin
from tidelog.client.blocking import Client
from tidelog.client.consumer import Consumer
from tidelog.client.reassignments import Reassignments
from tidelog.http.questions import NodeListener
from tidelog.local.links import LinkFault
from tidelog.local.local_cluster import LocalCluster
from tidelog.local.view_process import ViewProcess
from tidelog.model.ids import TopicPartition
from tidelog.view.actions import Commands
from tidelog.view.server import ViewedCluster

pytestmark = pytest.mark.long

TOKEN = "a-token-of-this-test"
WITHIN_S = 30.0


class View:
    """A view that may act, as a page asks it."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, path: str, body: object | None = None) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=30)
        method = "GET" if body is None else "POST"
        headers = {"Origin": f"http://127.0.0.1:{self._port}", "X-Tidelog-Token": TOKEN}
        content = None if body is None else json.dumps(body).encode()
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        answer = json.loads(response.read(), parse_constant=pytest.fail)
        connection.close()
        return response.status, answer

    def act(self, **asked: Any) -> str:
        status, answer = self.ask("/api/act", asked)
        assert status == 200, answer
        return str(answer["done"])

    def run_command(self, **asked: Any) -> str:
        """Do it with the command that stands beside the button; the command."""
        status, answer = self.ask("/api/command", asked)
        assert status == 200, answer
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        command = str(answer["command"])
        ended = subprocess.run(
            ["sh", "-c", command],
            env={**os.environ, "PATH": path, "TIDELOG_BOOTSTRAP": "127.0.0.1:1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 0, (command, ended.stderr)
        return command


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """As `tidelog up --dev` creates it, in a directory whose name wants to be quoted."""
    first = free_port_of_a_cluster(brokers=3)
    started = LocalCluster.create(
        tmp_path_factory.mktemp("acting") / "my 'own' cluster",
        ports=range(first, first + 3),
        http_ports=None,
        development=True,
        settings={"auto.leader.rebalance.enable": "false"},
    )
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def view(cluster: LocalCluster) -> Iterator[View]:
    ViewProcess(cluster.directory).allow_acting(True)
    nobody = (NodeListener("127.0.0.1", 1),)
    with serving(ViewedCluster(nobody, cluster.bootstrap, cluster.directory, TOKEN)) as port:
        yield View(port)


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def create(cluster: LocalCluster, topic: str, partitions: int, replicas: int = 1) -> None:
    with Client(cluster.bootstrap) as client:
        Admin(client).create_topic(topic, partitions=partitions, replication_factor=replicas)
    for broker in cluster.bootstrap.split(","):
        until(partial(knows, broker, topic))


def knows(broker: str, topic: str) -> bool:
    with Client(broker) as client:
        return topic in Admin(client).topics().topics


def records(cluster: LocalCluster, topic: str) -> list[tuple[int, Any, Any, Any]]:
    with Client(cluster.bootstrap) as client:
        partitions = Admin(client).topics([topic]).topic(topic).partitions
        found = Consumer(client, topic, {each.partition: 0 for each in partitions}).until_end()
        return [(each.partition, *each.record[2:5]) for each in found]


@pytest.mark.parametrize(
    "form",
    [
        {"value": "plain"},
        {"value": "with a key", "key": "k"},
        {"value": "placed", "key": "", "partition": "2"},
        {"value": "two\nlines and 'both' \"quotes\" $HOME `date` \\n %s ünï 😀"},
        {"value": "--value", "key": "-k", "partition": 0},
        {"value": "trailing\n", "partition": 1},
    ],
    ids=lambda form: form["value"],
)
@pytest.mark.parametrize("topic", ["written", "-written"])
def test_a_record_is_the_same_by_the_button_and_by_its_command(
    cluster: LocalCluster, view: View, form: dict[str, Any], topic: str
) -> None:
    with Client(cluster.bootstrap) as client:
        if topic not in Admin(client).topics().topics:
            create(cluster, topic, partitions=3)
    before = records(cluster, topic)

    view.act(action="produce", topic=topic, **form)
    view.run_command(action="produce", topic=topic, **form)

    written = list(records(cluster, topic))
    for each in before:
        written.remove(each)
    one, other = written
    assert (
        one[1:] == other[1:] == (form.get("key", "").encode() or None, form["value"].encode(), ())
    )
    if form.get("key") or form.get("partition") not in (None, ""):
        assert one[0] == other[0]


def leaders(cluster: LocalCluster, topic: str) -> dict[int, tuple[int, int]]:
    """Of each partition who leads, and who is preferred."""
    with Client(cluster.bootstrap) as client:
        partitions = Admin(client).topics([topic]).topic(topic).partitions
    return {each.partition: (each.leader, each.replicas[0]) for each in partitions}


@pytest.mark.parametrize("by_topic", [True, False])
@pytest.mark.parametrize("way", ["act", "run_command"])
def test_preferred_leaders_are_elected_by_the_button_and_by_its_command(
    cluster: LocalCluster, view: View, way: str, by_topic: bool
) -> None:
    topic = f"led-{way}-{by_topic}"
    create(cluster, topic, partitions=3, replicas=3)
    cluster.node(101).kill()
    until(lambda: all(leader != 101 for leader, _ in leaders(cluster, topic).values()))
    cluster.start_node(101)
    until(lambda: all_in_sync(cluster))

    getattr(view, way)(action="elect", **({"topic": topic} if by_topic else {}))

    until(lambda: all(leader == first for leader, first in leaders(cluster, topic).values()))


def all_in_sync(cluster: LocalCluster) -> bool:
    with Client(cluster.bootstrap) as client:
        topics = Admin(client).topics().topics.values()
    partitions = [each for topic in topics for each in topic.partitions]
    return all(set(each.in_sync) == set(each.replicas) for each in partitions)


def test_a_move_begins_and_is_cancelled_by_the_buttons_and_by_their_commands(
    cluster: LocalCluster, view: View
) -> None:
    create(cluster, "moving", partitions=2, replicas=2)
    with Client(cluster.bootstrap) as client:
        reassignments = Reassignments(client)
        names = [TopicPartition("moving", index) for index in (0, 1)]
        assert reassignments.start(dict.fromkeys(names, (100, 101))) == {}
        until(lambda: reassignments.under_way() == [])
        moves: list[object] = []
        for way in (view.act, view.run_command):
            cluster.node(102).kill()
            way(action="reassign", topic="moving", brokers=[102, 100])
            moves.append([each[:4] for each in reassignments.under_way()])
            preview = view.ask("/api/preview?topic=moving&brokers=101,100")[1]["moves"]
            assert [(each["before"], each["adding"], each["removing"]) for each in preview] == [
                ([100, 101], [], [102]) for _ in names
            ]
            way(action="cancel-reassignments")
            assert reassignments.under_way() == []
            cluster.start_node(102)
        assert moves[0] == moves[1] != []


def test_nodes_and_links_are_broken_and_mended_by_the_commands(
    cluster: LocalCluster, view: View
) -> None:
    node = cluster.node(100)
    for action, state in (
        ("pause", "paused"), ("resume", "running"), ("stop", "stopped"), ("start", "running"),
        ("kill", "stopped"), ("start", "running"),
    ):  # fmt: skip
        view.run_command(action=action, node=100)
        assert node.state == state, action
    for action, fault in (
        ("cut", LinkFault(cut=True)), ("slow", LinkFault(delay_ms=7)), ("heal", None),
    ):  # fmt: skip
        view.run_command(action=action, between=[100, 101], delay_ms=7)
        assert cluster.links.faults.get((100, 101)) == fault


def test_commands_ask_the_brokers_that_the_view_asks() -> None:
    elsewhere = Commands(None, "db1:9092")
    other = Commands(Path("/data"), "[::1]:9092")
    own = Commands(Path("/data"), None)
    elect = {"action": "elect"}

    assert elsewhere.of(elect) == "tidelog partitions elect --bootstrap db1:9092"
    assert other.of(elect) == "tidelog partitions elect --bootstrap '[::1]:9092'"
    assert own.of(elect) == "tidelog partitions elect --data /data"
    assert other.of({"action": "kill", "node": 100}) == "tidelog node kill 100 --data /data"


@pytest.mark.parametrize(
    "asked",
    [
        {"action": "explode"},
        {},
        {"action": "kill"},
        {"action": "kill", "node": "100; rm -rf /"},
        {"action": "slow", "between": [1], "delay_ms": "x"},
        {"action": "reassign", "topic": "t", "brokers": ["$(x)"]},
        {"action": "produce", "topic": "t", "value": "\0"},
        {"action": "produce", "topic": "t"},
    ],
    ids=str,
)
def test_what_no_command_does_is_shown_with_none(view: View, asked: dict[str, Any]) -> None:
    status, answer = view.ask("/api/command", asked)

    assert status in (400, 409)
    assert answer["error"]


def test_nodes_elsewhere_have_no_command_here() -> None:
    viewed = ViewedCluster((NodeListener("127.0.0.1", 1),), "127.0.0.1:1")
    with serving(viewed) as port:
        status, answer = View(port).ask("/api/command", {"action": "kill", "node": 100})

    assert (status, answer["error"]) == (
        409,
        "nodes elsewhere are broken and mended where they are",
    )
