"""The file system port on a real disk.

Invariant  There is one `OsFile` per open name, whoever opened it: its size is known in one place.
Invariant  After a failed `sync` every later `sync` of that file fails: the kernel may have
           dropped what it could not write, so a retry that succeeds would prove nothing.
Invariant  The lock of the descriptor pool guards the table of names; no thread waits for a read,
           write or sync of another.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from tidelog.model.errors import DiskError, invariant
from tidelog.shell.descriptors import Descriptor, DescriptorPool
from tidelog.shell.open_files import OpenFiles
from tidelog.shell.os_errors import disk_error
from tidelog.storage.filesystem import Buffer

_MOST_BUFFERS: Final = 512  # the least IOV_MAX of our platforms is 1024

if sys.platform == "darwin":
    import fcntl

    def _sync_data(fd: int) -> None:
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync there stops at the drive's cache

else:
    _sync_data = os.fdatasync


class OsFile:
    """One open file. Appends happen on one thread; reading and syncing on any."""

    __slots__ = ("_files", "_pool", "_size", "_sync_failure", "_users", "descriptor")

    def __init__(self, files: OsFileSystem, pool: DescriptorPool, descriptor: Descriptor) -> None:
        self._files = files
        self._pool = pool
        self.descriptor = descriptor
        self._size = os.fstat(descriptor.fd).st_size
        self._users = 1
        self._sync_failure: str | None = None

    @property
    def path(self) -> str:
        return self.descriptor.path

    def size(self) -> int:
        return self._size

    def append(self, *buffers: Buffer) -> None:
        fd = self._pool.borrow(self.descriptor)
        try:
            if len(buffers) == 1:
                length = len(buffers[0])
                written = os.pwrite(fd, buffers[0], self._size)
            else:
                length = sum(map(len, buffers))
                written = os.pwritev(fd, buffers[:_MOST_BUFFERS], self._size)
            if written < length:
                _write_rest(fd, b"".join(buffers), written, self._size)
            self._size += length
        except OSError as error:
            self._undo_append(fd)
            raise disk_error("append to", self.path, error) from error
        finally:
            self._pool.give_back(self.descriptor)

    def read(self, position: int, length: int) -> bytes:
        length = min(length, self._size - position)
        if length <= 0:
            return b""
        fd = self._pool.borrow(self.descriptor)
        try:
            content = os.pread(fd, length, position)
            while len(content) < length:
                more = os.pread(fd, length - len(content), position + len(content))
                if not more:
                    break
                content += more
            return content
        except OSError as error:
            raise disk_error("read", self.path, error) from error
        finally:
            self._pool.give_back(self.descriptor)

    def truncate(self, size: int) -> None:
        invariant(size <= self._size, f"{self.path} is cut, never stretched")
        fd = self._pool.borrow(self.descriptor)
        try:
            os.ftruncate(fd, size)
            self._size = size
        except OSError as error:
            raise disk_error("truncate", self.path, error) from error
        finally:
            self._pool.give_back(self.descriptor)

    def sync(self) -> None:
        if self._sync_failure is not None:
            raise DiskError(self._sync_failure)
        fd = self._pool.borrow(self.descriptor)
        try:
            _sync_data(fd)
        except OSError as error:
            failure = disk_error("sync", self.path, error)
            self._sync_failure = str(failure)
            raise failure from error
        finally:
            self._pool.give_back(self.descriptor)

    def borrow_descriptor(self) -> int:
        """The number the kernel knows this file by, good until `give_descriptor_back`."""
        return self._pool.borrow(self.descriptor)

    def give_descriptor_back(self) -> None:
        self._pool.give_back(self.descriptor)

    def hold(self) -> None:
        """One more user: the content stays readable until that user closes the file, too."""
        with self._pool.lock:
            invariant(self._users > 0, f"{self.path} is used after it was closed")
            self._users += 1

    def close(self) -> None:
        with self._pool.lock:
            invariant(self._users > 0, f"{self.path} is closed twice")
            self._users -= 1
            if self._users == 0:
                self._files.forget(self)
                self._pool.close(self.descriptor)

    def _undo_append(self, fd: int) -> None:
        """Leave no part of a failed append behind, as far as the disk lets us."""
        try:
            os.ftruncate(fd, self._size)
        except OSError:
            return  # the append's own failure is what the caller must hear


def _write_rest(fd: int, content: bytes, written: int, start: int) -> None:
    view = memoryview(content)
    while written < len(view):
        written += os.pwrite(fd, view[written:], start + written)


class OsFileSystem:
    """Names and directories of this machine."""

    def __init__(self, max_descriptors: int = 512) -> None:
        self._pool = DescriptorPool(max_descriptors)
        self._open_files: OpenFiles[OsFile] = OpenFiles()

    @property
    def open_descriptors(self) -> int:
        """How many descriptors the open files take at this moment."""
        return self._pool.open_count

    def open(self, path: str) -> OsFile:
        with self._pool.lock:
            file = self._open_files.get(path)
            if file is not None:
                file.hold()
                return file
            descriptor = Descriptor(path)
            self._pool.open(descriptor, create=True)
            try:
                file = OsFile(self, self._pool, descriptor)
            except OSError as error:
                self._pool.close(descriptor)
                raise disk_error("open", path, error) from error
            self._open_files.put(path, file)
            return file

    def forget(self, file: OsFile) -> None:
        """Drop a file nobody uses any more from the table of names."""
        if self._open_files.get(file.path) is file:
            self._open_files.pop(file.path)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def size(self, path: str) -> int:
        try:
            return os.stat(path).st_size
        except OSError as error:
            raise disk_error("look at", path, error) from error

    def modified_ms(self, path: str) -> int:
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except OSError as error:
            raise disk_error("look at", path, error) from error

    def list(self, directory: str) -> Sequence[str]:
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise disk_error("list", directory, error) from error

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_directory(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise disk_error("create", path, error) from error

    def rename(self, source: str, target: str) -> None:
        with self._pool.lock:
            self._keep_content([target])
            try:
                os.rename(source, target)
            except OSError as error:
                raise disk_error(f"rename to {target}", source, error) from error
            self._open_files.pop(target)
            for path in self._names_at_or_below(source, target):
                file = self._open_files.pop(path)
                if file is not None:
                    file.descriptor.path = target + path[len(source) :]
                    self._open_files.put(file.path, file)

    def remove(self, path: str) -> None:
        with self._pool.lock:
            self._keep_content([path])
            try:
                os.unlink(path)
            except OSError as error:
                raise disk_error("remove", path, error) from error
            self._open_files.pop(path)

    def remove_directory(self, path: str) -> None:
        from shutil import rmtree  # a start need not wait for it

        with self._pool.lock:
            names = self._names_at_or_below(path, path)
            self._keep_content(names)
            for name in names:
                self._open_files.pop(name)
        try:
            rmtree(path)
        except OSError as error:
            raise disk_error("remove", path, error) from error

    def sync_directory(self, path: str) -> None:
        try:
            fd = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise disk_error("sync directory", path, error) from error

    def space(self, path: str) -> tuple[int, int]:
        try:
            found = os.statvfs(path)
        except OSError as error:
            raise disk_error("measure", path, error) from error
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail

    def _names_at_or_below(self, path: str, lies_at: str) -> Sequence[str]:
        if self._open_files.get(path) is not None:
            return [path]
        return self._open_files.below(path, lies_at) if os.path.isdir(lies_at) else ()

    def _keep_content(self, paths: Sequence[str]) -> None:
        """These names go away; whoever has such a file open can go on reading it."""
        for path in paths:
            file = self._open_files.get(path)
            if file is not None:
                self._pool.keep_without_name(file.descriptor)
