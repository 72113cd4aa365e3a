"""Quotas as stock clients, Kafka's tools and a live Apache Kafka see them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.raw import Peer, batch_of, header, until
from tests.integration.resident import Resident
from tests.integration.told_answers import told
from tests.spark.apache_kafka import apache_kafka

from tidelog.client.blocking import Client
from tidelog.client.quotas import alter_quotas
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.produce import decode_produce_response, encode_produce
from tidelog.testing.cluster import Cluster

Java = Callable[..., str]
CONFIGS = "kafka.admin.ConfigCommand"
JARS = Path(__file__).parents[2] / ".cache" / "java" / "tools"
RATE = 200_000
"""Bytes in a second."""
WINDOWS_S = 10
FOR_S = 8.0
VALUE = b"x" * 10_000


# Stock clients


def send_for(producer: Producer, topic: str, seconds: float) -> tuple[int, list[Any]]:
    """Produce as fast as it goes; how many bytes were acknowledged, and what failed."""
    delivered, failed = 0, []

    def on_delivery(error: Any, message: Any) -> None:
        nonlocal delivered
        if error is None:
            delivered += len(message.value())
        else:
            failed.append(error)

    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            producer.produce(topic, VALUE, on_delivery=on_delivery)
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
    reached = delivered
    producer.flush(60)
    return reached, failed


def test_a_stock_producer_and_consumer_are_slowed_down_to_their_quotas_without_an_error(
    own_cluster: Cluster, topic: str
) -> None:
    bootstrap = own_cluster.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    with Client(bootstrap) as client:
        alter_quotas(
            client,
            {"client-id": "slow"},
            {"producer_byte_rate": RATE, "consumer_byte_rate": RATE},
        )
    throttled_ms: list[float] = []
    common = {
        "bootstrap.servers": bootstrap,
        "client.id": "slow",
        "throttle_cb": lambda event: throttled_ms.append(event.throttle_time),
    }
    producer = Producer(
        {**common, "queue.buffering.max.messages": 40, "batch.size": 100_000, "linger.ms": 5}
    )
    reached, failed = send_for(producer, topic, FOR_S)
    assert failed == []
    assert throttled_ms
    # At once as much as all windows allow, and one request more; then as much as the rate allows.
    allowed = RATE * (FOR_S + WINDOWS_S)
    assert 0.4 * allowed < reached < 1.3 * allowed

    throttled_ms.clear()
    unbound = Producer({"bootstrap.servers": bootstrap, "client.id": "quick"})
    for _ in range(500):
        unbound.produce(topic, VALUE)
    assert unbound.flush(30) == 0
    consumer = Consumer(
        {
            **common,
            "group.id": "slow",
            "auto.offset.reset": "earliest",
            "fetch.max.bytes": 300_000,
            "message.max.bytes": 200_000,
        }
    )
    consumer.subscribe([topic])
    assert consumer.poll(30) is not None
    begun, read = time.monotonic(), 0
    while time.monotonic() - begun < FOR_S:
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None
            read += len(message.value())
    consumer.close()
    assert throttled_ms
    assert 0.3 * allowed < read < 1.3 * allowed


# Kafka's tools


def test_kafka_configs_sets_describes_and_deletes_quotas(
    java: Java, resident: Resident, own_cluster: Cluster
) -> None:
    server = ("--bootstrap-server", own_cluster.bootstrap)

    def described(entity: tuple[str, ...]) -> str:
        """Of a user the tool also asks for its credentials, which is another matter."""
        return resident.run(JARS, CONFIGS, *server, "--describe", *entity).stdout

    for entity, quota in (
        (("--entity-type", "users", "--entity-name", "ann"), "producer_byte_rate=1024"),
        (("--entity-type", "users", "--entity-default"), "request_percentage=12.5"),
        (("--entity-type", "clients", "--entity-name", "app"), "consumer_byte_rate=2048"),
        (
            (
                "--entity-type",
                "users",
                "--entity-name",
                "ann",
                "--entity-type",
                "clients",
                "--entity-default",
            ),
            "controller_mutation_rate=3.0",
        ),
        (("--entity-type", "ips", "--entity-name", "10.0.0.1"), "connection_creation_rate=7"),
        (("--entity-type", "ips", "--entity-default"), "connection_creation_rate=70"),
    ):
        java(CONFIGS, *server, "--alter", *entity, "--add-config", quota)
        key, _, value = quota.partition("=")
        assert f"{key}={float(value)}" in described(entity)
        java(CONFIGS, *server, "--alter", *entity, "--delete-config", key)
        assert key not in described(entity)


# Apache Kafka as judge


class Judged:
    """A broker with a topic, and nobody else's traffic."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(20)

    def ask(self, key: ApiKey, version: int, **fields: Any) -> Any:
        with Peer(self.bootstrap, timeout_s=30) as peer:
            return peer.call(key, version, fields)

    def described(self) -> object:
        """All quotas, as far as the broker has heard of them."""
        return told(self.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False))

    def alter(self, version: int, *entries: Mapping[str, Any], validate_only: bool = False) -> Any:
        return self.ask(
            ApiKey.ALTER_CLIENT_QUOTAS, version, entries=entries, validate_only=validate_only
        )


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Judged, Judged]]:
    with (
        apache_kafka(tmp_path_factory.mktemp("apache")) as apache,
        Cluster(tmp_path_factory.mktemp("tidelog")) as cluster,
    ):
        yield Judged(apache.bootstrap), Judged(cluster.bootstrap)


def entry(entity: Mapping[str, str | None], ops: Mapping[str, float | None]) -> Mapping[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in ops.items()
        ],
    }


