"""What a file system was asked to do, as values: the trace a crash is replayed from.

A file is named by its number as well as by its path at that time, because an open file goes on
being written after it was renamed or removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class FileCreated:
    path: str
    file: int


@dataclass(frozen=True, slots=True)
class Appended:
    path: str
    file: int
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class FileCut:
    path: str
    file: int
    size: int


@dataclass(frozen=True, slots=True)
class FileSynced:
    path: str
    file: int


@dataclass(frozen=True, slots=True)
class SyncFailed:
    """From here on nothing new in this file becomes durable, whatever a later sync answers."""

    path: str
    file: int


@dataclass(frozen=True, slots=True)
class FileRead:
    """Never part of a trace, since it changes nothing; it is there to be made to fail."""

    path: str
    file: int
    position: int
    length: int


@dataclass(frozen=True, slots=True)
class Renamed:
    path: str
    target: str


@dataclass(frozen=True, slots=True)
class FileRemoved:
    path: str


@dataclass(frozen=True, slots=True)
class DirectoryMade:
    path: str


@dataclass(frozen=True, slots=True)
class DirectoryRemoved:
    path: str


@dataclass(frozen=True, slots=True)
class DirectorySynced:
    path: str


Operation: TypeAlias = (
    FileCreated
    | Appended
    | FileCut
    | FileSynced
    | SyncFailed
    | FileRead
    | Renamed
    | FileRemoved
    | DirectoryMade
    | DirectoryRemoved
    | DirectorySynced
)
