"""The `.lock` file that keeps a data directory for one process.

Invariant  Two processes never hold the same directory, be they both ours or one of them Apache
           Kafka: the file is locked in both ways the system offers (flock, and the record lock
           that Java takes).
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from tidelog.model.errors import TidelogError
from tidelog.shell.os_errors import disk_error


class DirectoryInUse(TidelogError):
    """Another process works in this data directory."""


class DirectoryLock:
    """Held from construction until `release` or the end of the process."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/.lock"
        try:
            os.makedirs(directory, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise disk_error("lock", self._path, error) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError as error:
            holder = os.pread(self._fd, 20, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise DirectoryInUse(
                f"{directory} is in use by {who}: stop that one or choose another directory "
                f"(log.dirs)"
            ) from error
        except OSError as error:
            os.close(self._fd)
            raise disk_error("lock", self._path, error) from error

    def release(self) -> None:
        """Let another process have the directory. The file stays: its name is not the lock."""
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
        os.close(self._fd)
