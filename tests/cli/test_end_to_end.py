"""The commands against a real broker process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from tidelog.cli.main import app
from tidelog.local.local_cluster import LocalCluster
from tidelog.local.ports import free_ports
from tidelog.testing.cluster import Cluster

TIMEOUT_S = 60

pytestmark = pytest.mark.long


def tidelog(
    *arguments: str, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidelog", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, **environment},
    )


def fine(*arguments: str, stdin: str = "", **environment: str) -> str:
    ended = tidelog(*arguments, stdin=stdin, **environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def here(cluster: Cluster) -> dict[str, str]:
    """The environment in which `tidelog` finds the running broker."""
    return {"TIDELOG_BOOTSTRAP": cluster.bootstrap}


@pytest.fixture
def topic(request: pytest.FixtureRequest, here: dict[str, str]) -> str:
    """A topic of the test's own, with two partitions."""
    name = str(request.node.name).removeprefix("test_")
    fine("topics", "create", name, "--partitions", "2", **here)
    return name


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "describe", "pelicams"],
        ["topics", "alter", "pelicams", "--partitions", "4"],
        ["topics", "delete", "pelicams"],
        ["consume", "pelicams"],
        ["groups", "reset-offsets", "flock", "--to-earliest", "--topic", "pelicams"],
        ["configs", "describe", "--topic", "pelicams"],
        ["configs", "set", "retention.ms=1000", "--topic", "pelicams"],
        ["configs", "delete", "retention.ms", "--topic", "pelicams"],
    ],
    ids=lambda each: " ".join(each[:2]),
)
def test_a_topic_that_is_not_there_is_refused_with_the_nearest_one(
    arguments: list[str], here: dict[str, str]
) -> None:
    CliRunner().invoke(app, ["topics", "create", "pelicans", "--if-not-exists"], env=here)
    refused = CliRunner().invoke(app, arguments, env=here)
    assert refused.exit_code == 1
    assert "no topic 'pelicams'; did you mean 'pelicans'?" in refused.stderr


def test_a_topic_that_writing_would_make_is_told_from_its_neighbour(here: dict[str, str]) -> None:
    fine("topics", "create", "herons", **here)
    said = tidelog("produce", "heron", stdin="x\n", **here).stderr
    assert "no topic 'heron' yet; did you mean 'herons'?" in said
    assert "did you mean" not in tidelog("produce", "heron", stdin="x\n", **here).stderr


def test_a_transactional_id_that_is_not_there_is_refused_in_words(here: dict[str, str]) -> None:
    refused = CliRunner().invoke(app, ["transactions", "describe", "nobody"], env=here)
    assert refused.exit_code == 1
    assert "no transactional id 'nobody'; there is" in refused.stderr


def test_a_topic_is_created_shown_altered_and_deleted(here: dict[str, str]) -> None:
    fine("topics", "create", "life", "--partitions", "3", "--config", "retention.ms=60000", **here)
    again = tidelog("topics", "create", "life", **here)
    assert (again.returncode, again.stdout) == (1, "")
    fine("topics", "create", "life", "--if-not-exists", **here)

    listed = {each["topic"]: each for each in objects(fine("topics", "list", "--json", **here))}
    assert (listed["life"]["partitions"], listed["life"]["replication_factor"]) == (3, 1)
    fine("topics", "alter", "life", "--partitions", "4", **here)
    (described,) = objects(fine("topics", "describe", "life", "--json", **here))
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2, 3]
    assert all(each["leader"] == 100 and each["isr"] == [100] for each in described["partitions"])
    assert "life-3" in fine("topics", "describe", "life", **here)

    fine("topics", "delete", "life", **here)
    assert tidelog("topics", "describe", "life", **here).returncode == 1
    assert tidelog("topics", "delete", "life", **here).returncode == 1
    fine("topics", "delete", "life", "--if-exists", **here)


