"""The command as a process of its own, and the processes that Spark makes below it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple


class Below(NamedTuple):
    """A process below another one."""

    pid: int
    parent: int
    command: bytes


def tidelog(
    *arguments: str,
    stdout: IO[str] | int = subprocess.PIPE,
    stderr: IO[str] | int = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """The command, in a process group of its own, heeding Ctrl-C wherever the tests run."""
    return subprocess.Popen(
        [sys.executable, "-m", "tidelog", "pipelines", *arguments],
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def kill_group(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """SIGKILL to all that the process has started; it may itself be gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def processes_below(root: int) -> list[Below]:
    """All that a process has started, and what those have started."""
    found: dict[int, Below] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text()
            command = (entry / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        parent = int(stat.rsplit(")", 1)[1].split()[1])
        found[int(entry.name)] = Below(int(entry.name), parent, command)

    def is_below(pid: int) -> bool:
        while pid in found:
            pid = found[pid].parent
            if pid == root:
                return True
        return False

    return [each for each in found.values() if is_below(each.pid)]


def python_workers(root: int) -> list[int]:
    """The Python workers of Spark below a process: children of its daemons."""
    below = processes_below(root)
    daemons = {each.pid: each.parent for each in below if b"pyspark.daemon" in each.command}
    return sorted(pid for pid, parent in daemons.items() if parent in daemons)
