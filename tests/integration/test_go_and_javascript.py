"""Clients in Go (franz-go) and JavaScript (kafkajs), each a program of its own.

Both read in a group; it has a coordinator that may be killed with SIGKILL in the middle.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient
from tests.integration.group_reader import create_topic
from tests.integration.raw import until
from tests.integration.test_group_failover import SETTINGS, coordinators

from tidelog.coordinator.internal_topics import partition_of
from tidelog.testing.cluster import Cluster

CLIENTS = Path(__file__).parents[2] / ".cache" / "clients"
PROGRAMS = {
    "go": [str(CLIENTS / "everyday-go")],
    "javascript": ["node", str(CLIENTS / "js" / "everyday.mjs")],
}


GROUPS = {"go": "go-group", "javascript": "js-group"}
PATIENCE_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), brokers=3, settings=SETTINGS) as running:
        yield running


def begin(cluster: Cluster, language: str, topic: str) -> subprocess.Popen[str]:
    """Start the program on topics of its own."""
    for name in (topic, f"{topic}-transactions"):
        create_topic(cluster.bootstrap, name, 4, 3)
    return subprocess.Popen(
        [*PROGRAMS[language], cluster.bootstrap, topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def progress(admin: AdminClient, group: str, topic: str) -> int:
    """How many records of the topic the group has committed."""
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    try:
        found = asked[group].result(20).topic_partitions
    except KafkaException:  # there is no coordinator yet
        return 0
    return sum(each.offset for each in found if each.topic == topic and each.offset > 0)


def ends_well(program: subprocess.Popen[str]) -> None:
    try:
        said, problems = program.communicate(timeout=PATIENCE_S)
    finally:
        program.kill()
    assert program.returncode == 0, problems
    assert said == "well\n"


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_client_does_its_everyday_work(cluster: Cluster, language: str) -> None:
    ends_well(begin(cluster, language, f"from-{language}"))


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_client_goes_through_the_death_of_its_coordinator(
    cluster: Cluster, language: str
) -> None:
    group, topic = GROUPS[language], f"failing-{language}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    assert progress(admin, group, topic) == 0  # whoever asks first makes the offsets topic
    leaders = coordinators(cluster.bootstrap)
    place = partition_of(group, len(leaders))
    program = begin(cluster, language, topic)
    until(lambda: progress(admin, group, topic) > 0, within_s=40)

    cluster.kill(leaders[place])
    until(lambda: coordinators(cluster.bootstrap)[place] != leaders[place], within_s=40)
    cluster.start(leaders[place])

    ends_well(program)
