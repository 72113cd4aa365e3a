"""A machine's disk: real storage code over memory, and everything that can go wrong with it.

Invariant  A process that dies loses nothing it wrote; a loss of power loses at most what was not
           synced.
Invariant  Speed is told, not spent: the machine turns `write_us` and `sync_us` into virtual time.
"""

from __future__ import annotations

from random import Random
from typing import Final

from tidelog.model.errors import invariant
from tidelog.simulator.disk.crash import (
    data_drawn,
    data_kept,
    data_lost,
    image_after_crash,
    names_drawn,
    names_kept,
    names_undone,
)
from tidelog.simulator.disk.disk_operation import (
    Appended,
    FileCreated,
    FileRead,
    FileSynced,
    Operation,
)
from tidelog.simulator.disk.memory_filesystem import DiskImage, MemoryFileSystem
from tidelog.simulator.disk.memory_nodes import DirectoryNode, FileNode, Node
from tidelog.simulator.world.dice import SeededEntropy
from tidelog.storage.filesystem import FileSystem

FATES: Final = ("drawn", "lost", "kept")
"""What becomes of unsynced bytes and names when power goes."""

DAMAGES: Final = ("flip", "cut", "remove")
"""What becomes of a file that is damaged."""

FAILURES: Final = {
    "full": "No space left on device",
    "write": "Input/output error",
    "read": "Input/output error",
    "sync": "Input/output error",
}
"""The ways in which a disk fails, with what the system says."""

DAMAGED_FILES: Final = {
    "log": (".log",),
    "index": (".index", ".timeindex"),
    "snapshot": (".snapshot",),
    "epochs": ("leader-epoch-checkpoint",),
    "checkpoint": ("-checkpoint", "-offset-checkpoint"),
}
"""The files that damage can be aimed at, by how their names end."""


_IRREPLACEABLE: Final = ("log", "epochs", "checkpoint")
_METADATA: Final = "__cluster_metadata-"
_NEVER: Final = 1 << 62


class ProcessDies(BaseException):
    """The process ends in the middle of a step; nothing of the node may catch this."""


