"""Apache Kafka's own `kafka-acls`, and stock clients, against brokers with access control."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from tests.integration.conftest import Java
from tests.integration.raw import until

from tidelog.client.acls import Acls
from tidelog.client.blocking import Client
from tidelog.model.settings.access import STANDARD_AUTHORIZER
from tidelog.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from tidelog.testing.cluster import Cluster

ACLS = "org.apache.kafka.tools.AclCommand"
ALL, LITERAL, ALLOW = AclOperation.ALL, PatternType.LITERAL, AclPermission.ALLOW
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers and a controller; everybody may do all to the cluster and to groups, and to
    topics whatever rules say of them."""
    with Cluster(
        tmp_path_factory.mktemp("cluster"), brokers=2, controllers=1, settings=SETTINGS
    ) as running:
        with Client(running.bootstrap) as client:
            Acls(client).create(
                [
                    Acl(kind, name, LITERAL, "User:ANONYMOUS", "*", ALL, ALLOW)
                    for kind, name in (
                        (ResourceType.CLUSTER, CLUSTER_NAME),
                        (ResourceType.GROUP, "*"),
                        (ResourceType.TOPIC, "__consumer_offsets"),
                    )
                ]
            )
        yield running


def test_kafka_acls_adds_lists_and_removes(cluster: Cluster, java: Java) -> None:
    where = ("--bootstrap-server", cluster.bootstrap)
    for_alice = ("--allow-principal", "User:alice", "--allow-host", "10.0.0.1")
    java(ACLS, *where, "--add", *for_alice, "--producer", "--topic", "tools")
    java(ACLS, *where, "--add", *for_alice, "--consumer", "--topic", "tools", "--group", "readers")
    java(
        ACLS,
        *(*where, "--add", "--deny-principal", "User:bob", "--operation", "All"),
        *("--topic", "too", "--resource-pattern-type", "prefixed"),
    )
    shown = java(ACLS, *where, "--list", "--topic", "tools", "--resource-pattern-type", "match")
    for words in (
        "ResourcePattern(resourceType=TOPIC, name=tools, patternType=LITERAL)",
        "(principal=User:alice, host=10.0.0.1, operation=WRITE, permissionType=ALLOW)",
        "(principal=User:alice, host=10.0.0.1, operation=READ, permissionType=ALLOW)",
        "ResourcePattern(resourceType=TOPIC, name=too, patternType=PREFIXED)",
        "(principal=User:bob, host=*, operation=ALL, permissionType=DENY)",
    ):
        assert words in shown, shown
    java(ACLS, *where, "--remove", "--force", "--topic", "tools")
    shown = java(ACLS, *where, "--list", "--topic", "tools")
    assert "operation=WRITE" not in shown
    assert "readers" in java(ACLS, *where, "--list", "--principal", "User:alice")


def test_a_rule_of_kafka_acls_lets_a_stock_client_write_and_read_and_another_stops_it(
    cluster: Cluster, java: Java
) -> None:
    where = ("--bootstrap-server", cluster.bootstrap)
    anonymous = ("--allow-principal", "User:ANONYMOUS")
    # A rule for somebody else is enough for the topic not to be open to all.
    java(ACLS, *where, "--add", "--allow-principal", "User:alice", "--topic", "allowed")
    assert produced(cluster, "allowed") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    java(ACLS, *where, "--add", *anonymous, "--producer", "--topic", "allowed")
    until(lambda: produced(cluster, "allowed") is None, within_s=30)
    assert consumed(cluster, "allowed") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    java(ACLS, *where, "--add", *anonymous, "--consumer", "--topic", "allowed", "--group", "g")
    until(lambda: consumed(cluster, "allowed") is None, within_s=30)
    java(
        ACLS,
        *(*where, "--add", "--deny-principal", "User:ANONYMOUS", "--operation", "Write"),
        *("--topic", "allowed"),
    )
    until(
        lambda: produced(cluster, "allowed") == KafkaError.TOPIC_AUTHORIZATION_FAILED, within_s=30
    )


def produced(cluster: Cluster, topic: str) -> int | None:
    """Why a record could not be written; None when it was."""
    errors: list[int | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 20_000})
    producer.produce(
        topic, b"v", on_delivery=lambda error, _: errors.append(error and error.code())
    )
    producer.flush(30)
    return errors[0]


def consumed(cluster: Cluster, topic: str) -> int | None:
    """Why nothing could be read; None when something was."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "g",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        message = consumer.poll(20)
        assert message is not None, "neither a record nor an error came"
        error = message.error()
        return None if error is None else int(error.code())
    finally:
        consumer.close()
