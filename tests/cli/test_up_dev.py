"""`tidelog up --dev` that fails or is interrupted: nothing of it survives, and it says why."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.local.ports import free_port_of_a_cluster

from tidelog.local.local_cluster import LocalCluster
from tidelog.local.node_setup import LINK_PORT_DISTANCE

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc"),
]

TIMEOUT_S = 60


def command(directory: Path, *arguments: str) -> list[str]:
    name, *options = arguments
    return [sys.executable, "-m", "tidelog", name, "--data", str(directory), *options]


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(directory, *arguments), capture_output=True, text=True, timeout=TIMEOUT_S
    )


@contextmanager
def started(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on by itself, with a live view if it wants one."""
    environment = {key: value for key, value in os.environ.items() if key != "TIDELOG_NO_VIEW"}
    process = subprocess.Popen(
        command(directory, *arguments), stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def survivors(directory: Path) -> list[str]:
    """The command lines of processes that work for the cluster in a directory."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and int(each.name) != os.getpid():
            try:
                words = (each / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(word.startswith(str(directory)) for word in words):
                found.append(" ".join(words))
    return found


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def port() -> int:
    return free_port_of_a_cluster(brokers=3)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Where a cluster may be; whatever a failed test leaves is stopped."""
    directory = tmp_path / "cluster"
    yield directory
    run(directory, "down")


@pytest.mark.parametrize(
    ("number", "moment", "detach"),
    [
        (signal.SIGINT, "links/pid", ()),
        (signal.SIGTERM, "links/pid", ("--detach",)),
        (signal.SIGTERM, "node-100/pid", ()),
        (signal.SIGINT, "node-102/pid", ("--detach",)),
        (signal.SIGHUP, "view/pid", ()),
        (signal.SIGTERM, "view/pid", ("--detach",)),
    ],
    ids=str,
)
def test_an_interrupt_at_any_moment_of_the_start_leaves_nothing_behind(
    home: Path, port: int, number: signal.Signals, moment: str, detach: tuple[str, ...]
) -> None:
    arguments = ("up", "--dev", "--port", str(port), "--view-port", "0", *detach)
    with started(home, *arguments) as up:
        until((home / moment).exists)
        up.send_signal(number)
        _, said = up.communicate(timeout=TIMEOUT_S)

    assert survivors(home) == []
    assert "Traceback" not in said
    assert up.returncode in (0, 1)


def test_a_node_that_does_not_come_up_leaves_nothing_behind(home: Path, port: int) -> None:
    created = run(home, "up", "--dev", "--detach", "--no-view", "--port", str(port))
    assert created.returncode == 0, created.stderr
    assert run(home, "down").returncode == 0
    identity = home / "node-102" / "data" / "meta.properties"
    identity.write_text(identity.read_text().replace("node.id=102", "node.id=7"))

    for way in ((), ("--detach",)):
        failed = run(home, "up", "--dev", *way)
        assert failed.returncode == 1
        assert "node 102 ended during its start" in failed.stderr
        assert "Traceback" not in failed.stderr
        assert survivors(home) == []


def test_the_end_of_all_nodes_is_that_of_the_links_too(home: Path, port: int) -> None:
    arguments = ("up", "--dev", "--no-view", "--port", str(port))
    with started(home, *arguments) as up:
        assert up.stderr is not None
        while not up.stderr.readline().startswith("ready"):
            pass
        for node in LocalCluster.open(home).nodes.values():
            node.kill()
        up.communicate(timeout=TIMEOUT_S)

    assert up.returncode == 1
    assert survivors(home) == []


def test_a_port_that_links_need_is_named_with_the_way_out(home: Path, port: int) -> None:
    taken = port + LINK_PORT_DISTANCE + 3
    arguments = ("up", "--dev", "--detach", "--no-view")

    with socket.create_server(("127.0.0.1", taken)):
        refused = run(home, *arguments, "--port", str(port))
        assert refused.returncode == 1
        assert f"port {taken} is taken by another program, and links" in refused.stderr
        assert "--port " in refused.stderr
        assert not home.exists()

    assert run(home, *arguments, "--port", str(port)).returncode == 0
    assert run(home, "down").returncode == 0
    with socket.create_server(("127.0.0.1", taken)):
        refused = run(home, *arguments)
        assert refused.stderr == (
            f"port {taken} is taken by another program, and links between nodes need it: "
            "free it first\n"
        )
        proxies = [sys.executable, "-m", "tidelog.local.link_proxies", str(home)]
        said = subprocess.run(proxies, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert said.returncode == 1
        assert said.stderr.startswith(f"port {taken} is taken by another program, and links")
    assert survivors(home) == []


def test_a_cluster_that_cannot_be_made_leaves_no_half_of_one(home: Path, port: int) -> None:
    home.mkdir()
    refused = run(home, "up", "--detach", "--port", str(port), "--set", "log.dirs=/elsewhere")
    assert refused.returncode == 1
    assert list(home.iterdir()) == []
