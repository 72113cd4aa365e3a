"""The port below all storage: what a log needs from a file system, and nothing else.

Storage is real code in the broker and in the simulator; only the object behind this port
changes. Paths are plain strings with "/" between their parts.

Beside the port stands what can be said with it alone: small files read and replaced as a whole, and
files that are opened only when they are written to. A broker with ten thousand partitions has
three of those per segment; nearly all of them rest.

Invariant  Every failing operation raises `DiskError`; a missing file raises `FileMissing`.
Invariant  What was written is durable only after `sync` on the file and, for a new, renamed or
           removed name, `sync_directory` on its directory.
Invariant  While nothing is written, a lazy file holds no descriptor; reading opens and closes it.
Invariant  A lazy file has exactly the bytes that were appended, never room kept for more.
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


class LazyFile:
    """One small file beside a log segment, by name, there or not; opened when it is written to."""

    __slots__ = ("_file", "_files", "path")

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self._file: File | None = None
        self.path = path

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def size(self) -> int:
        """Length in bytes; 0 when there is no such file."""
        if self._file is not None:
            return self._file.size()
        return self._files.size(self.path) if self._files.exists(self.path) else 0

    def read_all(self) -> bytes:
        """The whole content; nothing when there is no such file."""
        if self._file is not None:
            return self._file.read(0, self._file.size())
        return read_all(self._files, self.path) if self._files.exists(self.path) else b""

    def read_tail(self, length: int) -> bytes:
        """The last `length` bytes, or all there are."""
        size = self.size()
        if size == 0:
            return b""
        start = max(0, size - length)
        if self._file is not None:
            return self._file.read(start, size - start)
        file = self._files.open(self.path)
        try:
            return file.read(start, size - start)
        finally:
            file.close()

    def append(self, data: Buffer) -> None:
        file = self._file
        if file is None:
            file = self._file = self._files.open(self.path)
        file.append(data)

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes; a file that is no longer than that stays untouched."""
        if self.size() > size:
            if self._file is None:
                self._file = self._files.open(self.path)
            self._file.truncate(size)

    def ensure_exists(self) -> None:
        """Create an empty file if there is none, for a reader that expects the name."""
        if self._file is None and not self._files.exists(self.path):
            self._files.open(self.path).close()

    def sync(self) -> None:
        """Make what was appended since the last `close` durable. May block: run it in a job."""
        file = self._file
        if file is not None:
            file.sync()

    def close(self) -> None:
        """Give the descriptor back, without making anything durable."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def rename_to(self, path: str) -> None:
        """Give the file another name, if it is there, and go by that name from now on."""
        if self._file is not None or self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.path = path

    def moved_to(self, path: str) -> None:
        """Somebody renamed the file or its directory: go by the new name from now on."""
        self.path = path

    def remove(self) -> None:
        self.close()
        if self._files.exists(self.path):
            self._files.remove(self.path)
