"""A process is known by its number and its birth."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.local.node_process import (
    NodeProcess,
    NodeState,
    NodeTrouble,
    Sighting,
    sight,
    sight_with_ps,
)
from tidelog.shell.ending import Cause, Ending, reserve


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing until it is ended."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
    yield process
    process.kill()
    process.communicate()


def adopt(directory: Path, process: subprocess.Popen[bytes]) -> NodeProcess:
    seen = sight(process.pid)
    assert seen is not None
    (directory / "pid").write_text(f"{process.pid}\n{seen.born}\n")
    return NodeProcess(100, directory)


Sight = Callable[[int], Sighting | None]


@pytest.mark.parametrize("look", [sight, sight_with_ps])
def test_a_process_keeps_its_moment_of_birth(sleeper: subprocess.Popen[bytes], look: Sight) -> None:
    first = look(sleeper.pid)

    assert first is not None
    assert first.state is NodeState.RUNNING
    assert look(sleeper.pid) == first
    assert (look(1) or first).born != first.born


@pytest.mark.parametrize("look", [sight, sight_with_ps])
def test_a_paused_process_is_seen_as_paused(sleeper: subprocess.Popen[bytes], look: Sight) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED)

    seen = look(sleeper.pid)

    assert seen is not None
    assert seen.state is NodeState.PAUSED


@pytest.mark.parametrize("look", [sight, sight_with_ps])
def test_a_process_that_has_ended_is_not_seen_though_nobody_reaped_it(
    sleeper: subprocess.Popen[bytes], look: Sight
) -> None:
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)

    assert look(sleeper.pid) is None


def test_states_follow_the_signals(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    node = adopt(tmp_path, sleeper)

    assert (node.state, node.pid) == (NodeState.RUNNING, sleeper.pid)
    node.pause()
    assert (node.state, node.pid) == (NodeState.PAUSED, sleeper.pid)
    node.resume()
    assert (node.state, node.pid) == (NodeState.RUNNING, sleeper.pid)
    node.kill()
    assert (node.state, node.pid) == (NodeState.STOPPED, None)
    assert sleeper.wait() == -signal.SIGKILL


def test_a_paused_process_can_be_stopped(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    node = adopt(tmp_path, sleeper)
    node.pause()

    node.stop()

    assert sleeper.wait() == -signal.SIGTERM


def test_a_reused_number_is_not_the_node(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    (tmp_path / "pid").write_text(f"{sleeper.pid}\nborn in another life\n")
    node = NodeProcess(100, tmp_path)

    assert node.state is NodeState.STOPPED
    with pytest.raises(NodeTrouble, match="not running"):
        node.kill()
    assert sleeper.poll() is None


@pytest.mark.parametrize("content", ["", "12\n", "twelve\nborn\n"])
def test_a_torn_pid_file_names_nobody(tmp_path: Path, content: str) -> None:
    (tmp_path / "pid").write_text(content)

    assert NodeProcess(100, tmp_path).state is NodeState.STOPPED


def test_last_words_are_the_end_of_the_log(tmp_path: Path) -> None:
    node = NodeProcess(100, tmp_path)
    assert node.last_words() == ""

    node.log.write_text("".join(f"line {n}\n" for n in range(5000)))

    assert node.last_words(2) == "line 4998\nline 4999"


def test_a_node_that_never_ran_has_not_ended(tmp_path: Path) -> None:
    assert NodeProcess(100, tmp_path).last_ending is None


def test_a_node_that_was_killed_by_us_is_known_to_have_been(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    node = adopt(tmp_path, sleeper)
    reserve(tmp_path / "ending")
    assert node.last_ending is None
    node.kill()
    assert NodeProcess(100, tmp_path).last_ending == Ending(
        Cause.KILLED, None, "SIGKILL, sent by tidelog"
    )


def test_a_node_that_ended_without_a_word_is_not_said_to_be_fine(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    node = adopt(tmp_path, sleeper)
    sleeper.kill()
    sleeper.wait()
    before = node.last_ending
    assert before is not None and before.cause is Cause.UNKNOWN  # nobody had asked for a word
    reserve(tmp_path / "ending")
    ended = node.last_ending
    assert ended is not None and ended.cause is Cause.KILLED
    assert "without a word" in ended.reason


def test_a_parent_knows_the_signal_and_tells_everybody(tmp_path: Path) -> None:
    node = NodeProcess(100, tmp_path)
    node.properties.write_text("node.idd=1\n")
    node.start()
    while node.state is not NodeState.STOPPED:
        time.sleep(0.01)
    failed = NodeProcess(100, tmp_path).last_ending
    assert failed is not None and (failed.cause, failed.exit_code) == (Cause.FAILED, 1)
    assert "node.id" in failed.reason
    node.start()
    assert node.pid is not None
    os.kill(node.pid, signal.SIGKILL)
    while node.state is not NodeState.STOPPED:
        time.sleep(0.01)
    assert NodeProcess(100, tmp_path).last_ending == Ending(Cause.KILLED, None, "SIGKILL")
