"""One node as an operating system process, known by the pid file in its directory.

Invariant  A pid file names a process by its number and its moment of birth, so a number that the
           system has given to someone else is never taken for the node and never signalled.
Invariant  A node runs in a session of its own: a Ctrl-C in the terminal that started it reaches
           the command, never the node.
Invariant  Why a node has ended can be asked for as long as it is not started again, by anybody: it
           says so itself, or whoever killed it does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from tidelog.model.errors import TidelogError
from tidelog.shell.ending import Cause, Ending, leave, read, reserve

_POLL_S = 0.01
_WITHOUT_A_WORD = (
    "without a word, as after kill -9, the out-of-memory killer, a crash of Python or a power cut"
)
_STOP_WITHIN_S = 70.0
"""A node that cannot stop cleanly gives up after a minute; then it has ended, too."""


class NodeState(StrEnum):
    """What the operating system says about a node."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class NodeTrouble(TidelogError):
    """A node cannot be started, stopped or signalled; the message says why."""


class Sighting(NamedTuple):
    """A process that exists: when it was born, in the system's own words, and its state."""

    born: str
    state: NodeState


def sight(pid: int) -> Sighting | None:
    """What is known of a process; None when it has ended, reaped or not."""
    if Path("/proc/self/stat").exists():
        return sight_in_proc(pid)
    return sight_with_ps(pid)


def sight_in_proc(pid: int) -> Sighting | None:
    """On Linux; the boot is part of the birth, because process clocks start anew with it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name before the last parenthesis may hold spaces and parentheses itself.
    fields = text.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    state = NodeState.PAUSED if fields[0] in "Tt" else NodeState.RUNNING
    return Sighting(f"{boot} {fields[19]}", state)


def sight_with_ps(pid: int) -> Sighting | None:
    """Wherever there is no /proc."""
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    letter, _, born = answer.stdout.strip().partition(" ")
    if not born or letter.startswith("Z"):
        return None
    state = NodeState.PAUSED if letter.startswith("T") else NodeState.RUNNING
    return Sighting(" ".join(born.split()), state)


class NodeProcess:
    """Starts, watches and signals the node whose files lie in `directory`."""

    def __init__(self, node_id: int, directory: Path) -> None:
        self.node_id = node_id
        self.directory = directory
        self.properties = directory / "node.properties"
        self.log = directory / "node.log"
        self.data = directory / "data"
        self._pid_file = directory / "pid"
        self._ending_file = directory / "ending"
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """The number of the running (or paused) process."""
        found = self._find()
        return None if found is None else found[0]

    @property
    def state(self) -> NodeState:
        found = self._find()
        return NodeState.STOPPED if found is None else found[1].state

    @property
    def last_ending(self) -> Ending | None:
        """How the process ended; None while there is one, and before the first."""
        if self.state is not NodeState.STOPPED:
            return None
        if (found := read(self._ending_file)) is not None:
            return found
        if self._ending_file.exists():
            return Ending(Cause.KILLED, None, _WITHOUT_A_WORD)
        if self._pid_file.exists():
            return Ending(Cause.UNKNOWN, None, "it was started by a version that did not note it")
        return None

    @property
    def ending(self) -> str:
        """How the process this object started has ended, in words."""
        code = None if self._child is None else self._child.poll()
        if code is None:
            return "not by this command"
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    @property
    def ended_cleanly(self) -> bool:
        """Whether the process this object started has ended as a node ends when it is asked to."""
        return self._child is not None and self._child.poll() == 0

    def start(self) -> None:
        """Start the process; it is not ready yet when this returns."""
        if (pid := self.pid) is not None:
            raise NodeTrouble(f"node {self.node_id} is already running with pid {pid}")
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        # -P: a module of the user's in the current directory must not stand in for a real one.
        command = [sys.executable, "-P", "-m", "tidelog.shell", "--config", str(self.properties)]
        command += ["--ending", str(self._ending_file), "--log", str(self.log)]
        reserve(self._ending_file)
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._remember(self._child.pid)
        except BaseException:  # a node that nobody could find again must not go on running
            self._child.kill()
            self._child.wait()
            raise

    def _remember(self, pid: int) -> None:
        """Write the pid file."""
        seen = sight(pid)
        if seen is None:
            return
        try:
            self._pid_file.write_text(f"{pid}\n{seen.born}\n", encoding="utf-8")
        except OSError as error:
            raise NodeTrouble(f"{self._pid_file} cannot be written: {error.strerror}") from error

    def kill(self) -> None:
        """SIGKILL: no clean-up, no marker, as if the machine had lost power to this process."""
        self._signal(signal.SIGKILL)
        self._wait_until_stopped(10.0)
        if read(self._ending_file) is None:  # else it was quicker
            leave(self._ending_file, Ending(Cause.KILLED, None, "SIGKILL, sent by tidelog"))

    def stop(self, timeout_s: float = _STOP_WITHIN_S) -> None:
        """SIGTERM, then wait for the clean end."""
        # A paused process keeps the signal pending until it runs again.
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT, must_exist=False)
        self._wait_until_stopped(timeout_s)

    def pause(self) -> None:
        """SIGSTOP: the process is there, its sockets are open, and nothing answers."""
        self._signal(signal.SIGSTOP)
        self._wait_for(lambda: self.state is not NodeState.RUNNING, "pause", 10.0)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)
        self._wait_for(lambda: self.state is not NodeState.PAUSED, "resume", 10.0)

    def last_words(self, lines: int = 8) -> str:
        """The end of what the node has logged since this object started it."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            size = os.fstat(log.fileno()).st_size
            start = self._log_start if self._log_start <= size else 0  # replaced when it was full
            log.seek(max(start, size - 16_384))
            text = log.read().decode("utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _find(self) -> tuple[int, Sighting] | None:
        if self._child is not None and (code := self._child.poll()) is not None and code < 0:
            self._note_signal(signal.Signals(-code))
        try:
            number, born = self._pid_file.read_text(encoding="utf-8").splitlines()
            pid = int(number)
        except (FileNotFoundError, ValueError):
            return None
        seen = sight(pid)
        return (pid, seen) if seen is not None and seen.born == born else None

    def _note_signal(self, number: signal.Signals) -> None:
        """Only a parent learns by which signal a process ended."""
        if self._ending_file.exists() and read(self._ending_file) is None:
            leave(self._ending_file, Ending(Cause.KILLED, None, number.name))

    def _signal(self, number: signal.Signals, *, must_exist: bool = True) -> None:
        pid = self.pid
        if pid is None:
            if must_exist:
                raise NodeTrouble(f"node {self.node_id} is not running")
            return
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise NodeTrouble(f"node {self.node_id} (pid {pid}) belongs to another user") from error

    def _wait_until_stopped(self, timeout_s: float) -> None:
        self._wait_for(lambda: self.state is NodeState.STOPPED, "stop", timeout_s)
        if self._child is not None:
            self._child.wait(timeout_s)
        self._pid_file.unlink(missing_ok=True)

    def _wait_for(self, reached: Callable[[], bool], verb: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not reached():
            if time.monotonic() > deadline:
                raise NodeTrouble(f"node {self.node_id} did not {verb} within {timeout_s:g} s")
            time.sleep(_POLL_S)
