"""Clusters whose listeners all want a proof, over TLS: stock clients, Kafka's tools, both kinds of
brokers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ScramMechanism
from tests.certificates import Authority
from tests.integration.conftest import Java
from tests.integration.nodes import Nodes
from tests.integration.raw import until
from tests.integration.test_tls import alive, write_and_read

from tidelog.local.ports import free_ports

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = [
    "--add-scram",
    "SCRAM-SHA-256=[name=alice,password=alice-secret]",
    "--add-scram",
    "SCRAM-SHA-512=[name=alice,password=alice-secret]",
]


def secured(
    authority: Authority, node_id: int, port: int, control: int, roles: str = "broker,controller"
) -> dict[str, str]:
    """A node whose listeners all speak SASL_SSL: SCRAM and PLAIN to clients, PLAIN to nodes."""
    keys = authority.key_store(f"{node_id}.pem", "127.0.0.1", "localhost")
    listeners = [f"CLIENTS://127.0.0.1:{port}"] if "broker" in roles else []
    if "controller" in roles:
        listeners.append(f"CONTROL://127.0.0.1:{control}")
    login = f'{PLAIN} required username="node" password="node-secret" user_node="node-secret"'
    return {
        "process.roles": roles,
        "node.id": str(node_id),
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROL:SASL_SSL",
        "inter.broker.listener.name": "CLIENTS",
        "controller.listener.names": "CONTROL",
        "controller.quorum.voters": f"1@127.0.0.1:{control}",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.control.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f'{login} user_alice="alice-secret";',
        "listener.name.control.plain.sasl.jaas.config": f"{login};",
        "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trusted),
        "connections.max.reauth.ms": "4000",
        "offsets.topic.replication.factor": "1",
    }


def client_of(
    authority: Authority, port: int, mechanism: str, password: str = "alice-secret"
) -> dict[str, str | int]:
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
        "ssl.ca.location": str(authority.trusted),
        "log_level": 0,
    }


def properties(authority: Authority, directory: Path, mechanism: str = "SCRAM-SHA-512") -> Path:
    """A file of client properties, for Kafka's tools and for ours."""
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    path = directory / f"{mechanism}.properties"
    path.write_text(
        "security.protocol=SASL_SSL\n"
        f"sasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="alice" password="alice-secret";\n'
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.trusted}\n"
    )
    return path


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def port(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """One node, for all tests that leave it as it is."""
    ports = free_ports(2)
    with Nodes(tmp_path_factory.mktemp("nodes"), CLUSTER_ID) as nodes:
        nodes.start("tidelog", secured(authority, 1, ports[0], ports[1]), *USERS)
        until(lambda: alive(client_of(authority, ports[0], "PLAIN")) == {1}, within_s=60)
        yield ports[0]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in_by_every_mechanism(
    port: int, authority: Authority, mechanism: str
) -> None:
    write_and_read(client_of(authority, port, mechanism), 1, f"librdkafka.{mechanism}")


def test_librdkafka_with_a_wrong_password_is_told_so(port: int, authority: Authority) -> None:
    told: list[str] = []
    client = {
        **client_of(authority, port, "SCRAM-SHA-512", "guess"),
        "error_cb": lambda error: told.append(str(error)),
    }
    producer = Producer(client)
    until(lambda: producer.poll(0.1) >= 0 and bool(told), within_s=20)
    assert any("invalid credentials" in each for each in told), told


def test_a_producer_lives_longer_than_its_session(port: int, authority: Authority) -> None:
    producer = Producer({**client_of(authority, port, "SCRAM-SHA-256"), "acks": "all"})
    failed: list[object] = []
    for number in range(24):
        producer.produce(
            "librdkafka.session",
            b"%d" % number,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.flush(10)
        producer.poll(0.25)
    assert failed == []


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in_by_every_mechanism(
    port: int, authority: Authority, mechanism: str
) -> None:
    from aiokafka.helpers import create_ssl_context

    async def scenario() -> None:
        common = {
            "bootstrap_servers": f"127.0.0.1:{port}",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": "alice-secret",
            "ssl_context": create_ssl_context(cafile=str(authority.trusted)),
        }
        topic = f"aiokafka.{mechanism}"
        async with aiokafka.AIOKafkaProducer(**common) as producer:
            sent = await producer.send_and_wait(topic, b"tide")
        async with aiokafka.AIOKafkaConsumer(
            topic, auto_offset_reset="earliest", **common
        ) as consumer:
            read = await consumer.getone()
        assert (read.offset, read.value) == (sent.offset, b"tide")

    asyncio.run(scenario())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in_by_every_mechanism(
    port: int, authority: Authority, mechanism: str
) -> None:
    client = {
        "bootstrap_servers": f"127.0.0.1:{port}",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": "alice-secret",
        "ssl_cafile": str(authority.trusted),
    }
    # A process of its own: the library warns of itself, and warnings are errors here.
    script = (
        f"import kafka; producer = kafka.KafkaProducer(**{client!r}); "
        f"print(producer.send('kafka-python.{mechanism}', b'tide').get(timeout=20).offset)"
    )
    sent = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert sent.stdout.strip() == "0"


def test_kafkas_own_tools_log_in_and_change_credentials(
    port: int, authority: Authority, java: Java, tmp_path: Path
) -> None:
    config = str(properties(authority, tmp_path))
    where = ("--bootstrap-server", f"127.0.0.1:{port}", "--command-config", config)
    created = ("--create", "--topic", "java", "--partitions", "2", "--replication-factor", "1")
    java("org.apache.kafka.tools.TopicCommand", *where, *created)
    assert "java" in java("org.apache.kafka.tools.TopicCommand", *where, "--list").split()
    configs = "kafka.admin.ConfigCommand"
    user = ("--entity-type", "users", "--entity-name", "carol")
    added = "SCRAM-SHA-256=[iterations=8192,password=carol-secret]"
    java(configs, *where, "--alter", *user, "--add-config", added)
    admin = AdminClient(client_of(authority, port, "PLAIN"))
    described = admin.describe_user_scram_credentials(["carol"])["carol"].result(20)
    (known,) = described.scram_credential_infos
    assert (known.mechanism, known.iterations) == (ScramMechanism.SCRAM_SHA_256, 8192)
    carol = {
        **client_of(authority, port, "SCRAM-SHA-256", "carol-secret"),
        "sasl.username": "carol",
    }
    until(lambda: alive(carol) == {1}, within_s=20)
    java(configs, *where, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    until(lambda: alive(carol) == set(), within_s=20)


def tidelog(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidelog", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_own_commands_log_in(
    port: int, authority: Authority, tmp_path: Path, mechanism: str
) -> None:
    config = str(properties(authority, tmp_path, mechanism))
    where = ("--bootstrap", f"127.0.0.1:{port}", "--command-config", config)
    topic = f"ours.{mechanism}"
    assert tidelog("topics", "create", topic, *where).returncode == 0
    assert topic in tidelog("--command-config", config, "topics", "list", *where[:2]).stdout


def test_our_own_commands_say_why_they_are_not_let_in(
    port: int, authority: Authority, tmp_path: Path
) -> None:
    config = properties(authority, tmp_path)
    config.write_text(config.read_text().replace("alice-secret", "guess"))
    refused = tidelog(
        "topics", "list", "--bootstrap", f"127.0.0.1:{port}", "--command-config", str(config)
    )
    assert refused.returncode == 1
    assert "invalid credentials" in refused.stderr
    assert "guess" not in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("controller", ["tidelog", "apache"])
def test_brokers_of_both_kinds_log_in_with_each_other(
    authority: Authority, tmp_path: Path, controller: str
) -> None:
    ports = free_ports(3)
    with Nodes(tmp_path, CLUSTER_ID) as nodes:
        nodes.start(controller, secured(authority, 1, 0, ports[0], "controller"), *USERS)
        nodes.start("tidelog", secured(authority, 2, ports[1], ports[0], "broker"))
        nodes.start("apache", secured(authority, 3, ports[2], ports[0], "broker"))
        client = client_of(authority, ports[1], "SCRAM-SHA-512")
        until(lambda: alive(client) == {2, 3}, within_s=90)
        other = client_of(authority, ports[2], "SCRAM-SHA-512")
        until(lambda: alive(other) == {2, 3}, within_s=60)
        write_and_read(client, 2, "mixed")