def test_fewer_partitions_are_refused(topic: str, here: dict[str, str]) -> None:
    assert tidelog("topics", "alter", topic, "--partitions", "1", **here).returncode == 1


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back_as_they_went_in(codec: str, here: dict[str, str]) -> None:
    name = f"lines-{codec}"
    lines = "".join(f"line {n} ü\n" for n in range(2000))
    fine("topics", "create", name, "--partitions", "1", **here)

    fine("produce", name, "--compression", codec, stdin=lines, **here)

    assert fine("consume", name, **here) == lines


def test_json_shows_everything_about_a_record(topic: str, here: dict[str, str]) -> None:
    fine(
        "produce",
        topic,
        "--key-separator",
        ":",
        "--headers",
        "origin=test",
        "--partition",
        "1",
        stdin="k1:v1\nno key\n",
        **here,
    )

    first, second = objects(fine("consume", topic, "--json", **here))

    assert first["timestamp"] > 1_600_000_000_000
    del first["timestamp"]
    assert first == {
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "leader_epoch": 0,
        "key": "k1",
        "value": "v1",
        "headers": [{"key": "origin", "value": "test"}],
    }
    assert (second["key"], second["value"]) == (None, "no key")


def test_reading_starts_where_it_is_told_to(here: dict[str, str]) -> None:
    fine("topics", "create", "starts", "--partitions", "1", **here)
    fine("produce", "starts", stdin="a\nb\nc\n", **here)
    moment = objects(fine("consume", "starts", "--json", **here))[0]["timestamp"]

    assert fine("consume", "starts", "--from", "beginning", **here) == "a\nb\nc\n"
    assert fine("consume", "starts", "--from", "1", **here) == "b\nc\n"
    assert fine("consume", "starts", "--from", "end", **here) == ""
    assert fine("consume", "starts", "--from", f"@{moment}", **here) == "a\nb\nc\n"
    assert fine("consume", "starts", "--from", "2100-01-01", **here) == ""
    assert fine("consume", "starts", "--count", "2", **here) == "a\nb\n"
    assert fine("consume", "starts", "--partition", "0", "--key-separator", "|", **here) == (
        "|a\n|b\n|c\n"
    )
    beyond = tidelog("consume", "starts", "--from", "99", **here)
    assert (beyond.returncode, beyond.stdout) == (1, "")
    assert "[0, 3)" in beyond.stderr


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acks_writes(acks: str, here: dict[str, str]) -> None:
    name = f"acks-{acks}"
    fine("topics", "create", name, "--partitions", "1", **here)

    fine("produce", name, "--acks", acks, stdin="x\n", **here)

    assert fine("consume", name, "--count", "1", **here) == "x\n"


def test_output_that_cannot_be_written_is_refused_in_words(here: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "tidelog", "cluster", "apis"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, **here},
        )

    assert (ended.returncode, ended.stderr) == (1, "No space left on device\n")


def test_a_reader_that_goes_away_is_no_failure(here: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "tidelog", "cluster", "apis"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, **here},
    )
    os.close(writing)

    assert (ended.returncode, ended.stderr) == (0, "")


def test_producing_from_a_closed_stdin_is_wrong_usage(here: dict[str, str]) -> None:
    ended = subprocess.run(
        ["sh", "-c", '"$0" -m tidelog produce t <&-', sys.executable],
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, **here},
    )

    assert ended.returncode == 2
    assert "stdin is closed" in ended.stderr


def test_a_follower_of_the_log_sees_records_as_they_are_written(here: dict[str, str]) -> None:
    fine("topics", "create", "followed", "--partitions", "1", **here)
    command = [sys.executable, "-m", "tidelog", "consume", "followed", "--follow", "--from", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **here}
    ) as follower:
        assert follower.stdout is not None
        for line in ("one\n", "two\n"):
            fine("produce", "followed", stdin=line, **here)
            assert follower.stdout.readline() == line
        follower.send_signal(signal.SIGINT)
        assert follower.wait(TIMEOUT_S) == 0


