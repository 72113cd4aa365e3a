"""A process beside the nodes of a local cluster, known by the pid file in its directory.

Invariant  A pid file names a process by its number and its moment of birth, as those of nodes do.
Invariant  It runs in a session of its own: a Ctrl-C in the terminal does not reach it.
Invariant  A start that fails or is interrupted leaves no process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from tidelog.local.node_process import NodeTrouble, sight

_POLL_S: Final = 0.01
_START_WITHIN_S: Final = 20.0
_STOP_WITHIN_S: Final = 5.0

Ready = TypeVar("Ready")


class SideProcess:
    """Starts, finds and ends the process whose files lie in `home`."""

    def __init__(self, name: str, home: Path) -> None:
        self.home = home
        self._name = name
        self._pid_file = home / "pid"
        self._log = home / f"{name}.log"
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        try:
            number, born = self._pid_file.read_text(encoding="utf-8").splitlines()
            pid = int(number)
        except (FileNotFoundError, ValueError):
            return None
        seen = sight(pid)
        return pid if seen is not None and seen.born == born else None

    def start(
        self,
        arguments: Sequence[str],
        ready: Callable[[], Ready | None],
        environment: Mapping[str, str] | None = None,
    ) -> Ready:
        """Run `python` with these arguments and wait until `ready` knows something; what it is."""
        if self.pid is not None:
            raise NodeTrouble(f"the {self._name} is already running")
        self.home.mkdir(exist_ok=True)
        with self._log.open("wb") as log:
            child = self._child = subprocess.Popen(
                [sys.executable, "-P", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        try:
            if (seen := sight(child.pid)) is not None:
                self._pid_file.write_text(f"{child.pid}\n{seen.born}\n", encoding="utf-8")
            deadline = time.monotonic() + _START_WITHIN_S
            while (found := ready()) is None:
                if child.poll() is not None or time.monotonic() > deadline:
                    said = self._log.read_text(encoding="utf-8", errors="replace").split()
                    words = " ".join(said) or "it said nothing"
                    raise NodeTrouble(f"the {self._name} did not start: {words}")
                time.sleep(_POLL_S)
        except BaseException:
            child.kill()
            child.wait()
            raise
        return found

    def signal(self, number: signal.Signals) -> None:
        if (pid := self.pid) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> bool:
        """End it; whether it ran."""
        pid = self.pid
        if pid is None:
            return False
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.signal(number)
            deadline = time.monotonic() + _STOP_WITHIN_S
            while time.monotonic() < deadline and sight(pid) is not None:
                time.sleep(_POLL_S)
        if self._child is not None:
            self._child.wait(_STOP_WITHIN_S)
        self._pid_file.unlink(missing_ok=True)
        return True

    def delete(self) -> None:
        """End it, and remove what it has left."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)
