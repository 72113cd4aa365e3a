"""What an operator sees of a real cluster while a broker is killed and started again."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tidelog.cli.main import app
from tidelog.testing.cluster import Cluster

pytestmark = pytest.mark.long

WITHIN_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, http=True, settings={"auto.leader.rebalance.enable": "false"}) as found:
        created = run(found, "topics", "create", "orders", "--partitions", "3")
        assert created.exit_code == 0, created.output
        until(lambda: run(found, "cluster", "health").exit_code == 0)
        yield found


def run(cluster: Cluster, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--data", str(cluster.directory)])


def listeners(cluster: Cluster) -> list[str]:
    return [option for each in cluster.node_ids for option in ("--http", cluster.http(each))]


def over_http(cluster: Cluster, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, *listeners(cluster)])


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def leader(cluster: Cluster) -> int:
    told: dict[str, Any] = json.loads(run(cluster, "why", "orders-0", "--json").stdout)
    found: int = told["leader"]
    return found


class Following:
    """`tidelog events --follow`, as somebody reads it."""

    def __init__(self, cluster: Cluster, *arguments: str) -> None:
        command = [sys.executable, "-m", "tidelog", "events", "--follow", "--since", "1h"]
        command += ["--data", str(cluster.directory), *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self._seen = b""

    def wait_for(self, pattern: str) -> None:
        assert self._process.stdout is not None
        deadline = time.monotonic() + WITHIN_S
        while not re.search(pattern, self._seen.decode()):
            ready, _, _ = select.select(
                [self._process.stdout], [], [], max(0, deadline - time.monotonic())
            )
            assert ready, f"{pattern} is not among:\n{self._seen.decode()}"
            self._seen += os.read(self._process.stdout.fileno(), 65536)

    def interrupt(self) -> int:
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=WITHIN_S)
        return self._process.returncode

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def test_a_kill_is_seen_explained_and_followed_until_the_broker_is_back(cluster: Cluster) -> None:
    assert run(cluster, "cluster", "health").stdout == (
        "all is well: 3 brokers, 3 partitions, quorum of 3\n"
    )
    gone = leader(cluster)
    following = Following(cluster, "--topic", "orders-0", "--why")
    remote = Following(cluster, "--topic", "orders-0", *listeners(cluster))
    try:
        following.wait_for("orders-0 led by this node in epoch 0")
        remote.wait_for("orders-0 led by this node in epoch 0")
        cluster.kill(gone)
        following.wait_for(f"orders-0 is led by .* in epoch 1 after {gone}: broker {gone} closed")

        until(lambda: "not in sync" in run(cluster, "cluster", "health").stdout)
        ill = run(cluster, "cluster", "health")
        assert ill.exit_code == 1
        assert f"broker {gone} is fenced: its process does not run (killed: SIGKILL" in ill.stdout
        assert f"`tidelog node start {gone}`" in ill.stdout
        assert "2 of 3 controllers take part" in ill.stdout
        by_kafka_alone = CliRunner().invoke(
            app, ["cluster", "health", "--bootstrap", cluster.bootstrap, "--json"]
        )
        assert by_kafka_alone.exit_code == 1
        told = json.loads(by_kafka_alone.stdout)
        assert {"fenced-broker", "under-replicated"} <= {each["kind"] for each in told["problems"]}

        story = run(cluster, "why", "orders-0").stdout.splitlines()
        assert f"the process of node {gone} ended: killed: SIGKILL" in story[0]
        assert f"broker {gone} of epoch" in story[1]
        assert story[-1].startswith("now ") and "in epoch 1" in story[-1]

        cluster.start(gone)
        following.wait_for(f"node {gone}: orders-0 follows")
        until(lambda: run(cluster, "cluster", "health").exit_code == 0)
        following.wait_for("orders-0 in sync: .* after .*: leader .* takes")
        remote.wait_for(f"node {gone}: orders-0 follows")
        assert following.interrupt() == remote.interrupt() == 0
    finally:
        following.end()
        remote.end()
    back = run(cluster, "why", "orders-0").stdout
    assert f"broker {gone} registered" in back
    assert f"takes {gone} into the ISR" in back


def test_nodes_tell_the_same_over_http_as_their_files(cluster: Cluster) -> None:
    from_files = run(cluster, "events", "--topic", "orders", "--json")
    told = over_http(cluster, "events", "--topic", "orders", "--json")

    assert from_files.exit_code == told.exit_code == 0
    assert from_files.stdout == told.stdout
    assert {json.loads(line)["node"] for line in told.stdout.splitlines()} == {100, 101, 102}
    one = run(cluster, "events", "--node", "101", "--since", "1h").stdout.splitlines()
    assert one and all("node 101" in line for line in one)
    assert run(cluster, "events", "--since", "2090-01-01T00:00:00Z").stdout == ""


def test_a_partition_that_nobody_told_of_is_refused_with_what_there_is(cluster: Cluster) -> None:
    for misspelt in (["why", "ordres-0"], ["events", "--topic", "ordres-0"]):
        refused = run(cluster, *misspelt)
        assert refused.exit_code == 1
        assert "no event about topic 'ordres'; did you mean 'orders'?" in refused.stderr
    assert "there are some of orders-0 to orders-2" in run(cluster, "why", "orders-9").stderr
    for told in (run, over_http):
        topic = told(cluster, "events", "--topic", "ordrs")
        assert (topic.exit_code, topic.stdout) == (1, "")
        assert "no event about topic 'ordrs'; did you mean 'orders'?" in topic.stderr
        node = told(cluster, "events", "--node", "10")
        assert "no event of node '10'; did you mean '10" in node.stderr


def test_what_nobody_told_of_yet_is_followed_after_a_hint(cluster: Cluster) -> None:
    command = [sys.executable, "-m", "tidelog", "events", "--follow", "--topic", "payments"]
    command += ["--data", str(cluster.directory)]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as following:
        assert following.stderr is not None and following.stdout is not None
        assert "no event about topic 'payments'" in following.stderr.readline()
        assert run(cluster, "topics", "create", "payments").exit_code == 0
        assert "payments" in following.stdout.readline()
        following.send_signal(signal.SIGINT)


def test_one_picture_of_a_cluster_at_work_fits_a_terminal(cluster: Cluster) -> None:
    shown = CliRunner().invoke(
        app,
        ["top", "--once", "--every", "0.2", "--data", str(cluster.directory)],
        env={"COLUMNS": "80"},
    )

    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert "all is well" in lines[1] and "\x1b" not in shown.stdout
    assert [line.split()[0] for line in lines[3:7]] == ["NODE", "100", "101", "102"]
    assert any(re.match(r"orders-0 .* 3 of 3 ", line) for line in lines)
    bare = CliRunner().invoke(
        app, ["top", "--once", "--every", "0.2", "--bootstrap", cluster.bootstrap]
    )
    assert "--http shows rates" in bare.stdout
    assert "active" in bare.stdout


@pytest.mark.parametrize("key", [b"q", b"\x03"], ids=["q", "Ctrl-C"])
def test_the_live_view_leaves_the_terminal_as_it_was(cluster: Cluster, key: bytes) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (24, 80))
    before = termios.tcgetattr(ours)
    command = [sys.executable, "-m", "tidelog", "top", "--data", str(cluster.directory)]
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
        preexec_fn=lambda: become_foreground(theirs),
    )
    shown = b""
    try:
        while b"orders-0" not in shown:
            ready, _, _ = select.select([ours], [], [], WITHIN_S)
            assert ready, shown.decode()
            shown += os.read(ours, 65536)
        os.write(ours, key)
        while b"\x1b[?1049l" not in shown:
            ready, _, _ = select.select([ours], [], [], WITHIN_S)
            assert ready, shown.decode()
            shown += os.read(ours, 65536)
        assert process.wait(WITHIN_S) == 0
        assert termios.tcgetattr(ours) == before
        assert shown.count(b"\x1b[?1049h") == 1
        assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


def become_foreground(terminal: int) -> None:
    """Make it the terminal of a session of one's own, so that Ctrl-C interrupts."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def test_events_of_a_cluster_that_is_down_are_read_from_its_files(cluster: Cluster) -> None:
    cluster.local.stop()
    try:
        stopped = run(cluster, "events", "--since", "1h", "--why")
        assert stopped.exit_code == 0
        assert "node 102 stopped cleanly: SIGTERM" in stopped.stdout
        assert "stopped cleanly" in run(cluster, "why", "orders-0").stdout
        assert run(cluster, "cluster", "health").exit_code == 3
    finally:
        cluster.local.start()
