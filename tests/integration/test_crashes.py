"""A broker that is killed at any moment and started again: what was acknowledged is there, once
and in order. And starts that must be refused, in words that help."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.integration.raw import Peer, batch_of, create_topic, end_offset, produce
from tests.integration.writer import Writer

from tidelog.local.node_process import NodeTrouble
from tidelog.local.ports import free_ports
from tidelog.model.settings.properties import parse_properties, write_properties
from tidelog.testing.cluster import Cluster


def test_acknowledged_records_survive_kills_exactly_once_and_in_order(
    own_cluster: Cluster,
) -> None:
    cluster, partitions = own_cluster, 3
    with Peer(cluster.bootstrap) as peer:
        create_topic(peer, "numbers", partitions=partitions)
    with Writer(cluster.bootstrap, "numbers", partitions) as writer:
        for _ in range(5):
            writer.wait_for_more(1000)
            cluster.kill()
            cluster.start()
        writer.wait_for_more(1000)
    writer.assert_promises_kept()


def test_a_broker_killed_while_it_starts_starts_again(own_cluster: Cluster) -> None:
    cluster, dice = own_cluster, random.Random(4)
    with Peer(cluster.bootstrap) as peer:
        create_topic(peer, "numbers", segment_bytes="1048576")
    with Writer(cluster.bootstrap, "numbers", codec="zstd") as writer:
        writer.wait_for_more(3000)
        cluster.kill()
        for _ in range(4):
            cluster.node().start()
            time.sleep(dice.uniform(0.1, 0.5))  # the moment of death
            cluster.kill()
        cluster.start()
        writer.wait_for_more(1000)
    writer.assert_promises_kept()


def test_a_retry_across_a_kill_gets_the_offset_of_the_first_try(own_cluster: Cluster) -> None:
    batches = [
        batch_of(b"a", b"b", producer_id=4, producer_epoch=0, base_sequence=2 * number)
        for number in range(7)
    ]
    with Peer(own_cluster.bootstrap) as peer:
        topic = create_topic(peer, "retried")
        first = [produce(peer, topic, batch).base_offset for batch in batches]
        assert first == [0, 2, 4, 6, 8, 10, 12]
    own_cluster.kill()
    own_cluster.start()
    with Peer(own_cluster.bootstrap) as peer:
        again = [produce(peer, topic, batch) for batch in batches[2:]]
        assert [(answer.error, answer.base_offset) for answer in again] == [
            (0, offset) for offset in first[2:]
        ]
        assert end_offset(peer, topic) == 14
        after = batch_of(b"c", producer_id=4, producer_epoch=0, base_sequence=14)
        assert produce(peer, topic, after).base_offset == 14


def refused_start(config: Path) -> str:
    """What a node says that will not start; it must say so with exit code 1 and no traceback."""
    command = [sys.executable, "-m", "tidelog", "broker", "--config", str(config)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ran.returncode == 1, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stderr


def with_other_ports(cluster: Cluster, target: Path) -> Path:
    properties = parse_properties(cluster.node().properties.read_text())
    broker, controller = free_ports(2)
    properties["listeners"] = f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}"
    properties["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{broker}"
    properties["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller}"
    target.write_text(write_properties(properties))
    return target


def test_a_second_broker_in_the_same_directory_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    said = refused_start(with_other_ports(cluster, tmp_path / "second.properties"))
    assert str(cluster.data()) in said and f"in use by process {cluster.node().pid}" in said
    with Peer(cluster.bootstrap) as peer:
        create_topic(peer, "still-served")


def test_a_port_that_is_taken_is_named(own_cluster: Cluster) -> None:
    cluster = own_cluster
    cluster.stop()
    port = cluster.local.descriptions[100].port
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        said = refused_start(cluster.node().properties)
        assert f"127.0.0.1:{port}" in said and "another process listens there" in said
        with pytest.raises(NodeTrouble, match=f"port {port} is taken"):
            cluster.start()
    cluster.start()


def test_the_directory_of_another_node_or_of_none_is_refused(own_cluster: Cluster) -> None:
    cluster = own_cluster
    cluster.kill()
    identity = cluster.data() / "meta.properties"
    mine = identity.read_text()
    config = cluster.node().properties
    identity.write_text(mine.replace("node.id=100", "node.id=101"))
    assert "belongs to node 101, this is node 100" in refused_start(config)
    identity.write_text("version=1\n\x00\xff garbage")
    assert f"{identity} cannot be used" in refused_start(config)
    identity.unlink()
    assert "is not formatted" in refused_start(config)
    identity.write_text(mine)
    cluster.start()