def test_settings_are_changed_shown_and_taken_back(topic: str, here: dict[str, str]) -> None:
    where = ("--topic", topic)

    fine("configs", "set", *where, "retention.ms=1234567", "max.message.bytes=2000", **here)
    shown = {
        each["name"]: each
        for each in objects(fine("configs", "describe", *where, "--json", **here))
    }
    assert (shown["retention.ms"]["value"], shown["retention.ms"]["source"]) == ("1234567", "topic")

    big = tidelog("produce", topic, stdin="x" * 3000 + "\n", **here)
    assert big.returncode == 1
    assert "MESSAGE_TOO_LARGE" in big.stderr

    fine("configs", "delete", *where, "retention.ms", "max.message.bytes", **here)
    assert "retention.ms" not in fine("configs", "describe", *where, **here)
    everything = objects(fine("configs", "describe", *where, "--all", "--json", **here))
    assert all(each["documentation"] for each in everything)
    assert tidelog("configs", "set", *where, "retention.m=1", **here).returncode == 1
    unknown = tidelog("configs", "delete", *where, "retention.m", **here)
    assert unknown.returncode == 1
    assert "did you mean retention.ms?" in unknown.stderr


def test_broker_settings_are_shown(here: dict[str, str]) -> None:
    shown = {
        each["name"]: each["value"]
        for each in objects(fine("configs", "describe", "--broker", "100", "--json", **here))
    }

    assert shown["node.id"] == "100"
    assert tidelog("configs", "describe", "--broker", "7", **here).returncode == 1


def test_the_cluster_describes_itself(cluster: Cluster, here: dict[str, str]) -> None:
    (described,) = objects(fine("cluster", "describe", "--json", **here))

    assert described["cluster_id"] == cluster.cluster_id
    assert (described["controller"], described["voters"]) == (100, [100])
    assert described["brokers"] == [
        {"id": 100, "listener": cluster.bootstrap, "rack": None, "fenced": False}
    ]
    assert {each["api"] for each in objects(fine("cluster", "apis", "--json", **here))} >= {
        "produce",
        "fetch",
    }


def test_the_files_of_a_running_broker_can_be_dumped(
    cluster: Cluster, topic: str, here: dict[str, str]
) -> None:
    fine("produce", topic, "--partition", "0", stdin="a\nb\n", **here)

    segment = cluster.data() / f"{topic}-0" / "00000000000000000000.log"
    shown = objects(fine("log", "dump", "--deep", "--json", str(segment)))
    assert [each["value"] for each in shown if each["type"] == "record"] == ["a", "b"]
    metadata = cluster.data() / "__cluster_metadata-0" / "00000000000000000000.log"
    records = objects(fine("log", "dump", "--deep", "--json", str(metadata)))
    assert topic in [each.get("name") for each in records if each.get("record") == "TopicRecord"]


def test_up_starts_a_view_and_down_ends_it(tmp_path: Path, port: int) -> None:
    data = ("--data", str(tmp_path / "cluster"))
    up = ("up", "--brokers", "1", "--detach", "--port", str(port), "--view-port", "0", *data)
    try:
        started = tidelog(*up, "--dev", TIDELOG_NO_VIEW="0")
        assert started.returncode == 0, started.stderr
        (address,) = [each for each in started.stderr.split() if "#token=" in each]
        (shown,) = objects(fine("status", "--json", *data))
        assert shown["view"] == address.partition("#")[0]
        assert (tmp_path / "cluster" / "view" / "url").stat().st_mode & 0o077 == 0
        with urlopen(address) as page:
            assert page.status == 200
    finally:
        assert tidelog("down", "--delete", "--yes", *data).returncode == 0
    with pytest.raises(URLError):
        urlopen(address)
    assert not (tmp_path / "cluster").exists()


