"""The index files beside a segment, checked against their own rules and against the segment.

Invariant  Entries of zeros at the end are room that a running Java broker keeps free, not damage.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Any

from tidelog.records.batch import HEADER_SIZE, CorruptBatch, read_header

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TRANSACTION_ENTRY = Struct(">hqqqq")


def offset_index_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Entries of an .index file: the last offset of a batch and where that batch starts."""
    base = _base_offset(path)
    last_offset = last_position = -1
    with _segment_beside(path) as segment:
        for at, (relative, position) in _entries(path, _OFFSET_ENTRY):
            offset = base + relative
            wrong = None
            if offset <= last_offset or position <= last_position:
                wrong = (
                    f"({offset}, {position}) does not rise above ({last_offset}, {last_position})"
                )
            elif segment is not None:
                wrong = _disagreement(segment, offset, position)
            if wrong is not None:
                yield {"type": "damage", "position": at, "why": wrong}
                return
            yield {"type": "entry", "offset": offset, "position": position}
            last_offset, last_position = offset, position


def time_index_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Entries of a .timeindex file: the greatest timestamp so far and the offset that has it."""
    base = _base_offset(path)
    last = (-1, -1)
    for at, (timestamp, relative) in _entries(path, _TIME_ENTRY):
        entry = (timestamp, base + relative)
        if timestamp <= last[0] or entry[1] < last[1]:
            yield {"type": "damage", "position": at, "why": f"{entry} does not rise above {last}"}
            return
        yield {"type": "entry", "timestamp": timestamp, "offset": entry[1]}
        last = entry


def transaction_index_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Entries of a .txnindex file: aborted transactions whose marker lies in the segment."""
    last = -1
    for at, (version, producer, first, marker, stable) in _entries(path, _TRANSACTION_ENTRY):
        if version != 0 or marker <= last or first > marker:
            why = f"version {version}, producer {producer}, offsets {first} to {marker}"
            yield {"type": "damage", "position": at, "why": why}
            return
        yield {
            "type": "aborted",
            "producer_id": producer,
            "first_offset": first,
            "last_offset": marker,
            "last_stable_offset": stable,
        }
        last = marker


def _base_offset(path: Path) -> int:
    return int(path.name.split(".")[0])


def _entries(path: Path, shape: Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    content = path.read_bytes()
    # The first entry of a segment that starts at 0 may rightly be all zeros.
    used = max(len(content.rstrip(b"\x00")), shape.size if len(content) >= shape.size else 0)
    used += -used % shape.size
    for at in range(0, min(used, len(content) - len(content) % shape.size), shape.size):
        yield at, shape.unpack_from(content, at)
    if len(content) % shape.size:
        raise ValueError(f"{len(content)} bytes are no whole number of {shape.size}-byte entries")


@contextmanager
def _segment_beside(path: Path) -> Iterator[mmap.mmap | None]:
    segment = path.with_name(path.name.split(".")[0] + ".log")
    if not segment.exists() or segment.stat().st_size == 0:
        yield None
        return
    with segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        yield view


def _disagreement(segment: mmap.mmap, offset: int, position: int) -> str | None:
    """Why the segment does not bear out an entry; None when it does."""
    try:
        header = read_header(segment[position : position + HEADER_SIZE])
    except CorruptBatch as error:
        return f"no batch starts at {position} of the segment: {error}"
    if header.last_offset != offset:
        return (
            f"the batch at {position} of the segment ends with {header.last_offset}, not {offset}"
        )
    return None
