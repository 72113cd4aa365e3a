"""Apache Kafka's own configuration file, its settings, its tools for them, and its words."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from tests.integration.raw import Peer, Topic, until
from tests.integration.samples import sample_fields
from tests.spark.apache_kafka import apache_kafka

from tidelog.client.blocking import Client
from tidelog.client.errors import Unreachable
from tidelog.local.ports import free_ports
from tidelog.model.config import TOPIC_SETTINGS
from tidelog.model.settings.without_effect import refused_key
from tidelog.protocol.apis import ApiKey

Java = Callable[..., str]
CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
SERVER_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
"""The settings of config/server.properties in a distribution of Apache Kafka 4.3."""
WARNED_OF = [
    "num.network.threads",
    "num.io.threads",
    "num.recovery.threads.per.data.dir",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
]
TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND = 0, 1, 2
DEFAULT = 5
"""Where a value comes from that nobody gave."""
NOBODY = UUID(int=0x1234567890ABCDEF)


class Started(NamedTuple):
    """A node that was started with that file, and what it has said so far."""

    bootstrap: str
    log: Path


@pytest.fixture(scope="module")
def tidelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """`tidelog format` and `tidelog broker` with Apache Kafka's file, on ports that are free."""
    home = tmp_path_factory.mktemp("tidelog")
    port, controller_port = free_ports(2)
    text = SERVER_PROPERTIES.replace("9092", str(port)).replace("9093", str(controller_port))
    config = home / "server.properties"
    config.write_text(text.replace("/tmp/kraft-combined-logs", str(home / "data")))
    command = [sys.executable, "-m", "tidelog"]
    formatting = ["format", "--config", str(config), "--cluster-id", "AAAAAAAAAAAAAAAAAAAACg"]
    subprocess.run([*command, *formatting], check=True, capture_output=True)
    log = home / "node.log"
    with log.open("wb") as said:
        node = subprocess.Popen([*command, "broker", "--config", str(config)], stderr=said)
    try:
        until(lambda: answers(f"localhost:{port}"), within_s=30)
        yield Started(f"localhost:{port}", log)
    finally:
        node.terminate()
        assert node.wait(30) == 0


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apache_kafka(tmp_path_factory.mktemp("apache")) as kafka:
        yield kafka.bootstrap


def answers(bootstrap: str) -> bool:
    try:
        with Client(bootstrap) as client:
            return bool(client.refresh([]).brokers)
    except Unreachable:
        return False


def test_the_file_of_apache_kafka_starts_a_node_that_warns_once_of_each_idle_key(
    tidelog: Started,
) -> None:
    warnings = [line for line in tidelog.log.read_text().splitlines() if " warning: " in line]
    assert [line.split(" warning: ")[1].split()[0] for line in warnings] == WARNED_OF
    assert "has no effect: a node is one event loop" in warnings[0]


# -- settings ----------------------------------------------------------------------------------

DIFFERENT = {
    "advertised.listeners": "given in the file",
    "controller.listener.names": "has no default there",
    "controller.quorum.bootstrap.servers": "given",
    "listener.security.protocol.map": "a list here, in another order, and given",
    "listeners": "cannot change while a node runs",
    "log.dir": "must be given, here or as log.dirs",
    "log.dirs": "given",
    "node.id": "has no default there",
    "process.roles": "has no default there",
    "security.inter.broker.protocol": "unset, the first listener of brokers is the one",
}
READ_AT_START = ("sasl.", "ssl.")
"""Read when a node starts, and again when files change; per-broker there."""


def test_every_setting_of_apache_kafka_is_known_with_its_type_and_default_or_refused(
    apache: str, tidelog: Started
) -> None:
    there, here = (described(bootstrap, BROKER, "1") for bootstrap in (apache, tidelog.bootstrap))
    expected = {
        name: essence(setting)
        for name, setting in there.items()
        if refused_key(name) is None and name not in DIFFERENT
    }
    for name in expected:
        if name.startswith(READ_AT_START) and name in here and here[name].read_only:
            kind, _, default = expected[name]
            expected[name] = (kind, True, default)
    assert {name: essence(here[name]) for name in expected if name in here} == expected


