"""The file system port in memory: the disk of the simulator and of every storage test.

It knows at each moment what a loss of power would leave behind (see `crash`), keeps a trace of
what it was asked to do, and fails where it is told to.

Invariant  The same calls give the same disk, the same trace and the same file numbers.
Invariant  As strict as the port allows: a file's sync makes its bytes durable but not its name.
           One thing is kinder than that: a rename between two directories is durable at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from tidelog.model.errors import DiskError, invariant
from tidelog.simulator.disk.disk_operation import (
    Appended,
    DirectoryMade,
    DirectoryRemoved,
    DirectorySynced,
    FileCreated,
    FileCut,
    FileRead,
    FileRemoved,
    FileSynced,
    Operation,
    Renamed,
    SyncFailed,
)
from tidelog.simulator.disk.memory_nodes import DirectoryNode, FileNode, Node, path_of
from tidelog.storage.filesystem import Buffer, FileMissing

SPACE_BYTES: Final = 1 << 40
"""What `space` answers: more than any test will fill."""


class DiskEntry(NamedTuple):
    """One file, or with `content` None one directory, of a disk at rest."""

    path: str
    number: int
    modified_ms: int
    content: bytes | None


DiskImage: TypeAlias = tuple[DiskEntry, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """Make matching operations fail; a failing append leaves its first `written` bytes behind."""

    when: Callable[[Operation], bool]
    message: str
    written: int


class MemoryFile:
    """An open file; `FileSystem.open` makes these."""

    __slots__ = ("_closed", "_disk", "_node", "_prefix")

    def __init__(self, disk: MemoryFileSystem, node: FileNode, prefix: str) -> None:
        self._disk = disk
        self._node = node
        self._prefix = prefix
        self._closed = False

    @property
    def path(self) -> str:
        return self._prefix + path_of(self._node)[1:]

    def size(self) -> int:
        return len(self._node.data)

    def append(self, *buffers: Buffer) -> None:
        self._disk.append_to(self._opened(), b"".join(buffers))

    def read(self, position: int, length: int) -> bytes:
        node = self._opened()
        self._disk.before_read(node, position, length)
        return bytes(node.data[position : position + length])

    def truncate(self, size: int) -> None:
        node = self._opened()
        invariant(size <= len(node.data), f"{self.path} cannot be cut to more than it has")
        self._disk.cut(node, size)

    def sync(self) -> None:
        self._disk.sync_file(self._opened())

    def close(self) -> None:
        self._closed = True

    def _opened(self) -> FileNode:
        invariant(not self._closed, f"{self.path} is used after it was closed")
        return self._node


class MemoryFileSystem:
    """A whole disk, starting blank or from an image; `wall_ms` is the time files are stamped with.

    With `record_trace` off the trace stays empty and memory follows the content of the disk.
    """

    def __init__(self, image: DiskImage = (), *, record_trace: bool = True) -> None:
        self.wall_ms = 0
        self.image = image if record_trace else ()
        self.trace: list[Operation] = []
        self.operation_count = 0
        self.sync_count = 0
        """How often somebody waited for a file or directory to be on disk, or for that to fail."""
        self.last_synced = ""
        self._record_trace = record_trace
        self._faults: list[Fault] = []
        self._root = DirectoryNode(None, "")
        self._next_number = 1
        for entry in image:
            self._place(entry)

    # What the port asks for.

    def open(self, path: str) -> MemoryFile:
        node = self._find(path)
        if isinstance(node, DirectoryNode):
            raise DiskError(f"{path} is a directory")
        if node is None:
            parent, name = self._parent_of(path)
            number = self._next_number
            self._admit(FileCreated(_absolute(path), number))
            self._next_number += 1
            node = FileNode(number, parent, name, self.wall_ms)
            parent.change(((name, node),))
        return MemoryFile(self, node, "/" if path.startswith("/") else "")

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def size(self, path: str) -> int:
        return len(self.file_at(path).data)

    def modified_ms(self, path: str) -> int:
        return self.file_at(path).modified_ms

    def list(self, directory: str) -> Sequence[str]:
        node = self._find(directory)
        return sorted(node.entries) if isinstance(node, DirectoryNode) else []

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), DirectoryNode)

    def make_directory(self, path: str) -> None:
        parent = self._root
        for name in _parts(path):
            node = parent.entries.get(name)
            if node is None:
                node = DirectoryNode(parent, name)
                self._admit(DirectoryMade(path_of(node)))
                parent.change(((name, node),))
            if isinstance(node, FileNode):
                raise DiskError(f"{path_of(node)} is a file, not a directory")
            parent = node

    def rename(self, source: str, target: str) -> None:
        node = self._find(source)
        if node is None or node.parent is None:
            raise FileMissing(f"{source} does not exist")
        parent, name = self._parent_of(target)
        replaced = parent.entries.get(name)
        if replaced is node:
            return
        if replaced is not None and DirectoryNode in (type(node), type(replaced)):
            raise DiskError(f"{target} is there already")
        self._admit(Renamed(_absolute(source), _absolute(target)))
        if parent is node.parent:
            parent.change(((node.name, None), (name, node)))
        else:
            node.parent.change(((node.name, None),))
            parent.change(((name, node),))
            node.parent.sync()
            parent.sync()
        node.parent, node.name = parent, name

    def remove(self, path: str) -> None:
        node = self.file_at(path)
        self._admit(FileRemoved(_absolute(path)))
        node.parent.change(((node.name, None),))

    def remove_directory(self, path: str) -> None:
        self._remove_tree(self._directory(path))

    def sync_directory(self, path: str) -> None:
        directory = self._directory(path)
        self._count_sync(path)
        self._admit(DirectorySynced(path_of(directory)))
        directory.sync()

    def space(self, path: str) -> tuple[int, int]:
        return SPACE_BYTES, SPACE_BYTES

    # What tests and the simulator ask for besides.

    def fail_when(
        self,
        when: Callable[[Operation], bool],
        message: str = "No space left on device",
        *,
        written: int = 0,
    ) -> None:
        """Raise `DiskError` from every operation that `when` is true for, until `heal`."""
        self._faults.append(Fault(when, message, written))

    def heal(self) -> None:
        """Let every operation succeed again. What failed meanwhile stays as it was left."""
        self._faults.clear()

    def damage(self, path: str, position: int, data: bytes) -> None:
        """Overwrite bytes behind everybody's back: a bit flip, a misdirected write."""
        node = self.file_at(path)
        invariant(position + len(data) <= len(node.data), f"{path} ends before the damage does")
        node.data[position : position + len(data)] = data

    @property
    def root(self) -> DirectoryNode:
        """The tree itself, for whoever works out what a crash leaves behind."""
        return self._root

    def file_at(self, path: str) -> FileNode:
        """The file of that name, for whoever replays a trace."""
        node = self._find(path)
        if isinstance(node, DirectoryNode):
            raise DiskError(f"{path} is a directory")
        if node is None:
            raise FileMissing(f"{path} does not exist")
        return node

    # What an open file asks for.

    def append_to(self, node: FileNode, data: bytes) -> None:
        if self._record_trace or self._faults:
            path, position = path_of(node), len(node.data)
            try:
                self._admit(Appended(path, node.number, position, data))
            except _InjectedError as failing:
                if failing.written:
                    self._grow(node, data[: failing.written])
                    self._note(Appended(path, node.number, position, data[: failing.written]))
                raise
        else:
            self.operation_count += 1
        self._grow(node, data)

    def before_read(self, node: FileNode, position: int, length: int) -> None:
        if self._faults:
            self._fail(FileRead(path_of(node), node.number, position, length))

    def cut(self, node: FileNode, size: int) -> None:
        self._admit(FileCut(path_of(node), node.number, size))
        node.cut(size)
        node.modified_ms = self.wall_ms

    def sync_file(self, node: FileNode) -> None:
        self._count_sync(path_of(node))
        try:
            self._admit(FileSynced(path_of(node), node.number))
        except _InjectedError:
            self.fail_sync(node)
            raise
        node.sync()

    def fail_sync(self, node: FileNode) -> None:
        """Carry out a sync that fails: the kernel forgets which pages were still to be written."""
        node.sync_failed = True
        self._note(SyncFailed(path_of(node), node.number))

    def _count_sync(self, path: str) -> None:
        self.sync_count += 1
        self.last_synced = path

    def _grow(self, node: FileNode, data: bytes) -> None:
        node.data += data
        node.modified_ms = self.wall_ms

    def _admit(self, operation: Operation) -> None:
        if self._faults:
            self._fail(operation)
        self._note(operation)

    def _fail(self, operation: Operation) -> None:
        for fault in self._faults:
            if fault.when(operation):
                raise _InjectedError(f"{operation.path}: {fault.message}", fault.written)

    def _note(self, operation: Operation) -> None:
        self.operation_count += 1
        if self._record_trace:
            self.trace.append(operation)

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for name in _parts(path):
            if not isinstance(node, DirectoryNode):
                return None
            node = node.entries.get(name)
        return node

    def _directory(self, path: str) -> DirectoryNode:
        node = self._find(path)
        if not isinstance(node, DirectoryNode):
            raise FileMissing(f"there is no directory {path}")
        return node

    def _parent_of(self, path: str) -> tuple[DirectoryNode, str]:
        *above, name = _parts(path) or [""]
        if not name:
            raise DiskError(f"{path!r} does not name a file")
        return self._directory("/".join(above)), name

    def _remove_tree(self, directory: DirectoryNode) -> None:
        for name, node in sorted(directory.entries.items()):
            if isinstance(node, DirectoryNode):
                self._remove_tree(node)
            else:
                self._admit(FileRemoved(path_of(node)))
                directory.change(((name, None),))
        if directory.parent is not None:
            self._admit(DirectoryRemoved(path_of(directory)))
            directory.parent.change(((directory.name, None),))

    def _place(self, entry: DiskEntry) -> None:
        parent, name = self._parent_of(entry.path)
        if entry.content is None:
            parent.entries[name] = DirectoryNode(parent, name)
        else:
            content = bytearray(entry.content)
            parent.entries[name] = FileNode(
                entry.number, parent, name, entry.modified_ms, content, len(content)
            )
            self._next_number = max(self._next_number, entry.number + 1)
        parent.sync()


class _InjectedError(DiskError):
    """An injected failure, on its way to the caller."""

    def __init__(self, message: str, written: int) -> None:
        super().__init__(message)
        self.written = written


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _absolute(path: str) -> str:
    return "/" + "/".join(_parts(path))
