"""Segments and metadata snapshots: their batches and records, up to the first damage.

Invariant  A batch is shown only after its size, checksum, offsets and epoch were found good;
           nothing behind the first bad one is shown, because its place cannot be trusted.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidelog.cli.dump_records import control_row, data_row, metadata_row
from tidelog.model.ids import METADATA_TOPIC
from tidelog.records.batch import BatchHeader, CorruptBatch, crc_matches, read_header
from tidelog.records.record import Record, records_of

Row = dict[str, Any]


def batch_rows(path: Path, *, deep: bool) -> Iterator[Row]:
    """Every good batch of the file and, when `deep`, its records."""
    if path.stat().st_size == 0:
        return
    show = metadata_row if _holds_metadata(path) else data_row
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        view = memoryview(content)
        try:
            yield from _rows(view, show, deep)
        finally:
            view.release()


def _holds_metadata(path: Path) -> bool:
    directory = path.absolute().parent.name
    return directory.startswith(f"{METADATA_TOPIC}-") or path.name.startswith("bootstrap.")


def _rows(view: memoryview, show: Callable[[Record], Row], deep: bool) -> Iterator[Row]:
    position = 0
    before: BatchHeader | None = None
    while position < len(view):
        try:
            header = _good_batch(view, position, before)
            yield _batch_row(header, position)
            if deep:
                # A copy, so that no record keeps the mapped file alive.
                batch = bytes(view[position : position + header.size])
                for record in records_of(memoryview(batch)):
                    yield control_row(record) if header.is_control else show(record)
        except CorruptBatch as error:
            yield {"type": "damage", "position": position, "why": str(error)}
            return
        position += header.size
        before = header


def _good_batch(view: memoryview, position: int, before: BatchHeader | None) -> BatchHeader:
    left = len(view) - position
    if not any(view[position : position + 61]):
        raise CorruptBatch(f"zeros from here on, {left} bytes to the end of the file")
    header = read_header(view, position)
    if header.size > left:
        raise CorruptBatch(f"a batch of {header.size} bytes begins, but only {left} are there")
    if not crc_matches(view[position : position + header.size]):
        raise CorruptBatch(f"the checksum of the batch at offset {header.base_offset} is wrong")
    if before is not None and header.base_offset < before.next_offset:
        raise CorruptBatch(f"offset {header.base_offset} follows {before.last_offset}")
    if before is not None and header.leader_epoch < before.leader_epoch:
        raise CorruptBatch(f"epoch {header.leader_epoch} follows {before.leader_epoch}")
    return header


def _batch_row(header: BatchHeader, position: int) -> Row:
    producer = header.producer_id >= 0
    return {
        "type": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "position": position,
        "size": header.size,
        "leader_epoch": header.leader_epoch,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "codec": header.codec.name.lower(),
        "crc": f"{header.crc:08x}",
        "producer_id": header.producer_id if producer else None,
        "producer_epoch": header.producer_epoch if producer else None,
        "base_sequence": header.base_sequence if producer else None,
        "last_sequence": header.last_sequence if producer else None,
        "delete_horizon": header.base_timestamp if header.has_delete_horizon else None,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }
