"""Every batch of one segment file, with what is wrong with it; and its index entries that are.

Invariant  The scan ends where the file does, or where a header makes no sense; it never guesses
           where the next batch might begin, and it says where it stopped.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from tidelog.records.batch import CHECKED_FROM, BatchHeader, CorruptBatch, read_header

_INDEX_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_HASH_PARTS: Final = struct.Struct(">II")
_HASH: Final = struct.Struct(">q")
_NO_OFFSET: Final = -1


class BatchState(StrEnum):
    """What a row tells of."""

    OK = "ok"
    BAD_CRC = "bad crc"
    UNREADABLE = "unreadable"
    """No whole batch: the file ends within one, or the header is damaged."""
    BAD_INDEX = "bad index"


class ScannedBatch(NamedTuple):
    """One row of the segment source, without whose it is."""

    file: str
    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    state: str
    hash: int
    """Checksums of what the batch's own covers, and of the rest: every byte counts, at no cost."""
    records: int
    codec: str
    producer_id: int
    transactional: bool
    control: bool
    max_timestamp_ms: int


def scan_segment(path: str) -> Iterator[ScannedBatch]:
    """The batches in file order, then the index entries that point wrong."""
    starts: dict[int, int] = {}
    last_offset = _NO_OFFSET
    for batch in _batches(path):
        if batch.state != BatchState.UNREADABLE:
            starts[batch.position] = batch.base_offset
            last_offset = max(last_offset, batch.last_offset)
        yield batch
    stem = path.removesuffix(".log")
    base_offset = int(os.path.basename(stem))
    yield from _wrong_index_entries(stem + ".index", base_offset, starts)
    yield from _wrong_time_entries(stem + ".timeindex", base_offset, last_offset)


def _batches(path: str) -> Iterator[ScannedBatch]:
    size = os.path.getsize(path)
    if size == 0:
        return
    name = os.path.basename(path)
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        position = 0
        while position < size:
            try:
                header = read_header(view, position)
            except CorruptBatch:
                yield _unreadable(name, position, size)
                return
            if position + header.size > size:
                yield _unreadable(name, position, size, header.base_offset)
                return
            with view[position : position + header.size] as batch:
                yield _scanned(name, position, header, batch)
            position += header.size


def _scanned(name: str, position: int, header: BatchHeader, batch: memoryview) -> ScannedBatch:
    checksum, head = crc32c(batch[CHECKED_FROM:]), crc32c(batch[:CHECKED_FROM])
    return ScannedBatch(
        file=name,
        position=position,
        size=header.size,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        state=BatchState.OK if checksum == header.crc else BatchState.BAD_CRC,
        hash=_HASH.unpack(_HASH_PARTS.pack(head, checksum))[0],
        records=header.record_count,
        codec=_codec(header),
        producer_id=header.producer_id,
        transactional=header.is_transactional,
        control=header.is_control,
        max_timestamp_ms=header.max_timestamp,
    )


def _codec(header: BatchHeader) -> str:
    try:
        return header.codec.name.lower()
    except CorruptBatch:
        return "unknown"


def _unreadable(name: str, position: int, size: int, offset: int = _NO_OFFSET) -> ScannedBatch:
    left = size - position
    return _bare(name, position, left, offset, BatchState.UNREADABLE)


def _bare(name: str, position: int, size: int, offset: int, state: BatchState) -> ScannedBatch:
    return ScannedBatch(
        name, position, size, offset, offset, -1, state, 0, 0, "none", -1, False, False, -1
    )


def _wrong_index_entries(
    path: str, base_offset: int, starts: dict[int, int]
) -> Iterator[ScannedBatch]:
    """An entry is right if a batch begins at its position, at or below its offset."""
    for relative, position in _entries(path, _INDEX_ENTRY):
        offset = base_offset + relative
        if starts.get(position, offset + 1) > offset:
            yield _bare(
                os.path.basename(path), position, _INDEX_ENTRY.size, offset, BatchState.BAD_INDEX
            )


def _wrong_time_entries(path: str, base_offset: int, last_offset: int) -> Iterator[ScannedBatch]:
    for _, relative in _entries(path, _TIME_ENTRY):
        if not 0 <= relative <= max(last_offset - base_offset, 0):
            offset = base_offset + relative
            yield _bare(os.path.basename(path), 0, _TIME_ENTRY.size, offset, BatchState.BAD_INDEX)


def _entries(path: str, layout: struct.Struct) -> Iterator[tuple[int, ...]]:
    """The entries of an index; the zeros behind them are room that is not used yet."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return
    usable = len(content) - len(content) % layout.size
    for number, entry in enumerate(layout.iter_unpack(content[:usable])):
        if number > 0 and not any(entry):
            return
        yield entry
