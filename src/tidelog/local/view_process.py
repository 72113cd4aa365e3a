"""The live view of a cluster on this machine, as a process of its own.

    DIR/view/pid           its process, while it runs
    DIR/view/url           where a browser finds it, with the token; only its owner may read it
    DIR/view/view.log      what it has said
    DIR/view/development   there while the cluster is one for development, on which the view may act

Invariant  The view is never part of a node: it may end, or be killed, and no node notices.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidelog.local.node_process import NodeTrouble, sight

DEFAULT_VIEW_PORT: Final = 8080
URL_FILE_VARIABLE: Final = "TIDELOG_VIEW_URL_FILE"
"""Where the process leaves its address for whoever started it, instead of saying it aloud."""
_POLL_S: Final = 0.01
_START_WITHIN_S: Final = 20.0
_STOP_WITHIN_S: Final = 5.0


class ViewProcess:
    """Starts, finds and ends the view of the cluster in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._cluster = directory
        self._home = directory / "view"
        self._pid_file = self._home / "pid"
        self._url_file = self._home / "url"
        self._development = self._home / "development"
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def may_act(self) -> bool:
        """Whether the cluster was started for development."""
        return self._development.exists()

    def allow_acting(self, allowed: bool) -> None:
        """Say what the cluster is for, from its next start on."""
        if allowed:
            self._home.mkdir(exist_ok=True)
            self._development.touch()
        else:
            self._development.unlink(missing_ok=True)

    @property
    def pid(self) -> int | None:
        try:
            number, born = self._pid_file.read_text(encoding="utf-8").splitlines()
            pid = int(number)
        except (FileNotFoundError, ValueError):
            return None
        seen = sight(pid)
        return pid if seen is not None and seen.born == born else None

    @property
    def url(self) -> str | None:
        """Where a browser finds it, with the token that lets it act; None when it does not run."""
        if self.pid is None:
            return None
        try:
            return self._url_file.read_text(encoding="utf-8").strip() or None
        except FileNotFoundError:
            return None

    def start(self, port: int | None = None) -> str:
        """Start it on a port, or on the first that is free; where it is found."""
        if self.pid is not None:
            raise NodeTrouble("the view is already running")
        self._home.mkdir(exist_ok=True)
        self._url_file.unlink(missing_ok=True)
        command = [sys.executable, "-P", "-m", "tidelog", "view", "--data", str(self._cluster)]
        command += [] if port is None else ["--port", str(port)]
        with (self._home / "view.log").open("wb") as log:
            child = self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, URL_FILE_VARIABLE: str(self._url_file)},
            )
        if (seen := sight(child.pid)) is not None:
            self._pid_file.write_text(f"{child.pid}\n{seen.born}\n", encoding="utf-8")
        deadline = time.monotonic() + _START_WITHIN_S
        while (url := self.url) is None:
            if child.poll() is not None or time.monotonic() > deadline:
                said = (self._home / "view.log").read_text(encoding="utf-8", errors="replace")
                child.kill()
                child.wait()
                raise NodeTrouble(f"the view did not start: {' '.join(said.split()) or 'no word'}")
            time.sleep(_POLL_S)
        return url

    def stop(self) -> bool:
        """End it; whether it ran."""
        pid = self.pid
        if pid is None:
            return False
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            deadline = time.monotonic() + _STOP_WITHIN_S
            while self.pid is not None and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        if self._child is not None:
            self._child.wait(_STOP_WITHIN_S)
        for file in (self._pid_file, self._url_file):
            file.unlink(missing_ok=True)
        return True

    def delete(self) -> None:
        """End it, and remove what it has left."""
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)
