"""Walking along the batches of a log file.

Invariant  A header scan reads headers (and what lies between small ones), never large batches.
Invariant  Only batches that lie wholly inside the asked range come out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, read_header
from tidelog.storage.filesystem import File

_HEADER_CHUNK: Final = 4096
_CONTENT_CHUNK: Final = 1 << 20


class FoundBatch(NamedTuple):
    """One batch of a log file, with its whole content."""

    position: int
    header: BatchHeader
    data: memoryview


def scan_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch in [position, end); raises `CorruptBatch`."""
    chunk, chunk_start = b"", position
    while position + HEADER_SIZE <= end:
        if position + HEADER_SIZE > chunk_start + len(chunk):
            chunk_start = position
            chunk = file.read(position, min(_HEADER_CHUNK, end - position))
        header = read_header(chunk, position - chunk_start)
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def scan_batches(file: File, position: int, end: int) -> Iterator[FoundBatch]:
    """Each whole batch in [position, end) with its content; raises `CorruptBatch`.

    Every byte is read once. The views stay valid after the next step.
    """
    chunk, chunk_start = memoryview(b""), position
    while position + HEADER_SIZE <= end:
        if position + HEADER_SIZE > chunk_start + len(chunk):
            chunk = _extended(file, chunk, position - chunk_start, position, end, _CONTENT_CHUNK)
            chunk_start = position
        header = read_header(chunk, position - chunk_start)
        size = header.size
        if position + size > end:
            return
        if position + size > chunk_start + len(chunk):
            wanted = max(size, _CONTENT_CHUNK)
            chunk = _extended(file, chunk, position - chunk_start, position, end, wanted)
            chunk_start = position
        start = position - chunk_start
        yield FoundBatch(position, header, chunk[start : start + size])
        position += size


def _extended(
    file: File, chunk: memoryview, used: int, position: int, end: int, wanted: int
) -> memoryview:
    """What is left of the chunk, and as much more as makes `wanted` bytes."""
    rest = chunk[used:]
    more = file.read(position + len(rest), min(wanted, end - position) - len(rest))
    return memoryview(b"".join((rest, more))) if rest else memoryview(more)


def read_batch(file: File, position: int, end: int) -> FoundBatch:
    """The batch at `position`; raises `CorruptBatch` when there is none."""
    for found in scan_batches(file, position, end):
        return found
    raise CorruptBatch(f"{file.path} has no whole batch at {position}")
