"""Groups whose coordinator moves between Tidelog and Apache Kafka, with all their members."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.integration.group_reader import (
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
from tidelog.local.ports import free_ports
from tidelog.testing.cluster import Cluster

JARS = Path(__file__).parents[2] / ".cache" / "java" / "tools"
JAVA = ["java", "-Xmx400m", "-cp", f"{JARS}/*"]
OURS, THEIRS = 100, 102
TOPIC = "orders"
GROUP_SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class Apache:
    """A broker of Apache Kafka under our controller; its coordinators are as quick as ours."""

    def __init__(self, home: Path, cluster: Cluster) -> None:
        controller = cluster.local.descriptions[OURS].controller_listener
        assert controller is not None
        [port] = free_ports(1)
        self.bootstrap = f"127.0.0.1:{port}"
        self._log = home / "node.log"
        self._config = home / "node.properties"
        home.mkdir()
        settings = {
            "process.roles": "broker",
            "node.id": str(THEIRS),
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": controller,
            "log.dirs": str(home / "data"),
            **GROUP_SETTINGS,
        }
        self._config.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
        formatting = ["kafka.tools.StorageTool", "format", "-t", cluster.cluster_id]
        command = [*JAVA, *formatting, "-c", str(self._config)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            command = [*JAVA, "kafka.Kafka", str(self._config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(60) is not None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Cluster]:
    settings = {
        **GROUP_SETTINGS,
        "leader.imbalance.check.interval.seconds": "1",
        "broker.reconnect.grace.ms": "0",
        "min.insync.replicas": "1",
    }
    with Cluster(tmp_path / "ours", settings=settings) as running:
        yield running


@pytest.fixture
def theirs(tmp_path: Path, ours: Cluster) -> Iterator[Apache]:
    broker = Apache(tmp_path / "apache", ours)
    broker.start()
    yield broker
    broker.kill()


def test_groups_go_on_when_their_coordinator_moves_between_the_two(
    ours: Cluster, theirs: Apache
) -> None:
    admin = AdminClient({"bootstrap.servers": ours.bootstrap, "log_level": 0})
    until(lambda: sorted(metadata(admin).brokers) == [OURS, THEIRS], within_s=60)
    create_topic(ours.bootstrap, TOPIC, 2, 2)
    sent = produce(ours.bootstrap, TOPIC, 0, 100, 2)
    first = classic(ours.bootstrap, "first", TOPIC)
    share([first], 2)
    first.close()

    def coordinators() -> dict[int, int]:
        partitions = metadata(admin).topics[OFFSETS_TOPIC].partitions
        return {index: partition.leader for index, partition in partitions.items()}

    until(lambda: sorted(coordinators().values()) == [OURS, THEIRS], within_s=60)
    [moving] = [index for index, leader in coordinators().items() if leader == THEIRS]
    names = (f"group-{number}" for number in range(100))
    old, new = [name for name in names if partition_of(name, 2) == moving][:2]
    everywhere = f"{ours.bootstrap},{theirs.bootstrap}"
    readers = [classic(everywhere, old, TOPIC), consumer_protocol(everywhere, new, TOPIC)]
    poll_until(readers, lambda: all(reader.read.keys() == sent for reader in readers))
    for reader in readers:
        reader.commit()

    theirs.stop()
    until(lambda: set(coordinators().values()) == {OURS}, within_s=60)
    assert committed(ours.bootstrap, old) == committed(ours.bootstrap, new) == {0: 50, 1: 50}
    sent |= produce(ours.bootstrap, TOPIC, 100, 100, 2)
    poll_until(readers, lambda: all(reader.read.keys() == sent for reader in readers))
    more = [classic(everywhere, old, TOPIC), consumer_protocol(everywhere, new, TOPIC)]
    share([*readers, *more], 1, 1, 1, 1)

    theirs.start()
    until(lambda: coordinators()[moving] == THEIRS, within_s=90)
    everybody = [*readers, *more]
    last = produce(ours.bootstrap, TOPIC, 200, 100, 2)
    poll_until(everybody, lambda: sum(len(each.read.keys() & last) for each in everybody) == 200)
    for reader in everybody:
        reader.commit()
    assert committed(everywhere, old) == committed(everywhere, new) == {0: 150, 1: 150}
    for reader in more:
        reader.close()
    share(readers, 2, 2)
    for reader in readers:
        reader.close()
