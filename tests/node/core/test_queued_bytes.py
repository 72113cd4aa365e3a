"""What waits for another node is bounded in bytes, for each connection and for the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.node_bench import NodeBench
from tests.node.transactional_client import SETTINGS, Client

from tidelog.model.errors import ErrorCode
from tidelog.node.core.connections import Connection, QueuedBytes
from tidelog.node.core.effects import Effect, PauseReading, ResumeReading
from tidelog.protocol.apis import ApiKey

MOST = 80_000
OF_ONE = MOST // 8
VALUE = b"v" * 3_000


@pytest.fixture
def bench(new_bench: Callable[..., NodeBench]) -> NodeBench:
    bench = new_bench(**SETTINGS, queued_max_request_bytes=str(MOST))
    bench.create_topic("orders")
    return bench


def client(bench: NodeBench, name: str) -> Client:
    client = Client(bench, name)
    client.init()
    return client


def send(client: Client, value: bytes = VALUE, *, acks: int = -1) -> None:
    """A batch that waits for its coordinator, whose answer takes until the clock moves on."""
    client.peer.send_produce(
        {("orders", 0): client.batch(0, value)},
        version=12,
        acks=acks,
        transactional_id=client.transactional_id,
    )


def held(bench: NodeBench) -> int:
    return bench.node._memory.total


@pytest.mark.parametrize("acks", [-1, 1, 0])
def test_a_peer_is_not_read_while_too_many_of_its_batches_wait_for_a_coordinator(
    bench: NodeBench, acks: int
) -> None:
    one = client(bench, "one")
    sent = 0
    while one.peer.is_read:
        send(one, acks=acks)
        sent += 1
        assert held(bench) < OF_ONE + 2 * len(VALUE)
    assert held(bench) >= OF_ONE

    one.settle()

    assert (held(bench), one.peer.is_read, one.peer.closed) == (0, True, None)
    assert len(one.peer.frames) == (sent if acks else 0)
    assert bench.partition("orders").log.end_offset == sent


def test_a_batch_larger_than_the_bound_is_served_alone(bench: NodeBench) -> None:
    one = client(bench, "one")
    send(one, b"v" * (MOST + 1))
    assert not one.peer.is_read

    one.settle()

    ((_, _, (result,)),) = one.peer.produced(12).topics
    assert (result.error, one.peer.is_read) == (ErrorCode.none, True)


def test_a_full_node_reads_nobody_whose_batches_wait_and_lets_nobody_else_in(
    bench: NodeBench,
) -> None:
    clients = [client(bench, f"client-{number}") for number in range(20)]
    late = clients.pop()
    hasty = client(bench, "hasty")
    full = [each for each in clients if held(bench) < MOST and send_all(each)]
    assert MOST <= held(bench) < MOST + 2 * len(VALUE)
    assert len(full) < len(clients)

    send(late)
    send(hasty, acks=0)

    assert held(bench) < MOST + 2 * len(VALUE)
    ((_, _, (refused,)),) = late.peer.produced(12).topics
    assert refused.error == ErrorCode.not_enough_replicas
    assert hasty.peer.closed is not None
    late.settle()
    assert held(bench) == 0
    assert all(each.peer.is_read and each.peer.closed is None for each in clients)
    late.sequences = {}
    send(late)
    late.settle()
    ((_, _, (written,)),) = late.peer.produced(12).topics
    assert written.error == ErrorCode.none


def send_all(client: Client) -> bool:
    while client.peer.is_read and held(client.bench) < MOST:
        send(client)
    return not client.peer.is_read


def test_what_a_peer_that_left_has_sent_counts_until_it_is_let_go(bench: NodeBench) -> None:
    one = client(bench, "one")
    send(one)
    one.peer.leave()
    assert held(bench) >= len(VALUE)
    one.settle()
    assert held(bench) == 0


CHANGES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 60)), max_size=40)


@given(CHANGES)
def test_nobody_is_left_unread_once_all_is_let_go(changes: list[tuple[int, int]]) -> None:
    effects: list[Effect] = []
    memory = QueuedBytes(100)
    connections = [Connection(at, "PLAINTEXT", "host", effects, memory) for at in range(3)]
    waiting: list[tuple[Connection, int]] = []
    for at, size in changes:
        connection = connections[at]
        if connection.paused:
            if waiting:
                memory.remove(*waiting.pop(0))
        else:
            memory.add(connection, size)
            waiting.append((connection, size))
            assert not memory.is_full or all(each.paused for each in connections if memory.of(each))
    for held in waiting:
        memory.remove(*held)

    assert memory.total == 0
    assert not any(connection.paused for connection in connections)
    for connection in connections:
        own = [type(effect) for effect in effects if effect[0] == connection.id]
        assert own == [PauseReading, ResumeReading] * (len(own) // 2)


@pytest.mark.parametrize(
    ("api_key", "version", "fields"),
    [
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": None, "timeout": 1000}),
        (ApiKey.DELETE_TOPICS, 5, {"topic_names": ["nowhere"], "timeout": 1000}),
        (ApiKey.DESCRIBE_QUORUM, 1, {"topics": []}),
    ],
)
def test_nothing_stays_of_a_request_that_the_controller_in_this_node_answers_at_once(
    bench: NodeBench, api_key: ApiKey, version: int, fields: dict[str, Any]
) -> None:
    bench.connect().ask(api_key, version, **fields)

    assert held(bench) == 0
