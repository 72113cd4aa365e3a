"""The pieces an answer is sent in: bytes at hand, or a stretch of a file.

Invariant  The pieces of one answer, sent one after the other, are the whole answer without its
           four-byte length.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeAlias


class ReadableFile(Protocol):
    """What a region needs of a file; the files of the storage port have it."""

    def read(self, position: int, length: int) -> bytes: ...


class FileRegion(NamedTuple):
    """Bytes that stay in their file until the socket takes them."""

    file: ReadableFile
    position: int
    length: int


Part: TypeAlias = bytes | bytearray | memoryview | FileRegion


def part_length(part: Part) -> int:
    """How many bytes a part puts on the wire."""
    return part.length if isinstance(part, FileRegion) else len(part)


def joined(parts: Iterable[Part]) -> bytes:
    """All parts as one piece of memory, file regions read."""
    return b"".join(
        part.file.read(part.position, part.length) if isinstance(part, FileRegion) else part
        for part in parts
    )
