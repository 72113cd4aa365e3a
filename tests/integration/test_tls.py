"""Clusters that speak nothing but TLS: clients, brokers and controllers show certificates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.certificates import Authority
from tests.integration.nodes import Nodes
from tests.integration.raw import until

from tidelog.local.ports import free_ports

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with Nodes(tmp_path, CLUSTER_ID) as started:
        yield started


def secured(
    authority: Authority, node_id: int, port: int, roles: str, voter: str
) -> dict[str, str]:
    """A node whose listeners all speak TLS and want certificates."""
    keys = authority.key_store(f"{node_id}.pem", "127.0.0.1", "localhost", common_name="node")
    listeners = [f"CLIENTS://127.0.0.1:{port}"] if "broker" in roles else []
    if "controller" in roles:
        listeners.append(f"CONTROL://{voter.partition('@')[2]}")
    return {
        "process.roles": roles,
        "node.id": str(node_id),
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": "CLIENTS:SSL,CONTROL:SSL",
        "inter.broker.listener.name": "CLIENTS",
        "controller.listener.names": "CONTROL",
        "controller.quorum.voters": voter,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trusted),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/L,DEFAULT",
        "offsets.topic.replication.factor": "2",
        "min.insync.replicas": "2",
    }


def client_of(authority: Authority, port: int) -> dict[str, str | int]:
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.trusted),
        "ssl.keystore.location": "",
        "ssl.certificate.location": str(authority.key_store("client.pem", "c", common_name="C")),
        "ssl.key.location": str(authority.trusted.parent / "client.pem"),
        "log_level": 0,
    }


def write_and_read(client: dict[str, str | int], replicas: int, topic: str = "tides") -> None:
    admin = AdminClient(client)
    admin.create_topics([NewTopic(topic, 4, replicas)])[topic].result(30)
    until(lambda: topic in admin.list_topics(timeout=5).topics)
    producer = Producer({**client, "acks": "all"})
    values = [b"%d" % number * 200 for number in range(2000)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 4)
    assert producer.flush(30) == 0
    consumer = Consumer({**client, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[bytes] = []
    until(lambda: _read_some(consumer, read) >= len(values), within_s=60)
    consumer.close()
    assert sorted(read) == sorted(values)


def _read_some(consumer: Consumer, read: list[bytes]) -> int:
    for message in consumer.consume(1000, timeout=1.0):
        assert message.error() is None
        value = message.value()
        assert isinstance(value, bytes)
        read.append(value)
    return len(read)


def alive(client: dict[str, str | int]) -> set[int]:
    try:
        return set(AdminClient(client).list_topics(timeout=5).brokers)
    except KafkaException:
        return set()


def test_a_cluster_lives_on_tls_alone(nodes: Nodes, authority: Authority) -> None:
    ports = free_ports(4)
    voter = f"1@127.0.0.1:{ports[0]}"
    nodes.start("tidelog", secured(authority, 1, ports[1], "broker,controller", voter))
    for node_id in (2, 3):
        nodes.start("tidelog", secured(authority, node_id, ports[node_id], "broker", voter))
    client = client_of(authority, ports[1])
    until(lambda: alive(client) == {1, 2, 3}, within_s=60)
    write_and_read(client, 3)


@pytest.mark.parametrize("controller", ["tidelog", "apache"])
def test_brokers_of_both_kinds_share_a_cluster_on_tls(
    nodes: Nodes, authority: Authority, controller: str
) -> None:
    ports = free_ports(4)
    voter = f"3@127.0.0.1:{ports[0]}"
    nodes.start(controller, secured(authority, 3, 0, "controller", voter))
    nodes.start("tidelog", secured(authority, 1, ports[1], "broker", voter))
    nodes.start("apache", secured(authority, 2, ports[2], "broker", voter))
    client = client_of(authority, ports[1])
    until(lambda: alive(client) == {1, 2}, within_s=90)
    until(lambda: alive(client_of(authority, ports[2])) == {1, 2}, within_s=60)
    write_and_read(client, 2)