def test_every_setting_of_topics_and_groups_is_known_with_its_type_and_default(
    apache: str, tidelog: Started
) -> None:
    for bootstrap in (apache, tidelog.bootstrap):
        call(bootstrap, created("described"))
    for kind in (TOPIC, GROUP):
        there = described(apache, kind, "described")
        here = described(tidelog.bootstrap, kind, "described")
        for name, ours in here.items():
            theirs = there[name]
            assert ours.config_type == theirs.config_type, name
            assert kind == GROUP or ours.value == theirs.value, name
    assert set(described(apache, TOPIC, "described")) == set(TOPIC_SETTINGS)


def described(bootstrap: str, kind: int, name: str) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    asked = {
        "resources": [resource],
        "include_synonyms": True,
        "include_documentation": False,
    }
    (found,) = call(bootstrap, (ApiKey.DESCRIBE_CONFIGS, asked)).results
    return {config.name: config for config in found.configs}


def essence(setting: Any) -> tuple[int, bool, str | None]:
    """Type, whether it can change while brokers run, and default."""
    default = next((each.value for each in setting.synonyms if each.source == DEFAULT), None)
    return setting.config_type, setting.read_only, default


def test_kafka_configs_changes_settings_of_brokers_and_is_told_why_not(
    tidelog: Started, java: Java
) -> None:
    wanted = (
        "num.replica.fetchers=2,log.cleaner.threads=2,background.threads=8,num.io.threads=4,"
        "max.connections=5000,producer.id.expiration.ms=100000,num.network.threads=4"
    )
    server = ("--bootstrap-server", tidelog.bootstrap, "--entity-type", "brokers")
    java(CONFIGS, *server, "--entity-default", "--alter", "--add-config", wanted)
    shown = java(CONFIGS, *server, "--entity-default", "--describe")
    for pair in wanted.split(","):
        assert f"{pair} " in shown
    with pytest.raises(AssertionError, match=r"\[log.dirs\]; it is read when a broker starts"):
        java(CONFIGS, *server, "--entity-name", "1", "--alter", "--add-config", "log.dirs=/tmp/a")


def test_a_limit_on_connections_that_is_changed_counts_at_once(tidelog: Started) -> None:
    with Peer(tidelog.bootstrap) as peer:
        altered = alter(BROKER, "1", ("max.connections.per.ip", SET, "1"))
        assert peer.call(altered[0], 1, altered[1]).responses[0].error_code == 0
        with Peer(tidelog.bootstrap) as turned_away:
            assert turned_away.hangs_up()
        restored = alter(BROKER, "1", ("max.connections.per.ip", DELETE, None))
        assert peer.call(restored[0], 1, restored[1]).responses[0].error_code == 0
    assert answers(tidelog.bootstrap)


# -- words -------------------------------------------------------------------------------------

Asked = tuple[ApiKey, Mapping[str, Any]]


def call(bootstrap: str, asked: Asked) -> Any:
    key, fields = asked
    with Peer(bootstrap, timeout_s=30) as peer:
        return peer.call(key, VERSIONS[key], fields)


VERSIONS = {
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1,
    ApiKey.CREATE_ACLS: 3,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_ACLS: 3,
    ApiKey.DELETE_TOPICS: 6,
    ApiKey.DESCRIBE_ACLS: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
}


def created(*names: str, partitions: int = 1, factor: int = 1, **more: Any) -> Asked:
    topics = [
        {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": factor,
            "assignments": [
                {"partition_index": index, "broker_ids": replicas}
                for index, replicas in more.get("assigned", ())
            ],
            "configs": [{"name": key, "value": value} for key, value in more.get("configs", ())],
        }
        for name in names
    ]
    return ApiKey.CREATE_TOPICS, {"topics": topics, "timeout": 10_000, "validate_only": False}


def deleted(*topics: tuple[str | None, UUID | None]) -> Asked:
    named = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
    return ApiKey.DELETE_TOPICS, {"topics": named, "timeout": 10_000}


