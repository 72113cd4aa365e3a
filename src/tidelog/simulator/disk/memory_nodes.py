"""Files and directories in memory, each knowing what of it would survive a loss of power.

Invariant  The first `shared` bytes of a file are the same now and on stable storage.
Invariant  A directory's durable names and its pending changes, in order, give its present names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(slots=True, eq=False)
class FileNode:
    """A file's bytes, whatever its name. Only the end of a file ever changes."""

    number: int
    parent: DirectoryNode
    name: str
    modified_ms: int
    data: bytearray = field(default_factory=bytearray)
    shared: int = 0
    cut_off: bytes = b""
    """Durable bytes behind `shared` that were cut off but not yet for good."""
    sync_failed: bool = False

    @property
    def durable(self) -> bytes:
        return bytes(self.data[: self.shared]) + self.cut_off

    @property
    def is_durable(self) -> bool:
        return self.shared == len(self.data) and not self.cut_off

    def cut(self, size: int) -> None:
        if size < self.shared:
            self.cut_off = bytes(self.data[size : self.shared]) + self.cut_off
            self.shared = size
        del self.data[size:]

    def sync(self) -> None:
        if not self.sync_failed:
            self.shared = len(self.data)
            self.cut_off = b""


@dataclass(slots=True, eq=False)
class DirectoryNode:
    """A directory's names."""

    parent: DirectoryNode | None
    name: str
    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)
    pending: list[NameChange] = field(default_factory=list)

    def change(self, change: NameChange) -> None:
        """Change names as one step, which a crash undoes or keeps as one."""
        _apply(self.entries, change)
        self.pending.append(change)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()

    def after(self, count: int) -> dict[str, Node]:
        """The names when only the first `count` pending changes reached stable storage."""
        entries = dict(self.durable)
        for change in self.pending[:count]:
            _apply(entries, change)
        return entries


Node: TypeAlias = FileNode | DirectoryNode
NameChange: TypeAlias = tuple[tuple[str, Node | None], ...]


def _apply(entries: dict[str, Node], change: NameChange) -> None:
    for name, node in change:
        if node is None:
            del entries[name]
        else:
            entries[name] = node


def path_of(node: Node) -> str:
    """The path a node has, or had last."""
    parts = []
    at: Node | None = node
    while at is not None and at.parent is not None:
        parts.append(at.name)
        at = at.parent
    return "/" + "/".join(reversed(parts))
