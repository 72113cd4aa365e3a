"""Group coordinators on three brokers: killed with SIGKILL, stopped, and found again."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.integration.group_reader import (
    WITHIN_S,
    Reader,
    classic,
    committed,
    consumer_protocol,
    create_topic,
    poll_until,
    produce,
    share,
)
from tests.integration.metadata import metadata
from tests.integration.raw import until

from tidelog.coordinator.internal_topics import OFFSETS_TOPIC, partition_of
from tidelog.testing.cluster import Cluster

CONTROLLER = 100
TOPIC = "orders"
PARTITIONS = 4
SETTINGS = {"broker.session.timeout.ms": "3000", "offsets.topic.num.partitions": "10"}
NewReader = Callable[..., Reader]
HERE = Path(__file__).parent


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers and a topic with three replicas."""
    with Cluster(tmp_path / "cluster", brokers=3, settings=SETTINGS) as running:
        create_topic(running.bootstrap, TOPIC, PARTITIONS, 3)
        yield running


def coordinators(bootstrap: str) -> dict[int, int]:
    """The leader of each partition of the offsets topic, once they all have one."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + WITHIN_S
    while True:
        topic = metadata(admin).topics.get(OFFSETS_TOPIC)
        if topic is not None and all(each.leader >= 0 for each in topic.partitions.values()):
            return {index: each.leader for index, each in topic.partitions.items()}
        assert time.monotonic() < deadline, "the offsets topic has no leaders"


def group_elsewhere(cluster: Cluster) -> tuple[str, int]:
    """A group whose coordinator is not on the controller's node, and that coordinator."""
    first = classic(cluster.bootstrap, "first", TOPIC)
    share([first], PARTITIONS)
    first.close()
    leaders = coordinators(cluster.bootstrap)
    for number in range(1000):
        leader = leaders[partition_of(f"group-{number}", len(leaders))]
        if leader != CONTROLLER:
            return f"group-{number}", leader
    raise AssertionError("all coordinators are on one node")


@pytest.mark.parametrize("member", [classic, consumer_protocol])
def test_commits_and_members_survive_the_death_of_their_coordinator(
    cluster: Cluster, member: NewReader
) -> None:
    bootstrap = cluster.bootstrap
    group, coordinator = group_elsewhere(cluster)
    sent = produce(bootstrap, TOPIC, 0, 200, PARTITIONS)
    readers = [member(bootstrap, group, TOPIC) for _ in range(2)]
    share(readers, 2, 2)
    poll_until(readers, lambda: (readers[0].read + readers[1].read).keys() == sent)
    for reader in readers:
        reader.commit()

    cluster.kill(coordinator)
    sent |= produce(bootstrap, TOPIC, 200, 200, PARTITIONS)
    poll_until(readers, lambda: (readers[0].read + readers[1].read).keys() == sent)
    for reader in readers:
        reader.commit()
    assert committed(bootstrap, group) == dict.fromkeys(range(PARTITIONS), 100)
    share(readers, 2, 2)

    cluster.start(coordinator)
    readers.pop().close()
    share(readers, PARTITIONS)
    assert readers[0].read.keys() <= sent
    readers[0].close()
    assert committed(bootstrap, group) == dict.fromkeys(range(PARTITIONS), 100)


def test_a_coordinator_that_is_stopped_hands_its_groups_over(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap
    group, coordinator = group_elsewhere(cluster)
    produce(bootstrap, TOPIC, 0, 40, PARTITIONS)
    reader = classic(bootstrap, group, TOPIC)
    poll_until([reader], lambda: reader.read.total() == 40)
    reader.commit()
    cluster.stop(coordinator)
    assert committed(bootstrap, group) == dict.fromkeys(range(PARTITIONS), 10)
    joined = classic(bootstrap, group, TOPIC)
    share([reader, joined], 2, 2)
    for each in (reader, joined):
        each.close()


def test_offsets_survive_a_restart_of_the_whole_cluster(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap
    produce(bootstrap, TOPIC, 0, 40, PARTITIONS)
    reader = classic(bootstrap, "lasting", TOPIC)
    poll_until([reader], lambda: reader.read.total() == 40)
    reader.commit()
    reader.close()
    for node_id in reversed(cluster.node_ids):
        cluster.kill(node_id)
    cluster.local.start()
    coordinators(bootstrap)
    assert committed(bootstrap, "lasting") == dict.fromkeys(range(PARTITIONS), 10)


class Member:
    """A client in a process of its own, and what it says it has read and committed."""

    def __init__(self, program: str, bootstrap: str, group: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / program), bootstrap, group, TOPIC],
            stdout=subprocess.PIPE,
        )
        self.read: set[bytes] = set()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.read.add(line.strip())

    def leave(self) -> int:
        self._process.terminate()
        try:
            return self._process.wait(WITHIN_S)
        finally:
            self._process.kill()
            self._listener.join()


@pytest.mark.parametrize("program", ["aiokafka_member.py", "kafka_python_member.py"])
def test_members_of_other_clients_come_and_go_and_outlive_their_coordinator(
    cluster: Cluster, program: str
) -> None:
    bootstrap = cluster.bootstrap
    group, coordinator = group_elsewhere(cluster)
    members = [Member(program, bootstrap, group)]
    try:
        sent = produce(bootstrap, TOPIC, 0, 200, PARTITIONS)
        until(lambda: members[0].read == sent, within_s=WITHIN_S)

        members.append(Member(program, bootstrap, group))
        cluster.kill(coordinator)
        sent |= produce(bootstrap, TOPIC, 200, 200, PARTITIONS)
        until(lambda: members[0].read | members[1].read == sent, within_s=2 * WITHIN_S)
        cluster.start(coordinator)
        until(
            lambda: committed(bootstrap, group) == dict.fromkeys(range(PARTITIONS), 100),
            within_s=WITHIN_S,
        )

        first = members.pop(0)
        assert first.leave() == 0
        last = produce(bootstrap, TOPIC, 400, 200, PARTITIONS)
        until(lambda: last <= members[0].read, within_s=2 * WITHIN_S)
    finally:
        codes = [member.leave() for member in members]
    assert codes == [0]
    assert committed(bootstrap, group) == dict.fromkeys(range(PARTITIONS), 150)
