"""Files that are there whole or not at all, whenever the power goes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """Write the file anew; a reader sees the old text or the new one."""
    os.replace(_written(path, text), path)
    sync_directory(path.parent)


def create_file(path: Path, text: str) -> bool:
    """Write the file if there is none; False, and nothing changed, if there is one."""
    written = _written(path, text)
    try:
        os.link(written, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(written)
    sync_directory(path.parent)
    return True


def _written(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return name


def sync_directory(path: Path) -> None:
    """Names that were created in a directory are there for good."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
