"""Commands that ask nodes over HTTP: of one cluster, all at once; who is silent is named."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.http.test_server import LIMITS, Served
from typer.testing import CliRunner

from tidelog.cli.main import app
from tidelog.http.messages import Chunks, HttpRequest, HttpResponse, json_response
from tidelog.http.server_sent_events import event_stream, event_text
from tidelog.model.ids import TopicPartition
from tidelog.monitor.node_survey import PATIENCE_S
from tidelog.observe.events import Event, NodeStopped, PartitionBecameLeader
from tidelog.observe.journal import as_dict


class FakeNode:
    """Tells its state and two events."""

    def __init__(self, node_id: int, cluster_id: str, leader: int) -> None:
        self._node_id, self._cluster_id, self._leader = node_id, cluster_id, leader
        routes = {"/state": {"GET": self._state}, "/events": {"GET": self._events}}
        self.served = Served(routes, LIMITS)
        self.address = f"127.0.0.1:{self.served.port}"

    async def _state(self, request: HttpRequest) -> HttpResponse:
        quorum = {"leader": self._leader, "epoch": 1, "role": "follower"}
        return json_response({"cluster_id": self._cluster_id, "quorum": quorum})

    async def _events(self, request: HttpRequest) -> HttpResponse:
        return event_stream(self._told())

    async def _told(self) -> Chunks:
        name = TopicPartition("orders", 0)
        leads = PartitionBecameLeader(
            partition=name,
            leader_epoch=1,
            start_offset=0,
            cause="the controller chose this replica",
        )
        events: list[Event] = [leads, NodeStopped(clean=True, cause="SIGTERM")]
        for number, event in enumerate(events, 1):
            line = json.dumps(as_dict(event, self._node_id, 1000 * number, number))
            yield event_text(line, event_id=number)


class Nodes:
    """Fake nodes, and doors behind which nobody answers."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def node(self, node_id: int, cluster_id: str = "c", leader: int = 1) -> str:
        node = FakeNode(node_id, cluster_id, leader)
        self._stack.callback(node.served.close)
        return node.address

    def silent(self) -> str:
        door = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        return "{}:{}".format(*door.getsockname())


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield Nodes(stack)


def options(*addresses: str) -> list[str]:
    return [word for each in addresses for word in ("--http", each)]


@pytest.mark.parametrize(
    "command",
    [["events"], ["why", "orders-0"], ["view", "--bootstrap", "127.0.0.1:1"]],
    ids=" ".join,
)
def test_nodes_of_two_clusters_are_refused_with_both_ids(nodes: Nodes, command: list[str]) -> None:
    addresses = nodes.node(1, "first-cluster"), nodes.node(2, "second-cluster")

    refused = CliRunner().invoke(app, [*command, *options(*addresses)])

    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"http://{addresses[0]} is of cluster first-cluster" in refused.stderr
    assert f"http://{addresses[1]} of second-cluster" in refused.stderr


@pytest.mark.parametrize("command", [["events"], ["why", "orders-0"]], ids=" ".join)
def test_silent_nodes_are_asked_at_once_and_named(nodes: Nodes, command: list[str]) -> None:
    silent = [nodes.silent() for _ in range(4)]
    began_s = time.monotonic()

    told = CliRunner().invoke(app, [*command, *options(nodes.node(1), *silent)])

    assert told.exit_code == 0, told.stderr
    assert "in epoch 1 from offset 0" in told.stdout
    assert time.monotonic() - began_s < 2 * PATIENCE_S
    for each in silent:
        assert f"http://{each} does not answer in time; its events are missing here" in told.stderr


def test_nobody_but_silent_nodes_ends_with_three(nodes: Nodes) -> None:
    silent = nodes.silent()

    told = CliRunner().invoke(app, ["events", "--http", silent])

    assert told.exit_code == 3
    assert f"http://{silent} does not answer in time" in told.stderr


@pytest.mark.parametrize("command", [["events"], ["why", "orders-0"]], ids=" ".join)
def test_nodes_that_know_no_controller_are_a_warning(nodes: Nodes, command: list[str]) -> None:
    lost = [nodes.node(1, leader=-1), nodes.node(2, leader=-1)]
    warning = "warning: nobody who answers knows an active controller"

    told = CliRunner().invoke(app, [*command, *options(*lost)])
    assert told.exit_code == 0
    assert warning in told.stderr
    led = CliRunner().invoke(app, [*command, *options(*lost, nodes.node(3))])
    assert warning not in led.stderr
