"""Files in a partition's directory that a stop in the middle of something left behind.

`.deleted` files were to be removed. `.cleaned` files are the unfinished output of a compaction,
`.swap` files its finished output, ready to replace the segments it was made from.

Invariant  Doing this twice, or dying in the middle and doing it again, gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tidelog.storage.batch_scan import scan_headers
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.segment_files import (
    CLEANED,
    DELETED,
    INDEX,
    LOG,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
)

_INDEXES: Final = (INDEX, TIME_INDEX, TRANSACTION_INDEX)
_DIGITS: Final = 20


def base_offset_of(name: str, suffix: str) -> int | None:
    """The offset a file is named after, if it is one of that kind."""
    stem = name.removesuffix(suffix)
    if stem == name or len(stem) != _DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    return int(stem)


def clear_leftovers(files: FileSystem, directory: str) -> Sequence[str]:
    """Finish or undo what was under way; the names that are in the directory afterwards."""
    names = files.list(directory)
    if any(name.endswith((DELETED, CLEANED, SWAP)) for name in names):
        names = _finish(files, directory, names)
    logs = {name.removesuffix(LOG) for name in names if name.endswith(LOG)}
    orphans = [
        name for name in names if name.endswith(_INDEXES) and name.rpartition(".")[0] not in logs
    ]
    _remove(files, directory, orphans)
    return [name for name in names if name not in orphans] if orphans else names


def _finish(files: FileSystem, directory: str, names: Sequence[str]) -> Sequence[str]:
    first_cleaned = min((_offset(name) for name in names if name.endswith(CLEANED)), default=None)
    swaps = [name for name in names if name.endswith(SWAP)]
    undone = [
        name for name in swaps if first_cleaned is not None and _offset(name) >= first_cleaned
    ]
    _remove(files, directory, [name for name in names if name.endswith((DELETED, CLEANED))])
    _remove(files, directory, undone)
    _replace_by_swaps(files, directory, [name for name in swaps if name not in undone])
    files.sync_directory(directory)
    return files.list(directory)


def _replace_by_swaps(files: FileSystem, directory: str, swaps: Sequence[str]) -> None:
    """Remove the segments that finished output stands for, then give it their names."""
    logs = [name for name in swaps if name.endswith(LOG + SWAP)]
    if logs:
        start = min(_offset(name) for name in logs)
        end = max(_end_of(files, directory, name) for name in logs)
        kinds = (LOG, *_INDEXES)
        replaced = [
            name
            for name in files.list(directory)
            if name.endswith(kinds) and start <= _offset(name) < end
        ]
        _remove(files, directory, replaced)
    for name in swaps:
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")


def _end_of(files: FileSystem, directory: str, name: str) -> int:
    file = files.open(f"{directory}/{name}")
    try:
        end = _offset(name) + 1  # at least the segment it is named after is replaced
        for _, header in scan_headers(file, 0, file.size()):
            end = header.next_offset
        return end
    finally:
        file.close()


def _offset(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else -1


def _remove(files: FileSystem, directory: str, names: Iterable[str]) -> None:
    for name in names:
        files.remove(f"{directory}/{name}")
