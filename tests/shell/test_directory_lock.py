from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.model.errors import DiskError
from tidelog.shell.directory_lock import DirectoryInUse, DirectoryLock

HOLD_RECORD_LOCK = """
import fcntl, sys
held = open(sys.argv[1], "w")
fcntl.lockf(held, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_directory_has_one_holder_at_a_time(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    lock = DirectoryLock(directory)
    with pytest.raises(DirectoryInUse, match=f"in use by process {os.getpid()}"):
        DirectoryLock(directory)
    lock.release()
    DirectoryLock(directory).release()


def test_a_directory_locked_the_way_java_does_it_is_respected(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_RECORD_LOCK, str(tmp_path / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(DirectoryInUse, match="another process"):
            DirectoryLock(str(tmp_path))
        other.communicate()
    DirectoryLock(str(tmp_path)).release()


def test_a_directory_that_cannot_be_made_is_a_disk_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="cannot lock"):
        DirectoryLock(str(tmp_path / "file" / "data"))
