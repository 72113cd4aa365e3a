"""`tidelog groups` against a real broker process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner, Result

from tidelog.cli.main import app
from tidelog.testing.cluster import Cluster

pytestmark = pytest.mark.long

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


class Command:
    """The command, with the running broker in its environment."""

    def __init__(self, cluster: Cluster) -> None:
        self.bootstrap = cluster.bootstrap

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tidelog", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, "TIDELOG_BOOTSTRAP": self.bootstrap},
        )

    def objects(self, *arguments: str) -> list[dict[str, Any]]:
        ended = self.run(*arguments, "--json")
        assert ended.returncode == 0, ended.stderr
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def reset(self, *arguments: str) -> Result:
        """Move a group by a call in this process, which begins sooner than another one."""
        called = ["groups", "reset-offsets", *arguments]
        return CliRunner().invoke(app, called, env={"TIDELOG_BOOTSTRAP": self.bootstrap})


@pytest.fixture
def tidelog(cluster: Cluster) -> Command:
    return Command(cluster)


def filled(tidelog: Command, topic: str) -> None:
    assert tidelog.run("topics", "create", topic, "--partitions", "2").returncode == 0
    lines = "".join(f"{number}\n" for number in range(10))
    for partition in ("0", "1"):
        sent = tidelog.run("produce", topic, "--partition", partition, stdin=lines)
        assert sent.returncode == 0, sent.stderr


def read(tidelog: Command, topic: str, count: int, protocol: str = "classic") -> Consumer:
    """A member of the group named after the topic that has read and committed so many records."""
    consumer = Consumer(
        {
            "bootstrap.servers": tidelog.bootstrap,
            "group.id": topic,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": True,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    messages = consumer.consume(count, TIMEOUT_S)
    assert len(messages) == count
    consumer.commit(asynchronous=False)
    return consumer


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_listed_and_described_with_its_lag(tidelog: Command, protocol: str) -> None:
    topic = f"described-{protocol}"
    filled(tidelog, topic)
    member = read(tidelog, topic, 20, protocol)
    filled_more = tidelog.run("produce", topic, "--partition", "1", stdin="more\n")
    assert filled_more.returncode == 0

    [listed] = [each for each in tidelog.objects("groups", "list") if each["group"] == topic]
    assert (listed["state"], listed["type"], listed["coordinator"]) == ("Stable", protocol, 100)
    [described] = tidelog.objects("groups", "describe", topic)
    assert [member["partitions"] for member in described["members"]] == [
        [f"{topic}-0", f"{topic}-1"]
    ]
    assert [(line["committed"], line["end"], line["lag"]) for line in described["partitions"]] == [
        (10, 10, 0),
        (10, 11, 1),
    ]
    table = tidelog.run("groups", "describe", topic)
    assert "is Stable" in table.stderr and "with 1 member," in table.stderr
    assert table.stdout.splitlines()[0].split() == [
        "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST",
    ]  # fmt: skip

    refused = tidelog.run("groups", "delete", topic)
    assert refused.returncode == 1 and "NON_EMPTY_GROUP" in refused.stderr
    if protocol == "classic":
        moved = tidelog.run("groups", "reset-offsets", topic, "--to-earliest")
        assert moved.returncode == 1 and "stop them first" in moved.stderr
    member.close()
    assert tidelog.run("groups", "delete", topic).returncode == 0
    assert tidelog.run("groups", "describe", topic).returncode == 1


def test_a_group_without_members_is_moved(tidelog: Command) -> None:
    filled(tidelog, "moved")
    read(tidelog, "moved", 20).close()

    def after(*where: str) -> list[int]:
        lines = tidelog.reset("moved", *where, "--json").stdout.splitlines()
        return [json.loads(line)["after"] for line in lines]

    assert after("--shift-by", "-4", "--dry-run") == [6, 6]
    assert after("--shift-by", "-3") == [7, 7]
    assert after("--shift-by", "100") == [10, 10]
    assert after("--to-earliest") == [0, 0]
    assert after("--to-offset", "4", "--topic", "moved") == [4, 4]
    assert after("--to-timestamp", "0") == [0, 0]
    assert after("--to-datetime", "2001-01-01T00:00:00.000") == [0, 0]
    assert after("--to-datetime", "2201-01-01T00:00:00+02:00") == [10, 10]
    assert after("--to-offset", "3", "--topic", "moved:1") == [3]
    assert after("--to-current") == [10, 3]
    assert after("--by-duration", "P7D") == [0, 0]
    assert after("--by-duration", "PT0S", "--dry-run") == [10, 10]
    assert after("--to-latest") == [10, 10]
    [described] = tidelog.objects("groups", "describe", "moved")
    assert [line["committed"] for line in described["partitions"]] == [10, 10]


def test_offsets_are_exported_and_read_back(tidelog: Command, tmp_path: Path) -> None:
    filled(tidelog, "exported")
    offsets = tmp_path / "offsets.csv"
    exported = tidelog.reset("heirs", "--topic", "exported", "--to-offset", "4", "--export")
    assert exported.stdout == "exported,0,4\nexported,1,4\n"

    offsets.write_text("exported,1,6\n\nheirs,exported,0,5\n")
    assert tidelog.reset("heirs", "--from-file", str(offsets)).exit_code == 0

    [described] = tidelog.objects("groups", "describe", "heirs")
    assert [line["committed"] for line in described["partitions"]] == [5, 6]
    offsets.write_text("exported,9,6\n")
    assert tidelog.reset("heirs", "--from-file", str(offsets)).exit_code == 1
    for line in ("exported,1", "exported,one,6", "exported,1,-6"):
        offsets.write_text(f"exported,0,1\n{line}\n")
        refused = tidelog.reset("heirs", "--from-file", str(offsets))
        assert (refused.exit_code, "line 2" in refused.stderr) == (2, True)


def test_of_a_file_with_several_groups_the_groups_own_lines_count(
    tidelog: Command, tmp_path: Path
) -> None:
    filled(tidelog, "several")
    offsets = tmp_path / "offsets.csv"
    offsets.write_text("\ufeffheirs,several,0,3\nothers,several,1,6\n", encoding="utf-8")
    planned = tidelog.reset("heirs", "--from-file", str(offsets), "--export")
    assert planned.stdout == "several,0,3\n"
    refused = tidelog.reset("nobody", "--from-file", str(offsets))
    assert (refused.exit_code, "of group nobody" in refused.stderr) == (2, True)


def test_partitions_of_a_topic_may_be_named_one_by_one(tidelog: Command) -> None:
    filled(tidelog, "by-one")
    to = ("--to-offset", "1", "--export")
    both = tidelog.reset("heirs", "--topic", "by-one:1", "--topic", "by-one:0", *to)
    assert sorted(both.stdout.splitlines()) == ["by-one,0,1", "by-one,1,1"]
    all_of_it = tidelog.reset("heirs", "--topic", "by-one", "--topic", "by-one:0", *to)
    assert sorted(all_of_it.stdout.splitlines()) == ["by-one,0,1", "by-one,1,1"]


def test_where_to_must_be_said_once(tidelog: Command) -> None:
    for where in (
        [],
        ["--to-earliest", "--to-latest"],
        ["--to-current", "--by-duration", "PT1H"],
        ["--to-timestamp", "0", "--to-datetime", "2001-01-01T00:00:00"],
        ["--to-datetime", "soon"],
        ["--by-duration", "1 hour"],
        ["--to-latest", "--topic", "orders:first"],
    ):
        assert tidelog.reset("group", *where).exit_code == 2
    refused = tidelog.run("groups", "reset-offsets", "nobody", "--to-latest")
    assert refused.returncode == 1 and "--topic" in refused.stderr


def test_a_group_that_is_not_there_is_refused_with_the_nearest_one(tidelog: Command) -> None:
    filled(tidelog, "gannets")
    assert tidelog.reset("colony", "--to-earliest", "--topic", "gannets").exit_code == 0
    for command in ("describe", "delete"):
        refused = tidelog.run("groups", command, "coluny")
        assert refused.returncode == 1
        assert "no group 'coluny'; did you mean 'colony'?" in refused.stderr
    moved = tidelog.reset("coluny", "--to-earliest")
    assert moved.exit_code == 1
    assert "no group 'coluny'; did you mean 'colony'? A new one needs --topic" in moved.stderr
