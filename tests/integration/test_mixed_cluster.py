"""Apache Kafka and Tidelog in one cluster: brokers of either kind follow controllers of either."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.fetch_relay import FetchRelay
from tests.integration.metadata import metadata
from tests.integration.raw import Peer, until

from tidelog.client.acls import Acls
from tidelog.client.blocking import Client
from tidelog.local.ports import free_ports
from tidelog.model.errors import ErrorCode
from tidelog.model.settings.access import STANDARD_AUTHORIZER
from tidelog.protocol.apis import ApiKey
from tidelog.security.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from tidelog.testing.cluster import Cluster

JARS = Path(__file__).parents[2] / ".cache" / "java" / "tools"
TRANSACTIONAL_WORK = Path(__file__).parents[1] / "java" / "TransactionalWork.java"
TOPIC = "mixed"
PARTITIONS = 8
"""Enough for every fetcher of a broker that has several to have some."""
RECORDS = 1000

ACCESS_CONTROL = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
}
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
NOT_YET = ("share.version", "streams.version")
"""Features of Apache Kafka that our brokers do not support, so a common cluster goes without."""

Settings = Mapping[str, str]
Run = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def run() -> Iterator[Run]:
    """Formats and starts nodes that are gone after the test."""
    with ExitStack() as cleanup:

        def start(
            kind: str, home: Path, settings: Settings, cluster_id: str = CLUSTER_ID
        ) -> subprocess.Popen[bytes]:
            home.mkdir()
            config = home / "node.properties"
            config.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
            commands = apache if kind == "apache" else tidelog
            formatting, running = commands(config, settings, cluster_id)
            subprocess.run(formatting, check=True, capture_output=True, timeout=60)
            log = cleanup.enter_context((home / "node.log").open("wb"))
            process = subprocess.Popen(running, stdout=log, stderr=log)
            cleanup.callback(process.wait)
            cleanup.callback(process.kill)
            return process

        yield start


def apache(config: Path, settings: Settings, cluster_id: str) -> tuple[list[str], list[str]]:
    java = ["java", "-Xmx400m", "-cp", f"{JARS}/*"]
    formatting = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(config)]
    if "controller" in settings["process.roles"]:
        formatting.append("--standalone")
        for feature in NOT_YET:
            formatting += ["--feature", f"{feature}=0"]
    return formatting, [*java, "kafka.Kafka", str(config)]


def tidelog(config: Path, settings: Settings, cluster_id: str) -> tuple[list[str], list[str]]:
    tidelog = [sys.executable, "-m", "tidelog"]
    formatting = [*tidelog, "format", "--config", str(config), "--cluster-id", cluster_id]
    return formatting, [*tidelog, "broker", "--config", str(config)]


def broker_settings(node_id: int, home: Path, port: int, controller: str) -> dict[str, str]:
    return {
        "process.roles": "broker",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.bootstrap.servers": controller,
        "log.dirs": str(home / "data"),
    }


def admin_of(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def brokers(bootstrap: str) -> list[int]:
    """The brokers one of them knows; none while it does not answer."""
    try:
        return sorted(admin_of(bootstrap).list_topics(timeout=5).brokers)
    except KafkaException:
        return []


def leaders(bootstrap: str) -> set[int]:
    topic = metadata(admin_of(bootstrap), TOPIC).topics[TOPIC]
    return {partition.leader for partition in topic.partitions.values()}


def create_and_fill(through: str) -> None:
    """Create a topic through one broker, and let all its replicas hold the same records."""
    admin = admin_of(through)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 2)])[TOPIC].result(30)
    until(lambda: TOPIC in metadata(admin).topics)
    producer = Producer({"bootstrap.servers": through, "acks": "all", "log_level": 0})
    failed: list[str] = []
    for number in range(RECORDS):
        producer.produce(
            TOPIC,
            b"%d" % number,
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: failed.append(str(error)) if error else None,
        )
        producer.poll(0)
    assert producer.flush(30) == 0
    assert failed == []


def replicas_are_equal(one: Path, other: Path) -> bool:
    name = "00000000000000000000.log"
    return all(
        (one / f"{TOPIC}-{index}" / name).read_bytes()
        == (other / f"{TOPIC}-{index}" / name).read_bytes()
        for index in range(PARTITIONS)
    )


def test_a_broker_of_apache_kafka_joins_our_controller(tmp_path: Path, run: Run) -> None:
    [port] = free_ports(1)
    with (
        FetchRelay() as relay,
        Cluster(
            tmp_path / "ours",
            settings={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{relay.port}"},
        ) as ours,
    ):
        host, our_port = ours.bootstrap.split(":")
        relay.target = (host, int(our_port))
        controller = ours.local.descriptions[100].controller_listener
        assert controller is not None
        theirs, where = tmp_path / "apache", f"127.0.0.1:{port}"
        settings = broker_settings(102, theirs, port, controller)
        settings["num.replica.fetchers"] = "4"
        broker = run("apache", theirs, settings, ours.cluster_id)
        until(lambda: brokers(where) == [100, 102], within_s=60)
        create_and_fill(through=where)
        assert leaders(ours.bootstrap) == {100, 102}
        until(lambda: replicas_are_equal(ours.data(100), theirs / "data"))
        broker.terminate()
        broker.wait(60)
        assert leaders(ours.bootstrap) == {100}
        lines = (ours.data(100) / "events.jsonl").read_text().splitlines()
        told = [(each["event"], each.get("broker_id")) for each in map(json.loads, lines)]
        assert ("BrokerShuttingDown", 102) in told
        assert ("BrokerFenced", 102) in told
        assert set(relay.errors) == {0}
        assert len(relay.sessions) > 1, "its fetchers have sessions of their own"


def test_our_broker_joins_a_controller_of_apache_kafka(tmp_path: Path, run: Run) -> None:
    port, controller_port, our_port = free_ports(3)
    theirs, ours = tmp_path / "apache", tmp_path / "ours"
    controller, where = f"127.0.0.1:{controller_port}", f"127.0.0.1:{port}"
    settings = broker_settings(200, theirs, port, controller)
    settings["process.roles"] = "broker,controller"
    settings["listeners"] += f",CONTROLLER://{controller}"
    run("apache", theirs, settings)
    until(lambda: brokers(where) == [200], within_s=60)
    broker = run("tidelog", ours, broker_settings(101, ours, our_port, controller))
    until(lambda: brokers(f"127.0.0.1:{our_port}") == [101, 200], within_s=30)
    create_and_fill(through=f"127.0.0.1:{our_port}")
    assert leaders(where) == {101, 200}
    until(lambda: replicas_are_equal(theirs / "data", ours / "data"))
    broker.terminate()
    assert broker.wait(60) == 0
    assert leaders(where) == {200}


def denied_at(bootstrap: str, source: str) -> bool:
    """Whether somebody at that address may not even describe the topic there."""
    with Peer(bootstrap, source=source) as peer:
        asked = {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}
        [topic] = peer.call(ApiKey.METADATA, 8, asked).topics
        return bool(topic.error_code is ErrorCode.topic_authorization_failed)


def has_rules(bootstrap: str, rules: list[Acl]) -> bool:
    with Client(bootstrap) as client:
        return Acls(client).find(AclFilter()) == rules


@pytest.mark.parametrize("kinds", [("apache", "tidelog"), ("tidelog", "apache")])
def test_a_rule_holds_on_brokers_of_both_kinds_whoever_made_it(
    tmp_path: Path, run: Run, kinds: tuple[str, str]
) -> None:
    port, controller_port, other_port = free_ports(3)
    controller = f"127.0.0.1:{controller_port}"
    one, other = f"127.0.0.1:{port}", f"127.0.0.1:{other_port}"
    settings = {**broker_settings(200, tmp_path / "one", port, controller), **ACCESS_CONTROL}
    settings["process.roles"] = "broker,controller"
    settings["listeners"] += f",CONTROLLER://{controller}"
    run(kinds[0], tmp_path / "one", settings)
    until(lambda: brokers(one) == [200], within_s=60)
    beside = {**broker_settings(101, tmp_path / "other", other_port, controller), **ACCESS_CONTROL}
    run(kinds[1], tmp_path / "other", beside)
    until(lambda: brokers(other) == [101, 200], within_s=60)
    admin = admin_of(one)
    admin.create_topics([NewTopic(TOPIC, 1, 2)])[TOPIC].result(30)
    home, stranger = "127.0.0.1", "127.0.0.2"
    rules = [
        Acl(
            ResourceType.TOPIC,
            name,
            pattern,
            "User:ANONYMOUS",
            host,
            AclOperation.ALL,
            permission,
        )
        for name, pattern, host, permission in (
            (TOPIC, PatternType.LITERAL, home, AclPermission.ALLOW),
            (TOPIC[:3], PatternType.PREFIXED, stranger, AclPermission.DENY),
        )
    ]
    for through, rule in zip((other, one), rules, strict=True):
        with Client(through) as client:
            Acls(client).create([rule])
    for bootstrap in (one, other):
        until(partial(has_rules, bootstrap, sorted(rules)))
        assert denied_at(bootstrap, stranger)
        assert not denied_at(bootstrap, home)
    with Client(other) as client:
        assert Acls(client).delete([AclFilter()]) == sorted(rules)
    for bootstrap in (one, other):
        until(partial(has_rules, bootstrap, []))
        assert not denied_at(bootstrap, stranger)


def test_transactions_span_brokers_of_both_kinds(
    tmp_path: Path, run: Run, java: Callable[..., str]
) -> None:
    port, controller_port, our_port = free_ports(3)
    theirs, ours = tmp_path / "apache", tmp_path / "ours"
    controller, where = f"127.0.0.1:{controller_port}", f"127.0.0.1:{port}"
    internal = {
        "transaction.state.log.num.partitions": "6",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
        "offsets.topic.num.partitions": "6",
        "offsets.topic.replication.factor": "2",
    }
    settings = {**broker_settings(200, theirs, port, controller), **internal}
    settings["process.roles"] = "broker,controller"
    settings["listeners"] += f",CONTROLLER://{controller}"
    run("apache", theirs, settings)
    until(lambda: brokers(where) == [200], within_s=60)
    run("tidelog", ours, {**broker_settings(101, ours, our_port, controller), **internal})
    until(lambda: brokers(f"127.0.0.1:{our_port}") == [101, 200], within_s=30)

    for name in ("one", "two", "three"):
        said = java(str(TRANSACTIONAL_WORK), f"127.0.0.1:{our_port}", name)
        assert said.splitlines()[-1] == "all done"

    state = metadata(admin_of(where), "__transaction_state")
    partitions = state.topics["__transaction_state"].partitions.values()
    assert {partition.leader for partition in partitions} == {101, 200}
