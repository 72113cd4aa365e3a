"""A file beside a log segment that is opened only when it is written to.

A broker with ten thousand partitions has three of these per segment; nearly all of them rest.

Invariant  While nothing is written, no descriptor is held; reading opens and closes the file.
Invariant  The file on disk has exactly the bytes that were appended, never room kept for more.
"""

from __future__ import annotations

from tidelog.storage.filesystem import Buffer, File, FileSystem, read_all


class LazyFile:
    """One small file by name, there or not."""

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
