"""The port below all storage: what a log needs from a file system, and nothing else.

Storage is real code in the broker and in the simulator; only the object behind this port
changes. Paths are plain strings with "/" between their parts.

Invariant  Every failing operation raises `DiskError`; a missing file raises `FileMissing`.
Invariant  What was written is durable only after `sync` on the file and, for a new, renamed or
           removed name, `sync_directory` on its directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidelog.model.errors import DiskError

Buffer = bytes | bytearray | memoryview


class FileMissing(DiskError):
    """There is no file of that name."""


class File(Protocol):
    """An open file that only grows at its end or is cut."""

    @property
    def path(self) -> str:
        """Where it was opened or last renamed to."""
        ...

    def size(self) -> int:
        """Its length in bytes; kept in memory, so asking costs nothing."""
        ...

    def append(self, *buffers: Buffer) -> None:
        """Write the buffers one after the other at the end, all of them or raise."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """The bytes from `position`; fewer than `length` only at the end of the file."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def sync(self) -> None:
        """Return once everything written is on stable storage. May block: run it in a job."""
        ...

    def close(self) -> None:
        """Give the file back; reading or writing afterwards is a bug."""
        ...


class FileSystem(Protocol):
    """Names and directories."""

    def open(self, path: str) -> File:
        """Open for reading and appending, creating an empty file when there is none."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """Wall-clock time of the last change of the file's content."""
        ...

    def list(self, directory: str) -> Sequence[str]:
        """Names (not paths) in a directory, sorted; empty when there is no such directory."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Create it with its parents; nothing happens when it is there already."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomically give a file or directory another name, replacing a file of that name.

        Files already open under the old name go on working and know their new path.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file; open handles keep its content readable."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove a directory and everything below it."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def space(self, path: str) -> tuple[int, int]:
        """Bytes in all, and bytes still free, where this path lies."""
        ...


def read_all(files: FileSystem, path: str) -> bytes:
    """The whole content of a small file; `FileMissing` when there is none."""
    if not files.exists(path):
        raise FileMissing(f"{path} does not exist")
    file = files.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def replace_file(files: FileSystem, path: str, content: bytes) -> None:
    """Replace a small file at once, but not durably: after a power cut anything may be there."""
    temporary = path + ".tmp"
    if files.exists(temporary):
        files.remove(temporary)
    file = files.open(temporary)
    try:
        file.append(content)
    finally:
        file.close()
    files.rename(temporary, path)


def write_atomically(files: FileSystem, path: str, content: bytes) -> None:
    """Replace a small file so that after a crash it has the old or the new content, never a mix."""
    temporary = path + ".tmp"
    write_whole(files, temporary, content)
    files.rename(temporary, path)
    files.sync_directory(path.rpartition("/")[0])


def write_whole(files: FileSystem, path: str, content: bytes) -> None:
    """Write a small file anew; its content is durable, its name is not."""
    if files.exists(path):
        files.remove(path)
    file = files.open(path)
    try:
        file.append(content)
        file.sync()
    finally:
        file.close()
