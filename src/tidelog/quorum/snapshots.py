"""Snapshots of the metadata log: `<end offset>-<epoch>.checkpoint`.

A snapshot is a file of batches: a control batch with the header, kraft.version and the voters;
the records that build the state; a control batch with the footer. Offsets in it start at 0 and
mean nothing. A node writes its own, or downloads the leader's.

Invariant  The id names an exclusive end: the snapshot holds the state after `offset - 1` (C9).
Invariant  Under its own name a snapshot is whole, durable and readable. While it is written or
           downloaded it is a `.part`, which a restart removes, and which no other download of the
           same snapshot shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.model.errors import DiskError
from tidelog.protocol.stored.quorum import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from tidelog.quorum.batches import control_batch, in_batches, record_batch
from tidelog.quorum.control_records import (
    ControlRecord,
    UnreadableControlRecord,
    Voter,
    Voters,
    read_control_record,
)
from tidelog.records.batch import HEADER_SIZE, CorruptBatch, crc_matches, read_header
from tidelog.records.record import records_of
from tidelog.storage.filesystem import Buffer, File, FileSystem

T = TypeVar("T")
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
    except (CorruptBatch, UnreadableControlRecord) as error:
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
    except (CorruptBatch, UnreadableControlRecord) as error:
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


class SnapshotRules(NamedTuple):
    """The settings of snapshots; the defaults are Kafka's."""

    bytes_between: int = 20 << 20
    """metadata.log.max.record.bytes.between.snapshots"""
    interval_ms: int = 3_600_000
    """metadata.log.max.snapshot.interval.ms; 0 switches this reason off"""
    retention_bytes: int = 100 << 20
    """metadata.max.retention.bytes"""
    retention_ms: int = 604_800_000
    """metadata.max.retention.ms"""


KAFKA_RULES: Final = SnapshotRules()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SnapshotJob(Generic[T]):
    """Writes one snapshot; `run` blocks and may be called from any thread, once.

    `records` is read while it runs, so it must come from an image that nobody changes.
    """

    files: FileSystem
    path: str
    id: SnapshotId
    records: Iterable[T]
    encode: Callable[[T], bytes]
    kraft_version: int
    voters: tuple[Voter, ...]
    last_contained_timestamp: int
    timestamp: int
    covered_bytes: int

    def run(self) -> None:
        """Write it all, durably; raises `DiskError`."""
        write_snapshot(
            self.files,
            self.path,
            map(self.encode, self.records),
            epoch=self.id.epoch,
            last_contained_timestamp=self.last_contained_timestamp,
            timestamp=self.timestamp,
            kraft_version=self.kraft_version,
            voters=self.voters,
        )


class SnapshotDownload:
    """A snapshot that is being fetched, piece by piece."""

    def __init__(self, files: FileSystem, path: str, id: SnapshotId, number: int) -> None:
        """`number` tells the downloads of one process from each other."""
        self.id = id
        self.is_stored = False
        """Whether it lies, whole and durable, under its own name."""
        self._files = files
        self._path = path
        self._part = f"{path.removesuffix(SUFFIX)}.{number}{PART_SUFFIX}"
        if files.exists(self._part):
            files.remove(self._part)
        self._file = files.open(self._part)

    @property
    def position(self) -> int:
        """How many bytes are there."""
        return self._file.size()

    def append(self, data: Buffer) -> None:
        """The next piece."""
        self._file.append(data)

    def give_up(self) -> None:
        """It will not be completed."""
        self._file.close()
        self._files.remove(self._part)

    def finish(self) -> None:
        """All of it is there: make it durable under its own name, or, when it cannot be read,
        leave nothing of it. Blocks; raises DiskError."""
        self._file.sync()
        self._file.close()
        try:
            read_snapshot(self._files, self._part)
        except DiskError:
            self._files.remove(self._part)
            return
        self._files.rename(self._part, self._path)
        self._files.sync_directory(self._path.rpartition("/")[0])
        self.is_stored = True
