"""Consumer groups with the clients and tools people use, on one broker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import ConsumerGroupType
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

from tidelog.testing.cluster import Cluster

Java = Callable[..., str]
GROUP_WORK = Path(__file__).parents[1] / "java" / "GroupWork.java"
KAFKA_PYTHON = Path(__file__).with_name("kafka_python_group.py")
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DUMP = "org.apache.kafka.tools.DumpLogSegments"


def test_members_come_and_go_and_the_group_goes_on(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 4)
    sent = produce(bootstrap, topic, 0, 400, 4)
    first = classic(bootstrap, topic, topic)
    poll_until([first], lambda: first.read.keys() == sent)
    first.commit()
    second = classic(bootstrap, topic, topic)
    share([first, second], 2, 2)
    more = produce(bootstrap, topic, 400, 400, 4)
    poll_until([first, second], lambda: (first.read + second.read).keys() == sent | more)
    assert set((first.read + second.read).values()) == {1}
    for reader in (first, second):
        reader.commit()
    second.close()
    share([first], 4)
    first.close()
    assert committed(bootstrap, topic) == dict.fromkeys(range(4), 200)


def test_cooperative_members_keep_reading_what_stays_theirs(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 4)
    how = {"partition_assignment_strategy": "cooperative-sticky"}
    first = classic(bootstrap, topic, topic, **how)
    share([first], 4)
    second = classic(bootstrap, topic, topic, **how)
    share([first, second], 2, 2)
    for reader in (first, second):
        reader.close()


def test_a_static_member_is_back_without_a_rebalance(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    static = classic(bootstrap, topic, topic, group_instance_id="one")
    other = classic(bootstrap, topic, topic, group_instance_id="two")
    share([static, other], 1, 1)
    static.close()
    back = classic(bootstrap, topic, topic, group_instance_id="one")
    poll_until([back], lambda: back.partitions == 1)
    assert other.partitions == 1
    for reader in (back, other):
        reader.close()


def test_members_of_the_consumer_protocol_share_by_the_brokers_assignment(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 4)
    sent = produce(bootstrap, topic, 0, 100, 4)
    first = consumer_protocol(bootstrap, topic, f"^{topic}.*")
    poll_until([first], lambda: first.read.keys() == sent)
    first.commit()
    second = consumer_protocol(bootstrap, topic, topic)
    share([first, second], 2, 2)
    second.close()
    share([first], 4)
    first.close()
    assert committed(bootstrap, topic) == dict.fromkeys(range(4), 25)


def test_a_group_changes_its_protocol_while_it_reads(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 4)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def kind() -> Any:
        return admin.describe_consumer_groups([topic])[topic].result(20).type

    old = classic(bootstrap, topic, topic)
    share([old], 4)
    assert kind() == ConsumerGroupType.CLASSIC
    new = consumer_protocol(bootstrap, topic, topic)
    share([old, new], 2, 2)
    assert kind() == ConsumerGroupType.CONSUMER
    new.close()
    share([old], 4)
    assert kind() == ConsumerGroupType.CLASSIC
    old.close()


def test_kafka_python_reads_and_commits_in_a_group(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    sent = produce(bootstrap, topic, 0, 100, 2)
    command = [sys.executable, str(KAFKA_PYTHON), bootstrap, topic, "100"]
    ran = subprocess.run(command, capture_output=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert set(ran.stdout.split()) == sent
    assert committed(bootstrap, topic) == {0: 50, 1: 50}


def test_aiokafka_members_share_a_topic_and_commit(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    sent = produce(bootstrap, topic, 0, 100, 2)

    async def read() -> set[bytes]:
        def member() -> Any:
            return AIOKafkaConsumer(
                topic,
                group_id=topic,
                bootstrap_servers=bootstrap,
                auto_offset_reset="earliest",
                heartbeat_interval_ms=200,
            )

        members = [member(), member()]
        for each in members:
            await each.start()
        found: set[bytes] = set()
        while found != sent or any(len(each.assignment()) != 1 for each in members):
            for each in members:
                for records in (await each.getmany(timeout_ms=100)).values():
                    found.update(record.value for record in records)
        for each in members:
            await each.commit()
            await each.stop()
        return found

    assert asyncio.run(asyncio.wait_for(read(), 40)) == sent
    assert committed(bootstrap, topic) == {0: 50, 1: 50}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_consumers_come_and_go(java: Java, bootstrap: str, protocol: str) -> None:
    topic = f"java-{protocol}"
    create_topic(bootstrap, topic, 4)
    said = java(str(GROUP_WORK), bootstrap, topic, protocol)
    assert said.splitlines()[-1] == "all done"


def test_kafkas_console_consumer_and_group_tool_work(
    java: Java, cluster: Cluster, topic: str
) -> None:
    bootstrap = cluster.bootstrap
    create_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, 0, 30, 1)
    server = ("--bootstrap-server", bootstrap)
    for protocol, limit in (("classic", "10"), ("consumer", "5")):
        group = f"{topic}-{protocol}"
        read = java(
            CONSOLE,
            *server,
            *("--topic", topic, "--group", group, "--from-beginning", "--max-messages", limit),
            *("--command-property", f"group.protocol={protocol}"),
        )
        assert read.split() == [str(number) for number in range(int(limit))]
        described = java(GROUPS, *server, "--describe", "--group", group)
        [line] = [line for line in described.splitlines() if topic in line]
        assert line.split()[3:6] == [limit, "30", str(30 - int(limit))]
    listed = java(GROUPS, *server, "--list", "--type", "consumer")
    assert f"{topic}-consumer" in listed and f"{topic}-classic" not in listed
    old = ("--group", f"{topic}-classic")
    java(GROUPS, *server, *old, "--reset-offsets", "--to-latest", "--topic", topic, "--execute")
    assert committed(bootstrap, f"{topic}-classic") == {0: 30}
    assert "Successful" in java(GROUPS, *server, *old, "--delete-offsets", "--topic", topic)
    assert "was successful" in java(GROUPS, *server, *old, "--delete")


def test_kafkas_dump_tool_reads_the_records_of_our_offsets_topic(
    java: Java, cluster: Cluster, topic: str
) -> None:
    create_topic(cluster.bootstrap, topic, 2)
    produce(cluster.bootstrap, topic, 0, 1, 1)
    old = classic(cluster.bootstrap, topic, topic)
    poll_until([old], lambda: old.read.total() == 1)
    old.commit()
    new = consumer_protocol(cluster.bootstrap, topic, f"^{topic}$")
    share([old, new], 1, 1)
    for reader in (old, new):
        reader.close()
    logs = cluster.data().glob("__consumer_offsets-*/*.log")
    written = ",".join(str(log) for log in logs if log.stat().st_size)
    dumped = java(DUMP, "--offsets-decoder", "--deep-iteration", "--files", written)
    ours = [line for line in dumped.splitlines() if topic in line]
    for kind in ("1", "2", "3", "5", "6", "7", "8", "16"):
        assert any(f'key: {{"type":"{kind}"' in line for line in ours), kind
    assert "Could not read" not in dumped