def more_partitions(*topics: tuple[str, int, list[list[int]] | None]) -> Asked:
    wishes = [
        {
            "name": name,
            "count": count,
            "assignments": None if placed is None else [{"broker_ids": each} for each in placed],
        }
        for name, count, placed in topics
    ]
    return ApiKey.CREATE_PARTITIONS, {"topics": wishes, "timeout": 10_000, "validate_only": False}


def alter(kind: int, name: str, *changes: tuple[str, int, str | None], times: int = 1) -> Asked:
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    fields = {"resources": [resource] * times, "validate_only": False}
    return ApiKey.INCREMENTAL_ALTER_CONFIGS, fields


def reassigned(topic: str, partition: int, replicas: list[int] | None) -> Asked:
    partitions = [{"partition_index": partition, "replicas": replicas}]
    fields = {"timeout": 10_000, "topics": [{"name": topic, "partitions": partitions}]}
    return ApiKey.ALTER_PARTITION_REASSIGNMENTS, fields


def elected(topic: str, partition: int, kind: int = 0) -> Asked:
    named = [{"topic": topic, "partitions": [partition]}]
    fields = {"election_type": kind, "timeout": 10_000, "topic_partitions": named}
    return ApiKey.ELECT_LEADERS, fields


def describe(kind: int, name: str) -> Asked:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": ["none"]}
    asked = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    return ApiKey.DESCRIBE_CONFIGS, asked