def test_up_status_node_and_down(tmp_path: Path, port: int) -> None:
    data = ("--data", str(tmp_path / "cluster"))

    started = tidelog(
        "up", "--brokers", "1", "--detach", "--port", str(port), "--set", "num.partitions=3", *data
    )
    try:
        assert started.returncode == 0, started.stderr
        assert (started.stdout, "ready" in started.stderr) == ("", True)
        (shown,) = objects(fine("status", "--json", *data))
        (node,) = shown["nodes"]
        assert shown["controller"] == 100
        assert (node["id"], node["roles"], node["state"]) == (
            100,
            ["broker", "controller"],
            "running",
        )
        assert node["listener"] == f"127.0.0.1:{port}"
        assert node["data"] == str(tmp_path / "cluster" / "node-100" / "data")
        assert set(node) == {
            "id",
            "roles",
            "pid",
            "listener",
            "controller_listener",
            "http",
            "data",
            "log",
            "state",
            "ending",
        }
        assert (node["ending"], shown["view"]) == (None, None)
        assert node["http"] == f"http://127.0.0.1:{port + 2000}"
        here = {"TIDELOG_BOOTSTRAP": node["listener"]}
        fine("produce", "kept", stdin="before\n", **here)
        assert (Path(node["data"]) / "kept-0").is_dir()

        assert tidelog("up", "--detach", *data).returncode == 1
        fine("node", "pause", "100", *data)
        assert objects(fine("status", "--json", *data))[0]["nodes"][0]["state"] == "paused"
        fine("node", "resume", "100", *data)
        fine("node", "kill", "100", *data)
        stopped = objects(fine("status", "--json", *data))[0]
        assert stopped["controller"] is None
        assert (stopped["nodes"][0]["state"], stopped["nodes"][0]["pid"]) == ("stopped", None)
        killed = {"cause": "killed", "exit_code": None, "reason": "SIGKILL, sent by tidelog"}
        assert stopped["nodes"][0]["ending"] == killed
        shown_now = tidelog("status", *data)
        assert "stopped: killed" in shown_now.stdout
        assert "node 100 killed: SIGKILL, sent by tidelog; see " in shown_now.stderr
        assert tidelog("node", "kill", "100", *data).returncode == 1
        assert tidelog("node", "start", "101", *data).returncode == 1
        fine("node", "start", "100", *data)
        fine("node", "stop", "100", *data)
        assert objects(fine("status", "--json", *data))[0]["nodes"][0]["ending"] == {
            "cause": "clean",
            "exit_code": 0,
            "reason": "SIGTERM",
        }

        assert tidelog("up", "--detach", "--port", str(port + 1), *data).returncode == 1
        fine("up", "--detach", *data)
        assert objects(fine("status", "--json", *data))[0]["cluster_id"] == shown["cluster_id"]
        assert fine("consume", "kept", **here) == "before\n"
        assert (
            len(objects(fine("topics", "describe", "kept", "--json", **here))[0]["partitions"]) == 3
        )
    finally:
        assert tidelog("down", *data).returncode == 0
    assert (Path(node["data"]) / ".kafka_cleanshutdown").exists()
    assert "no node" in tidelog("down", *data).stderr
    fine("down", "--delete", *data)
    assert not Path(data[-1]).exists()


