"""Snapshots of the metadata log: `<end offset>-<epoch>.checkpoint`.

A snapshot is a file of batches: a control batch with the header, kraft.version and the voters;
the records that build the state; a control batch with the footer. Offsets in it start at 0 and
mean nothing.

Invariant  The id names an exclusive end: the snapshot holds the state after `offset - 1` (C9).
Invariant  Under its own name a snapshot is whole and durable; while it is written it is a
           `.part`, which a restart removes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.model.errors import DiskError
from tidelog.protocol.stored.quorum import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from tidelog.quorum.batches import control_batch, in_batches, record_batch
from tidelog.quorum.control_records import (
    ControlRecord,
    Voter,
    Voters,
    read_control_record,
)
from tidelog.records.batch import HEADER_SIZE, CorruptBatch, crc_matches, read_header
from tidelog.records.record import records_of
from tidelog.storage.filesystem import File, FileSystem

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".checkpoint.part"
DELETED_SUFFIX: Final = ".checkpoint.deleted"
BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
_BATCH_BYTES: Final = 1 << 20


class SnapshotId(NamedTuple):
    """How far a snapshot reaches: exclusive end offset, and the epoch of the record before it."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.offset:020d}-{self.epoch:010d}{SUFFIX}"

    @classmethod
    def from_file_name(cls, name: str) -> SnapshotId | None:
        """The id a file is named after; None for any other name."""
        stem = name.removesuffix(SUFFIX)
        offset, dash, epoch = stem.partition("-")
        if stem == name or not dash or len(offset) != 20 or len(epoch) != 10:
            return None
        if not (offset + epoch).isascii() or not (offset + epoch).isdigit():
            return None
        return cls(int(offset), int(epoch))


BOOTSTRAP_ID: Final = SnapshotId(0, 0)
"""The snapshot that formatting writes: it holds the first voters and no records."""


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """What a snapshot says."""

    last_contained_timestamp: int
    kraft_version: int
    voters: tuple[Voter, ...]
    values: tuple[bytes, ...]
    """The records that build the state, still encoded."""


def write_snapshot(
    files: FileSystem,
    path: str,
    values: Iterable[bytes],
    *,
    epoch: int,
    last_contained_timestamp: int,
    timestamp: int,
    kraft_version: int | None = None,
    voters: tuple[Voter, ...] = (),
) -> None:
    """Write a whole snapshot, durably, or leave nothing under its name."""
    part = path + ".part"
    if files.exists(part):
        files.remove(part)
    file = files.open(part)
    try:
        opening: list[ControlRecord] = [
            SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_timestamp)
        ]
        if kraft_version is not None and kraft_version > 0:
            opening += [KRaftVersionRecord(kraft_version=kraft_version), Voters(voters=voters)]
        file.append(control_batch(opening, timestamp, leader_epoch=epoch))
        offset = len(opening)
        for run in in_batches(values, _BATCH_BYTES):
            file.append(record_batch(run, timestamp, base_offset=offset, leader_epoch=epoch))
            offset += len(run)
        footer = control_batch(
            [SnapshotFooterRecord()], timestamp, base_offset=offset, leader_epoch=epoch
        )
        file.append(footer)
        file.sync()
    finally:
        file.close()
    files.rename(part, path)
    files.sync_directory(path.rpartition("/")[0])


def read_snapshot(files: FileSystem, path: str) -> SnapshotContent:
    """The content of a whole snapshot; DiskError when it is damaged or cut."""
    file = files.open(path)
    try:
        return _content(path, file)
    except CorruptBatch as error:
        raise DiskError(f"{path} is damaged: {error}") from error
    finally:
        file.close()


def snapshot_timestamp(files: FileSystem, path: str) -> int:
    """The time of the last record a snapshot stands for, from its first batch."""
    file = files.open(path)
    try:
        for batch in _batches(path, file):
            for record in records_of(batch):
                first = read_control_record(record)
                if isinstance(first, SnapshotHeaderRecord):
                    return first.last_contained_log_timestamp
            break
    except CorruptBatch as error:
        raise DiskError(f"{path} is damaged: {error}") from error
    finally:
        file.close()
    raise DiskError(f"{path} has no snapshot header")


def _content(path: str, file: File) -> SnapshotContent:
    header: SnapshotHeaderRecord | None = None
    ended = False
    kraft_version = 0
    voters: tuple[Voter, ...] = ()
    values: list[bytes] = []
    for batch in _batches(path, file):
        is_control = read_header(batch).is_control
        for record in records_of(batch):
            if not is_control:
                if record.value is None:
                    raise DiskError(f"{path} holds a record without a value")
                values.append(record.value)
                continue
            match read_control_record(record):
                case SnapshotHeaderRecord() as header:
                    pass
                case KRaftVersionRecord() as version:
                    kraft_version = version.kraft_version
                case Voters() as members:
                    voters = members.voters
                case SnapshotFooterRecord():
                    ended = True
                case other:
                    raise DiskError(f"{path} holds {other}, which is not part of a snapshot")
    if header is None or not ended:
        raise DiskError(f"{path} is cut: it has no header or no footer")
    return SnapshotContent(
        header.last_contained_log_timestamp, kraft_version, voters, tuple(values)
    )


def _batches(path: str, file: File) -> Iterator[bytes]:
    position = 0
    while position < file.size():
        size = read_header(file.read(position, HEADER_SIZE)).size
        batch = file.read(position, size)
        if len(batch) != size or not crc_matches(batch):
            raise DiskError(f"{path} is damaged at byte {position}")
        yield batch
        position += size