SAME_WORDS: Mapping[str, Asked] = {
    "a topic": created("orders", "in.between", partitions=3),
    "a topic that is there": created("orders"),
    "too many replicas": created("a", factor=5),
    "no replicas": created("a", factor=0),
    "no partitions": created("a", partitions=0),
    "a bad character": created("a/b"),
    "an empty name": created(""),
    "two dots": created(".."),
    "a long name": created("x" * 250),
    "a name that collides": created("in_between"),
    "a topic named twice": created("twice", "twice"),
    "an unknown setting": created("a", configs=[("foo", "1")]),
    "a setting without a value": created("a", configs=[("retention.ms", None)]),
    "replicas and their number": created("a", partitions=-1, assigned=[(0, [1])]),
    "partitions and their number": created("a", factor=-1, assigned=[(0, [1])]),
    "a gap": created("a", partitions=-1, factor=-1, assigned=[(1, [1])]),
    "an unknown broker": created("a", partitions=-1, factor=-1, assigned=[(0, [77])]),
    "a broker twice": created("a", partitions=-1, factor=-1, assigned=[(0, [1, 1])]),
    "nobody": created("a", partitions=-1, factor=-1, assigned=[(0, [])]),
    "the metadata": created("__cluster_metadata"),
    "deletion of nothing": deleted(("nobody", None)),
    "deletion of no id": deleted((None, NOBODY)),
    "deletion by name and id": deleted(("orders", NOBODY)),
    "deletion of what": deleted((None, None)),
    "deletion named twice": deleted(("orders", None), ("orders", None)),
    "fewer partitions": more_partitions(("orders", 2, None)),
    "as many partitions": more_partitions(("orders", 3, None)),
    "partitions twice": more_partitions(("orders", 4, None), ("orders", 5, None)),
    "too few assignments": more_partitions(("orders", 5, [[1]])),
    "partitions on an unknown broker": more_partitions(("orders", 4, [[77]])),
    "partitions on nobody": more_partitions(("orders", 4, [[]])),
    "settings of no topic": alter(TOPIC, "nobody", ("retention.ms", SET, "1")),
    "an unknown setting of a topic": alter(TOPIC, "orders", ("foo", SET, "1")),
    "a list that is none": alter(TOPIC, "orders", ("retention.ms", APPEND, "1")),
    "no value": alter(TOPIC, "orders", ("retention.ms", SET, None)),
    "a setting twice": alter(
        TOPIC, "orders", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")
    ),
    "a resource twice": alter(TOPIC, "orders", ("retention.ms", SET, "1"), times=2),
    "throttled replicas": alter(
        TOPIC, "orders", ("leader.replication.throttled.replicas", SET, "0:1")
    ),
    "a throttle": alter(BROKER, "1", ("leader.replication.throttled.rate", SET, "1000")),
    "an unknown kind of resource": alter(5, "x", ("a", SET, "b")),
    "a broker that is no number": alter(BROKER, "abc", ("num.io.threads", SET, "4")),
    "an unknown setting of a group": alter(GROUP, "g", ("foo", SET, "1")),
    "a group without a name": alter(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
    "an assignment interval": alter(GROUP, "g", ("consumer.assignment.interval.ms", SET, "2000")),
    "an assignment interval of all": alter(
        BROKER, "", ("group.consumer.assignment.interval.ms", SET, "2000")
    ),
    "reassignment of nothing": reassigned("nobody", 0, [1]),
    "reassignment of no partition": reassigned("orders", 9, [1]),
    "reassignment to an unknown broker": reassigned("orders", 0, [77]),
    "reassignment to a broker twice": reassigned("orders", 0, [1, 1]),
    "reassignment to nobody": reassigned("orders", 0, []),
    "election in nothing": elected("nobody", 0),
    "election in no partition": elected("orders", 9),
    "election without need": elected("orders", 0),
    "unclean election without need": elected("orders", 0, 1),
    "an unknown election": elected("orders", 0, 7),
    "description of a bad name": describe(TOPIC, "a/b"),
    "description of another broker": describe(BROKER, "77"),
    "description of no group": describe(GROUP, ""),
    "no access rule": (ApiKey.CREATE_ACLS, {"creations": []}),
    **{
        f"access rules: {key.name}": (key, sample_fields(key, Topic("orders", None)))
        for key in (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
    },
}
"""Each in the state that those before it left."""
SAME_BEGINNING: Mapping[str, Asked] = {
    "no number": alter(TOPIC, "orders", ("retention.ms", SET, "x")),
    "out of range": alter(TOPIC, "orders", ("retention.ms", SET, "-7")),
    "no policy": created("a", configs=[("cleanup.policy", "shred")]),
    "a broker's value": alter(BROKER, "", ("num.io.threads", SET, "0")),
    "a throttle below zero": alter(BROKER, "1", ("leader.replication.throttled.rate", SET, "-5")),
    "read-only": alter(BROKER, "1", ("log.dirs", SET, "/tmp/a")),
    "read-only for all": alter(BROKER, "", ("log.dirs", SET, "/tmp/a")),
}
"""Where the rest says more here: the same up to the colon, or to the bracket that closes."""


def test_refusals_have_the_codes_and_the_words_of_apache_kafka(
    apache: str, tidelog: Started
) -> None:
    for what, asked in SAME_WORDS.items():
        expected = words(call(apache, asked))
        assert words(call(tidelog.bootstrap, asked)) == expected, what
    for what, asked in SAME_BEGINNING.items():
        (code, said), (our_code, ours) = (
            words(call(bootstrap, asked))[0] for bootstrap in (apache, tidelog.bootstrap)
        )
        assert said and ours and our_code == code, what
        end = "]" if "[" in said else ": "
        assert ours.partition(end)[:2] == said.partition(end)[:2], what


def words(answer: Any) -> list[tuple[int, str | None]]:
    """Every error code of an answer with its message, which may be empty for none."""
    found = []
    if hasattr(answer, "error_code"):
        found.append((int(answer.error_code), getattr(answer, "error_message", None) or None))
    for name in getattr(answer, "__dataclass_fields__", ()):
        part = getattr(answer, name)
        for each in part if isinstance(part, tuple) else (part,):
            found += words(each)
    return found


def test_kafka_acls_is_told_that_there_is_no_authorizer(tidelog: Started, java: Java) -> None:
    with pytest.raises(AssertionError, match="SecurityDisabledException: No Authorizer"):
        java(ACLS, "--bootstrap-server", tidelog.bootstrap, "--list")
