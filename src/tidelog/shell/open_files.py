"""Which files are open under which names, found by directory.

Invariant  Renaming or removing one of ten thousand directories looks at its own files only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Generic, TypeVar

F = TypeVar("F")


class OpenFiles(Generic[F]):
    """A table of names that knows what lies in a directory."""

    def __init__(self) -> None:
        self._in_directory: dict[str, dict[str, F]] = {}

    def get(self, path: str) -> F | None:
        return self._in_directory.get(os.path.dirname(path), {}).get(path)

    def put(self, path: str, file: F) -> None:
        self._in_directory.setdefault(os.path.dirname(path), {})[path] = file

    def pop(self, path: str) -> F | None:
        directory = os.path.dirname(path)
        files = self._in_directory.get(directory)
        if files is None:
            return None
        file = files.pop(path, None)
        if not files:
            del self._in_directory[directory]
        return file

    def below(self, directory: str, lies_at: str) -> list[str]:
        """The names of open files below a directory, which has perhaps just been moved."""
        names = list(self._in_directory.get(directory, ()))
        for name in _subdirectories(lies_at):
            names += self.below(f"{directory}/{name}", f"{lies_at}/{name}")
        return names


def _subdirectories(path: str) -> Iterator[str]:
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield entry.name