class Disk:
    """One machine's disk, from its first formatting on."""

    def __init__(self, write_us: int, sync_us: int) -> None:
        self.files = MemoryFileSystem(record_trace=False)
        self.write_us = self._usual_write_us = write_us
        self.sync_us = self._usual_sync_us = sync_us
        self.failed = False
        """Whether it was ever made to fail or damaged since it was last known to be sound."""
        self.refusing: set[str] = set()
        """The logs of the present process that were refused a write or a sync, by directory, as
        far as its loop has heard of it."""
        self.has_refused = False
        """Whether the present process was refused anything at all."""
        self.in_job = False
        """Whether a worker thread is at work, of whose failures the loop hears later."""
        self._unheard: set[str] = set()
        self._fails = False
        self._dies_in: int | None = None

    # Loss.

    def lose_power(self, fate: str, dice: Random) -> None:
        """Leave behind what this fate leaves of everything that was not synced."""
        entropy = SeededEntropy(dice)
        match fate:
            case "kept":
                image = image_after_crash(self.files, data_kept, names_kept)
            case "lost":
                image = image_after_crash(self.files, data_lost, names_undone)
            case _:
                invariant(fate == "drawn", f"nobody knows the fate {fate}")
                image = image_after_crash(self.files, data_drawn(entropy), names_drawn(entropy))
        self.replace(image)

    def copy(self) -> DiskImage:
        """Everything as a reader of the files would see it now."""
        return image_after_crash(self.files)

    def durable(self, path: str) -> bytes | None:
        """What a loss of power would leave of a file; None if not even its name."""
        node: Node | None = self.files.root
        for name in path.strip("/").split("/"):
            node = node.durable.get(name) if isinstance(node, DirectoryNode) else None
        return node.durable if isinstance(node, FileNode) else None

    def replace(self, image: DiskImage) -> None:
        """Another disk takes the place of this one; a blank one from an empty image."""
        self.files = MemoryFileSystem(image, record_trace=False)
        self._fails = False
        self._dies_in = None

    # Failure.

    def die_after(self, operations: int) -> None:
        """End the process at one of its next operations, before that one is done."""
        if self._dies_in is None:
            self.files.fail_when(self._is_deadly)
        self._dies_in = operations

    def disarm(self) -> None:
        """The process is over: the next one dies of something else."""
        self.has_refused = False
        self.refusing.clear()
        self._unheard.clear()
        self._dies_in = _NEVER if self._dies_in is not None else None

    def fail(self, how: str, part: str) -> None:
        """Fail from now on, in the way named, whatever has `part` in its path."""
        self.failed = True
        self._fails = True
        kinds = _operations_that_fail(how)

        def fails(operation: Operation) -> bool:
            if not isinstance(operation, kinds) or part not in operation.path:
                return False
            self.has_refused = True
            directory, _, name = operation.path.rpartition("/")
            if name.endswith(".log") and how != "read":
                (self._unheard if self.in_job else self.refusing).add(directory)
            return True

        self.files.fail_when(fails, FAILURES[how])

    def failure_heard(self) -> None:
        """The loop was told that a job failed."""
        self.refusing |= self._unheard
        self._unheard.clear()

    def slow_down(self, write_us: int, sync_us: int) -> None:
        self.write_us = write_us
        self.sync_us = sync_us

    @property
    def is_failing(self) -> bool:
        """Whether operations fail now, or the process is to die at one of them."""
        return self._fails or self._dies_in not in (None, _NEVER)

    @property
    def forgot_pages(self) -> bool:
        """Whether a sync failed: some file will never be durable, whatever later syncs say."""
        paths = _paths(self.files, "") if self.failed else []
        return any(self.files.file_at(path).sync_failed for path in paths)

    def heal(self) -> None:
        """Be as fast and as sound as usual; what was lost or refused meanwhile stays so."""
        self.files.heal()
        self._fails = False
        self._dies_in = None
        self.write_us = self._usual_write_us
        self.sync_us = self._usual_sync_us

    def damage(self, kind: str, how: str, dice: Random) -> str | None:
        """Flip a bit in a file of this kind, cut it or remove it; which file, if there was one."""
        endings = DAMAGED_FILES[kind]
        found = [path for path in _paths(self.files, "") if path.endswith(endings)]
        found = [path for path in found if self.files.size(path) > 0 and _METADATA not in path]
        if not found:
            return None
        path = dice.choice(found)
        size = self.files.size(path)
        self.failed = True
        if how == "remove":
            self.files.remove(path)
        elif how == "cut":
            file = self.files.open(path)
            file.truncate(dice.randrange(size))
            file.close()
        else:
            position = dice.randrange(size)
            byte = self.files.file_at(path).data[position] ^ (1 << dice.randrange(8))
            self.files.damage(path, position, bytes((byte,)))
        return path

    def _is_deadly(self, operation: Operation) -> bool:
        if isinstance(operation, FileRead):
            return False
        if self._dies_in is not None:
            if self._dies_in <= 0:
                raise ProcessDies
            self._dies_in -= 1
        return False


def may_cost_records(kind: str, how: str) -> bool:
    """Whether a replica damaged like this may lack records until it gets them from the others.

    Kafka's checkpoint files have no checksum, so a wrong number in one of them is believed: only a
    missing file is known to be bad.
    """
    return kind == "log" or (kind in _IRREPLACEABLE and how != "remove")


def _operations_that_fail(how: str) -> tuple[type[Operation], ...]:
    match how:
        case "read":
            return (FileRead,)
        case "sync":
            return (FileSynced,)
        case _:
            return (Appended, FileCreated)


def _paths(files: FileSystem, directory: str) -> list[str]:
    found: list[str] = []
    for name in files.list(directory):
        path = f"{directory}/{name}"
        if files.is_directory(path):
            found += _paths(files, path)
        else:
            found.append(path)
    return found
