"""A whole node: how it starts, keeps answers in order, and stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.protocol.kio_messages.entity_messages import decode_response

from tidelog.model.errors import ConfigError, DiskError
from tidelog.node.core.connections import RESUME_BELOW, UNANSWERED_MAX
from tidelog.node.core.inputs import (
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    TickEnded,
    TimePassed,
)
from tidelog.node.node import Node
from tidelog.observe.events import ConnectionDropped, NodeStarted, NodeStopped
from tidelog.protocol.apis import ApiKey
from tidelog.simulator.disk.disk_operation import FileSynced

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

CLEAN_MARK = "/data/.kafka_cleanshutdown"


# Starting


def test_a_node_opens_its_listeners_once_it_is_unfenced(bench: NodeBench) -> None:
    assert bench.listeners == ("CONTROLLER", "PLAINTEXT")
    [started] = bench.of_kind(NodeStarted)
    assert started.cluster_id == bench.node.cluster.cluster_id
    assert bench.node.cluster.is_live(100)


def test_every_step_of_a_start_waits_for_the_disk(starting: NodeBench) -> None:
    rounds = 0
    while starting.jobs:
        assert starting.listeners == ("CONTROLLER",), "the quorum is there for others at once"
        assert len(starting.jobs) == 1
        starting.run_job()
        rounds += 1
    assert starting.listeners == ("CONTROLLER", "PLAINTEXT")
    assert rounds >= 3, "the epoch, the bootstrap records and the registration are synced apart"


def test_a_slow_disk_does_not_open_the_listeners_twice(starting: NodeBench) -> None:
    while "PLAINTEXT" not in starting.listeners:
        starting.wait(5000)  # heartbeats come and go meanwhile
        starting.run_job()
    starting.run_jobs()
    assert len(starting.of_kind(NodeStarted)) == 1


def test_a_directory_that_was_never_formatted_is_refused(bench: NodeBench) -> None:
    bench.files.remove("/data/meta.properties")
    node = Node(bench.config, bench.files, bench.entropy)
    with pytest.raises(ConfigError, match="not formatted"):
        node.start(bench.now)


def test_the_directory_of_another_node_is_refused(new_bench: NewBench) -> None:
    bench = new_bench()
    with pytest.raises(ConfigError):
        bench.again(settings={"node.id": "101"})


# Order of answers


def test_a_parked_fetch_holds_the_later_answers_but_not_the_later_work(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    bench.create_topic("clicks")
    peer.send_fetch({("orders", 0): 0})
    peer.send_produce({("clicks", 0): batch(b"a")})
    peer.send(ApiKey.METADATA, 1, topics=[])
    bench.end_tick()
    assert peer.frames == []
    assert bench.partition("clicks").log.end_offset == 1, "the work is done"

    bench.wait(500)
    assert len(peer.frames) == 3
    assert peer.fetched().topics[0].name == "orders"
    assert peer.produced().topics[0].name == "clicks"
    assert decode_response(ApiKey.METADATA, 1, peer.answer())[1].topics == ()


def test_answers_of_other_connections_are_not_held(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("orders")
    peer.send_fetch({("orders", 0): 0})
    other = bench.connect()
    assert other.ask(ApiKey.METADATA, 1, topics=[]).topics == ()


def test_an_acks_0_request_leaves_no_hole_between_answers(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    bench.create_topic("clicks")
    peer.send_fetch({("clicks", 0): 0})
    peer.send_produce({("orders", 0): batch(b"a")}, acks=0)
    peer.send_produce({("orders", 0): batch(b"b")}, acks=1)
    bench.wait(500)
    assert peer.fetched().error == 0
    assert peer.produced().topics[0].partitions[0].base_offset == 1
    assert peer.frames == []


def test_a_peer_with_many_unanswered_requests_is_not_read_until_half_are_answered(
    bench: NodeBench, peer: Peer
) -> None:
    bench.create_topic("orders")
    bench.holds_jobs = True
    for number in range(UNANSWERED_MAX):
        assert peer.is_read
        peer.send(
            ApiKey.METADATA,
            12,
            topics=[{"name": f"topic-{number}"}],
            allow_auto_topic_creation=True,
        )
    assert not peer.is_read
    while not peer.is_read:
        assert len(peer.frames) <= UNANSWERED_MAX - RESUME_BELOW
        bench.run_job()
    bench.run_jobs()
    assert len(peer.frames) == UNANSWERED_MAX


def test_bad_input_closes_its_own_connection_and_no_other(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("orders")
    other = bench.connect()
    other.send_fetch({("orders", 0): 0})
    peer.send_frame(b"\x00")
    assert peer.closed is not None
    [dropped] = bench.of_kind(ConnectionDropped)
    assert (dropped.listener, dropped.peer_host) == ("PLAINTEXT", "10.0.0.7")
    bench.wait(500)
    assert other.fetched().error == 0


def test_what_comes_from_a_connection_that_is_closed_or_unknown_is_ignored(
    bench: NodeBench, peer: Peer
) -> None:
    peer.send_frame(b"\x00")
    before = len(bench.events)
    peer.send_frame(b"\x00")
    bench.step(FrameArrived(bench.now, 4711, memoryview(bytearray(b"\x00"))))
    bench.step(ConnectionClosed(bench.now, 4711, "never seen"))
    assert len(bench.events) == before


def test_a_fetch_parked_before_bad_input_is_forgotten_with_its_connection(
    bench: NodeBench, peer: Peer
) -> None:
    bench.create_topic("orders")
    peer.send_fetch({("orders", 0): 0}, max_wait_ms=60_000)
    peer.send_frame(b"\x00")
    assert not bench.partition("orders").watchers
    bench.wait(60_000)
    assert peer.frames == []


# Time


def test_the_next_deadline_is_that_of_the_most_impatient(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("orders")
    peer.send_fetch({("orders", 0): 0}, max_wait_ms=7)
    assert bench.node.next_deadline_ms == bench.now.monotonic_ms + 7
    bench.wait(7)
    assert len(peer.frames) == 1


def test_time_that_passes_too_early_does_nothing(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("orders")
    peer.send_fetch({("orders", 0): 0}, max_wait_ms=500)
    bench.step(TimePassed(bench.now))
    bench.end_tick()
    assert peer.frames == []


# Stopping


def test_a_stop_marks_the_directory_as_clean_and_says_so(bench: NodeBench) -> None:
    assert not bench.files.exists(CLEAN_MARK)
    bench.stop()
    assert bench.files.exists(CLEAN_MARK)
    [stopped] = bench.of_kind(NodeStopped)
    assert stopped.clean
    assert bench.stopped is not None
    assert bench.stopped.failure is None


def test_a_stop_waits_for_the_jobs_under_way_and_answers_what_they_decide(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders", flush_messages="1")
    bench.holds_jobs = True
    peer.send_produce({("orders", 0): batch(b"a")})
    bench.stop()
    assert bench.stopped is None
    assert bench.node.next_deadline_ms is None
    peer.send_produce({("orders", 0): batch(b"too late")})
    bench.run_jobs()
    assert bench.stopped is not None
    assert peer.produced().topics[0].partitions[0].error == 0
    assert peer.frames == []
    assert bench.partition("orders").log.end_offset == 1


def test_a_stopped_node_does_nothing_more(bench: NodeBench, peer: Peer) -> None:
    bench.stop()
    before = bench.files.operation_count
    assert bench.node.step(TickEnded(bench.now)) == []
    assert bench.node.step(TimePassed(bench.now)) == []
    assert bench.node.step(ConnectionOpened(bench.now, 99, "PLAINTEXT", "x")) == []
    assert bench.files.operation_count == before


def test_a_stop_that_cannot_write_is_not_a_clean_one(bench: NodeBench) -> None:
    bench.create_topic("orders")
    bench.files.fail_when(lambda operation: isinstance(operation, FileSynced))
    bench.stop()
    [stopped] = bench.of_kind(NodeStopped)
    assert not stopped.clean
    assert bench.stopped is not None
    assert bench.stopped.failure
    assert not bench.files.exists(CLEAN_MARK)


def test_a_node_that_is_asked_to_stop_while_it_starts_does_so_when_no_job_is_under_way(
    starting: NodeBench,
) -> None:
    starting.stop()
    assert starting.stopped is None
    starting.run_jobs()
    assert starting.stopped is not None
    assert starting.stopped.failure is None


def test_a_failed_sync_of_the_metadata_log_stops_the_node(bench: NodeBench, peer: Peer) -> None:
    bench.holds_jobs = True
    peer.send(ApiKey.METADATA, 12, topics=[{"name": "orders"}], allow_auto_topic_creation=True)
    with pytest.raises(DiskError, match="could not be synced"):
        bench.run_jobs(error="Input/output error")
    assert peer.frames == []
    assert "orders" not in bench.node.cluster.image.topics_by_name
