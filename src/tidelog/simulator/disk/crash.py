"""What a crash leaves of a disk in memory: every fate that unsynced bytes and names can meet.

A process that dies leaves everything it wrote. A machine that loses power may leave less: bytes
never synced, and names whose directory was never synced, can be there, be gone or be halfway.
What becomes of them is a function, so that a test can walk through all fates and the simulator
can draw one.

Invariant  Synced bytes under a synced name are the same after every crash.
Invariant  Changes of names in one directory reach the disk in the order in which they were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from tidelog.model.entropy import Entropy
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
from tidelog.simulator.disk.memory_filesystem import DiskEntry, DiskImage, MemoryFileSystem
from tidelog.simulator.disk.memory_nodes import DirectoryNode, FileNode

PAGE_BYTES: Final = 4096


class Unsynced(NamedTuple):
    """A file whose bytes differ from those on stable storage, from byte `shared` on."""

    path: str
    shared: int
    durable: bytes
    written: bytes


DataFate: TypeAlias = Callable[[Unsynced], bytes]
NameFate: TypeAlias = Callable[[str, int], int]
"""Of a directory with so many pending changes of names: how many of them, in order, survive."""


def data_kept(file: Unsynced) -> bytes:
    """Everything that was written survives, as when only the process dies."""
    return file.written


def data_lost(file: Unsynced) -> bytes:
    """Only what was synced survives."""
    return file.durable


def data_torn_at(length: int) -> DataFate:
    """Only the first `length` unsynced bytes survive."""
    return lambda file: file.written[: file.shared + length]


def page_zeroed(page: int) -> DataFate:
    """The file keeps its size, but of its unsynced pages the one with this number reads as zeros.

    Pages are counted from the one that holds the first unsynced byte.
    """
    return lambda file: _zeroed(file, {page})


def data_drawn(entropy: Entropy) -> DataFate:
    """One of the above for each file, or several pages zeroed, as the dice fall."""

    def fate(file: Unsynced) -> bytes:
        unsynced = len(file.written) - file.shared
        match entropy.below(4):
            case 0:
                return file.written
            case 1:
                return file.durable
            case 2:
                return file.written[: file.shared + entropy.below(unsynced + 1)]
            case _:
                pages = range(unsynced // PAGE_BYTES + 2)
                return _zeroed(file, {page for page in pages if entropy.below(2)})

    return fate


def names_kept(_directory: str, pending: int) -> int:
    """Every creation, rename and removal survives."""
    return pending


def names_undone(_directory: str, _pending: int) -> int:
    """No creation, rename or removal survives that was not followed by a directory sync."""
    return 0


def names_kept_up_to(count: int) -> NameFate:
    """In each directory the first `count` changes survive that no directory sync followed."""
    return lambda _directory, pending: min(count, pending)


def names_drawn(entropy: Entropy) -> NameFate:
    """In each directory the changes up to some point survive, as the dice fall."""
    return lambda _directory, pending: entropy.below(pending + 1)


def image_after_crash(
    disk: MemoryFileSystem, data: DataFate = data_kept, names: NameFate = names_kept
) -> DiskImage:
    """What the disk holds when power comes back, if it goes now."""
    return tuple(_surviving(disk.root, "", data, names))


def after_crash(
    disk: MemoryFileSystem, data: DataFate = data_kept, names: NameFate = names_kept
) -> MemoryFileSystem:
    """The disk as the next start of the process finds it, if power goes now."""
    return MemoryFileSystem(image_after_crash(disk, data, names))


def crashes(
    disk: MemoryFileSystem, data: DataFate = data_kept, names: NameFate = names_kept
) -> Iterator[MemoryFileSystem]:
    """The disk after a crash before the first operation of its trace, and after each of them."""
    replayed = Replay(disk.image)
    yield after_crash(replayed.disk, data, names)
    for operation in disk.trace:
        replayed.apply(operation)
        yield after_crash(replayed.disk, data, names)


class Replay:
    """A disk that goes through a recorded trace one operation at a time."""

    def __init__(self, image: DiskImage) -> None:
        self.disk = MemoryFileSystem(image, record_trace=False)
        self._files = {node.number: node for node in _files_below(self.disk.root)}

    def apply(self, operation: Operation) -> None:
        disk = self.disk
        match operation:
            case FileCreated():
                disk.open(operation.path).close()
                self._files[operation.file] = disk.file_at(operation.path)
            case Appended():
                disk.append_to(self._files[operation.file], operation.data)
            case FileCut():
                disk.cut(self._files[operation.file], operation.size)
            case FileSynced():
                disk.sync_file(self._files[operation.file])
            case SyncFailed():
                disk.fail_sync(self._files[operation.file])
            case Renamed():
                disk.rename(operation.path, operation.target)
            case FileRemoved():
                disk.remove(operation.path)
            case DirectoryMade():
                disk.make_directory(operation.path)
            case DirectoryRemoved():
                disk.remove_directory(operation.path)
            case DirectorySynced():
                disk.sync_directory(operation.path)
            case FileRead():
                pass  # it changes nothing


def _surviving(
    directory: DirectoryNode, path: str, data: DataFate, names: NameFate
) -> Iterator[DiskEntry]:
    pending = len(directory.pending)
    entries = directory.after(names(path or "/", pending) if pending else 0)
    for name, node in sorted(entries.items()):
        here = f"{path}/{name}"
        if isinstance(node, DirectoryNode):
            yield DiskEntry(here, 0, 0, None)
            yield from _surviving(node, here, data, names)
        elif node.is_durable:
            yield DiskEntry(here, node.number, node.modified_ms, bytes(node.data))
        else:
            unsynced = Unsynced(here, node.shared, node.durable, bytes(node.data))
            yield DiskEntry(here, node.number, node.modified_ms, data(unsynced))


def _zeroed(file: Unsynced, pages: set[int]) -> bytes:
    content = bytearray(file.written)
    first_page = file.shared // PAGE_BYTES
    for page in sorted(pages):
        start = max(file.shared, (first_page + page) * PAGE_BYTES)
        end = min(len(content), (first_page + page + 1) * PAGE_BYTES)
        if start < end:
            content[start:end] = bytes(end - start)
    return bytes(content)


def _files_below(directory: DirectoryNode) -> Iterator[FileNode]:
    for node in directory.entries.values():
        if isinstance(node, DirectoryNode):
            yield from _files_below(node)
        else:
            yield node