@pytest.fixture
def foreground(tmp_path: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """`tidelog up` in the foreground, with its cluster in `tmp_path / "cluster"`, ready."""
    data = ("--port", str(port), "--data", str(tmp_path / "cluster"))
    command = [sys.executable, "-m", "tidelog", "up", *data]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        for line in started.stderr:
            if line.startswith("ready"):
                break
        yield started


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_up_in_the_foreground_ends_cleanly_when_told_to(
    tmp_path: Path, foreground: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert foreground.stderr is not None
    foreground.send_signal(number)
    rest = foreground.stderr.read()

    assert foreground.wait(TIMEOUT_S) == 0
    assert "stopped" in rest
    assert LocalCluster.open(tmp_path / "cluster").running() == []


def test_up_in_the_foreground_stops_its_nodes_when_nobody_reads_what_it_says(
    tmp_path: Path, foreground: subprocess.Popen[str]
) -> None:
    assert foreground.stderr is not None
    foreground.stderr.close()
    cluster = LocalCluster.open(tmp_path / "cluster")
    # The node tells of it, unless the command has already noticed.
    tidelog("topics", "create", "t", TIDELOG_BOOTSTRAP=cluster.bootstrap)

    assert foreground.wait(TIMEOUT_S) == 0
    assert cluster.running() == []


def test_modules_in_the_current_directory_do_not_reach_a_node(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('not the one you want')")
    port, controller_port = free_ports(2)
    cluster = LocalCluster.create(tmp_path / "c", ports=[port], controller_ports=[controller_port])
    up = [str(Path(sys.executable).with_name("tidelog")), "up", "--detach", "--data", "c"]
    try:
        subprocess.run(up, cwd=tmp_path, check=True, timeout=TIMEOUT_S)
    finally:
        cluster.stop()


def test_a_taken_port_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = tidelog(
            "up", "--detach", "--port", str(port), "--data", str(tmp_path / "cluster")
        )

    assert refused.returncode == 1
    said = f"port {port} is taken by another program, and node 100 needs it for its broker"
    assert said in refused.stderr
    assert "--port" in refused.stderr
    assert not (tmp_path / "cluster").exists()


def test_a_node_that_cannot_start_says_why(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    port, controller_port = free_ports(2)
    cluster = LocalCluster.create(directory, ports=[port], controller_ports=[controller_port])
    (cluster.node(100).data / "meta.properties").write_text("version=9\n")

    failed = tidelog("up", "--detach", "--data", str(directory))

    assert failed.returncode == 1
    assert "meta.properties" in failed.stderr
    assert LocalCluster.open(directory).running() == []
    (node,) = objects(fine("status", "--json", "--data", str(directory)))[0]["nodes"]
    assert (node["ending"]["cause"], node["ending"]["exit_code"]) == ("failed", 1)
    assert "meta.properties" in node["ending"]["reason"]


def test_a_node_placed_by_hand_is_formatted_and_runs(tmp_path: Path) -> None:
    port, controller_port = free_ports(2)
    config = tmp_path / "node.properties"
    config.write_text(
        "process.roles=broker,controller\n"
        "node.id=7\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}\n"
        "controller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    identity = fine("random-uuid").strip()

    unformatted = tidelog("broker", "--config", str(config))
    assert unformatted.returncode != 0
    assert "format" in unformatted.stderr
    fine("format", "--config", str(config), "--cluster-id", identity)
    assert tidelog("format", "--config", str(config), "--cluster-id", identity).returncode == 1
    command = [sys.executable, "-m", "tidelog", "broker", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as node:
        assert node.stderr is not None
        for line in node.stderr:
            if "listens on PLAINTEXT" in line:
                break
        here = {"TIDELOG_BOOTSTRAP": f"127.0.0.1:{port}"}
        (described,) = objects(fine("cluster", "describe", "--json", **here))
        node.send_signal(signal.SIGTERM)
        node.stderr.read()
        assert node.wait(TIMEOUT_S) == 0
    assert described["cluster_id"] == identity


def test_the_pytest_fixture_hands_out_a_ready_cluster(tidelog_cluster: Cluster) -> None:
    here = {"TIDELOG_BOOTSTRAP": tidelog_cluster.bootstrap}
    fine("produce", "kept", stdin="before\n", **here)

    tidelog_cluster.kill(100)
    assert tidelog("consume", "kept", **here).returncode == 3
    tidelog_cluster.start(100)

    assert fine("consume", "kept", **here) == "before\n"