ALTERATIONS = (
    [entry({"user": "ann"}, {"producer_byte_rate": 1000.0, "request_percentage": 0.5})],
    [entry({"user": None}, {"consumer_byte_rate": 7.0})],
    [entry({"user": "ann", "client-id": None}, {"controller_mutation_rate": 0.25})],
    [entry({"client-id": "app"}, {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0})],
    [entry({"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0})],
    [entry({"ip": None}, {"connection_creation_rate": 50.0})],
    [entry({"client-id": "app"}, {"producer_byte_rate": None, "request_percentage": None})],
    [entry({}, {"producer_byte_rate": 1.0})],
    [entry({"user": ""}, {"producer_byte_rate": 1.0})],
    [entry({"group": "g"}, {"producer_byte_rate": 1.0})],
    [entry({"user": "ann", "ip": "10.0.0.1"}, {"producer_byte_rate": 1.0})],
    [entry({"user": "bob"}, {"no_such": 1.0})],
    [entry({"user": "bob"}, {"producer_byte_rate": 0.0})],
    [entry({"user": "bob"}, {"producer_byte_rate": -1.0})],
    [entry({"user": "bob"}, {"producer_byte_rate": 1.5})],
    [entry({"user": "bob"}, {"producer_byte_rate": 1e30})],
    [entry({"user": "bob"}, {"connection_creation_rate": 1.0})],
    [entry({"ip": "10.0.0.1"}, {"connection_creation_rate": 1e10})],
    [entry({"ip": "10.0.0.1"}, {"producer_byte_rate": 1.0})],
    [
        entry({"user": "bob"}, {"producer_byte_rate": 1.0, "consumer_byte_rate": 0.0}),
        entry({"user": "cat"}, {"producer_byte_rate": 1.0}),
    ],
    [
        entry({"user": "dan"}, {"producer_byte_rate": 1.0}),
        entry({"user": "dan"}, {"producer_byte_rate": 2.0}),
    ],
)
FILTERS: tuple[tuple[tuple[str, int, str | None], ...], ...] = (
    (),
    (("user", 0, "ann"),),
    (("user", 0, "nobody"),),
    (("user", 1, None),),
    (("user", 2, None),),
    (("client-id", 2, None),),
    (("user", 2, None), ("client-id", 1, None)),
    (("ip", 0, "10.0.0.1"),),
    (("ip", 1, None),),
    (("ip", 2, None),),
    (("ip", 2, None), ("user", 2, None)),
    (("user", 0, None),),
    (("user", 1, "ann"),),
    (("user", 2, "ann"),),
    (("user", 9, None),),
    (("user", 2, None), ("user", 2, None)),
    (("group", 2, None),),
    (("", 2, None),),
)


def test_quotas_are_altered_and_described_as_apache_kafka_does(
    brokers: tuple[Judged, Judged],
) -> None:
    for version in (0, 1):
        for entries in ALTERATIONS:
            for validate_only in (True, False):
                there, here = (
                    told(each.alter(version, *entries, validate_only=validate_only))
                    for each in brokers
                )
                assert here == there, entries
        until(lambda: len({repr(each.described()) for each in brokers}) == 1)
        for filters in FILTERS:
            components = [
                {"entity_type": kind, "match_type": how, "match": match}
                for kind, how, match in filters
            ]
            for strict in (True, False):
                there, here = (
                    told(
                        each.ask(
                            ApiKey.DESCRIBE_CLIENT_QUOTAS,
                            version,
                            components=components,
                            strict=strict,
                        )
                    )
                    for each in brokers
                )
                assert here == there, f"version {version}: {filters}, strict {strict}"
    for each in brokers:
        for entity in ({"user": None}, {"ip": None}):
            keys = ("consumer_byte_rate", "connection_creation_rate")
            each.alter(1, entry(entity, dict.fromkeys(keys)))


def test_throttle_times_are_those_of_apache_kafka(brokers: tuple[Judged, Judged]) -> None:
    told_ms = {each: throttle_times(each) for each in brokers}
    apache, tidelog = brokers
    for what, there_ms in told_ms[apache].items():
        assert told_ms[tidelog][what] == pytest.approx(there_ms, abs=60), what
    assert told_ms[tidelog]["produce"] > 9_000
    assert told_ms[tidelog]["create"] > 900


def throttle_times(broker: Judged) -> dict[str, float]:
    """What a client that has done nothing before is told for twice of what it may do."""
    quotas = {
        "producer_byte_rate": 10_000.0,
        "consumer_byte_rate": 10_000.0,
        "controller_mutation_rate": 1.0,
    }
    broker.alter(1, entry({"client-id": "raw"}, quotas))
    until(lambda: "raw" in repr(broker.described()))
    batch = batch_of(b"x" * 200_000)
    body = encode_produce(9, None, 1, 30_000, [("orders", None, [(0, batch)])])
    with Peer(broker.bootstrap, timeout_s=30) as peer:
        produced = decode_produce_response(peer.ask(header(ApiKey.PRODUCE, 9) + body), 9)
    assert produced.topics[0].partitions[0].error == 0
    created = broker.ask(
        ApiKey.CREATE_TOPICS,
        7,
        topics=[
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": 1,
                "assignments": [],
                "configs": [],
            }
            for name, partitions in (("many", 12), ("one", 1))
        ],
        timeout=timedelta(seconds=30),
        validate_only=False,
    )
    codes = {topic.name: topic.error_code for topic in created.topics}
    assert codes == {"many": 0, "one": ErrorCode.throttling_quota_exceeded}
    return {
        "produce": produced.throttle_ms,
        "create": created.throttle_time.total_seconds() * 1000,
    }
