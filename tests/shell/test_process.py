from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidelog.shell.ending import Cause, Ending, leave, read, reserve

SCRIPT = """
import socket
import sys
from functools import partial
from pathlib import Path
from tidelog.shell.ending import leave, reserve
from tidelog.shell.process import run_node
from tidelog.model.config import NodeConfig
from tidelog.model.errors import DiskError, InvariantBroken, TidelogError
from tidelog.node.core.effects import Announce, Lane, OpenListeners, RunJob, Send, Stopped
from tidelog.node.core.inputs import FrameArrived, JobFinished, StopRequested
from tidelog.observe.events import NodeStarted

class Node:
    next_deadline_ms = None

    def __init__(self, config, files, entropy):
        self.config = config

    def start(self, now):
        if MODE == "late":
            self.rival = socket.create_server(("127.0.0.1", self.config.endpoints[0].port))
        started = NodeStarted(
            cluster_id="c", roles=("broker",), cause=self.config.listeners[0]
        )
        return [Announce(started), OpenListeners(("PLAINTEXT",))]

    def step(self, happened):
        if isinstance(happened, FrameArrived):
            return self.handle(happened.connection, bytes(happened.frame))
        if isinstance(happened, StopRequested) and MODE != "deaf":
            return [Stopped("the disk is gone" if MODE == "sick" else None)]
        return []

    def handle(self, connection, frame):
        if frame == b"break":
            raise InvariantBroken("the high watermark went back")
        if frame == b"bug":
            return [][0]
        if frame == b"disk":
            raise DiskError("cannot sync /d: the disk failed")
        if frame == b"job":
            return [RunJob(1, lambda: 1 / 0, Lane.FLUSHES)]
        return [Send(connection, [frame])]

MODE, port, directory = sys.argv[1:]
config = NodeConfig.from_properties({
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0",
    "log.dirs": directory,
})
ending = Path(directory, "ending")
ending.parent.mkdir(exist_ok=True)
reserve(ending)
try:
    sys.exit(run_node(config, Node, directory + "/events.jsonl", partial(leave, ending)))
except TidelogError as error:
    sys.exit(f"refused: {error}")
"""


class Process:
    """A node in a process of its own, and one connection to it."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        self.said = b""
        assert child.stderr is not None
        while (found := re.search(rb"listens on PLAINTEXT://127.0.0.1:(\d+)\n", self.said)) is None:
            line = child.stderr.readline()
            assert line, self.said
            self.said += line
        self.port = int(found[1])

    def ask(self, body: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as peer:
            peer.sendall(len(body).to_bytes(4, "big") + body)
            return peer.recv(1000)[4:]

    def end(self) -> int:
        assert self.child.stderr is not None
        self.said += self.child.stderr.read()
        return self.child.wait(30)


@contextmanager
def node_process(mode: str, directory: Path, port: int = 0) -> Iterator[Process]:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, mode, str(port), str(directory)], stderr=subprocess.PIPE
    ) as child:
        try:
            yield Process(child)
        finally:
            child.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_node_in_an_orderly_way(tmp_path: Path, number: signal.Signals) -> None:
    with node_process("echo", tmp_path) as process:
        assert process.ask(b"hello") == b"hello"
        process.child.send_signal(number)
        assert process.end() == 0
    assert read(tmp_path / "ending") == Ending(Cause.CLEAN, 0, number.name)
    assert b"node 1 started" in process.said
    assert f"PLAINTEXT://127.0.0.1:{process.port}".encode() in process.said.splitlines()[0]
    assert '"event":"NodeStarted"' in (tmp_path / "events.jsonl").read_text()


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    with node_process("deaf", tmp_path) as process:
        process.child.send_signal(signal.SIGTERM)
        assert process.ask(b"still here") == b"still here"
        process.child.send_signal(signal.SIGTERM)
        assert process.end() == 128 + signal.SIGTERM
    told = Ending(Cause.KILLED, 128 + signal.SIGTERM, "a second SIGTERM while it stopped")
    assert read(tmp_path / "ending") == told


def test_a_node_that_could_not_close_its_logs_fails(tmp_path: Path) -> None:
    with node_process("sick", tmp_path) as process:
        process.child.send_signal(signal.SIGTERM)
        assert process.end() == 1
    assert b"node 1 stops: the disk is gone" in process.said
    assert read(tmp_path / "ending") == Ending(Cause.FAILED, 1, "the disk is gone")


@pytest.mark.parametrize(
    ("request_body", "code", "words"),
    [
        (b"break", 70, b"InvariantBroken: the high watermark went back"),
        (b"bug", 70, b"IndexError"),
        (b"job", 70, b"ZeroDivisionError"),
        (b"disk", 74, b"cannot sync /d: the disk failed"),
    ],
)
def test_an_exception_in_the_node_stops_the_process_and_says_why(
    tmp_path: Path, request_body: bytes, code: int, words: bytes
) -> None:
    with node_process("echo", tmp_path) as process:
        assert process.ask(request_body) == b""
        assert process.end() == code
    assert b"node 1 stops at once" in process.said
    assert words in process.said
    told = read(tmp_path / "ending")
    assert told is not None and told.exit_code == code
    assert told.cause is (Cause.FAILED if code == 74 else Cause.CRASHED)
    assert words.decode() in told.reason


def test_the_last_word_needs_no_more_room_than_was_taken_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "ending"
    reserve(path)
    room = path.stat()
    assert read(path) is None
    leave(path, Ending(Cause.CRASHED, 70, "\N{GRINNING FACE}" * 10_000))
    assert (path.stat().st_size, path.stat().st_ino) == (room.st_size, room.st_ino)
    told = read(path)
    assert told is not None and told.reason.startswith("\N{GRINNING FACE}")


def test_a_last_word_that_cannot_be_written_or_read_is_none(tmp_path: Path) -> None:
    leave(tmp_path / "nowhere", Ending(Cause.CLEAN, 0, "SIGTERM"))
    assert read(tmp_path / "nowhere") is None
    (tmp_path / "torn").write_text('{"cause": "cle')
    assert read(tmp_path / "torn") is None


def test_an_exception_stops_the_process_even_when_nobody_hears_why(tmp_path: Path) -> None:
    with node_process("echo", tmp_path) as process:
        assert process.child.stderr is not None
        process.child.stderr.close()
        assert process.ask(b"bug") == b""
        assert process.child.wait(30) == 70


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    with node_process("echo", tmp_path) as process:
        second = subprocess.run(
            [sys.executable, "-c", SCRIPT, "echo", "0", str(tmp_path)],
            capture_output=True,
            check=False,
        )
        assert process.ask(b"undisturbed") == b"undisturbed"
    assert second.returncode == 1
    assert f"in use by process {process.child.pid}".encode() in second.stderr


def test_a_port_in_use_is_refused_before_the_node_is_built(tmp_path: Path) -> None:
    with node_process("echo", tmp_path / "one") as process:
        second = subprocess.run(
            [sys.executable, "-c", SCRIPT, "echo", str(process.port), str(tmp_path / "two")],
            capture_output=True,
            check=False,
        )
    assert second.returncode == 1
    assert b"another process listens there" in second.stderr
    assert b"started" not in second.stderr


def test_a_port_that_is_taken_between_binding_and_opening_stops_the_node(tmp_path: Path) -> None:
    late = subprocess.run(
        [sys.executable, "-c", SCRIPT, "late", "0", str(tmp_path)],
        capture_output=True,
        check=False,
    )
    assert late.returncode == 1
    assert b"node 1 stops: cannot listen on PLAINTEXT://127.0.0.1:" in late.stderr
    assert b"Traceback" not in late.stderr
