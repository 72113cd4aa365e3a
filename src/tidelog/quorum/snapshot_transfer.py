"""A snapshot on its way from the leader to a node whose log does not go back far enough.

Invariant  Until every byte is there, durable and readable, it lies under a name that no start
           takes for a snapshot, and that no other download of the same snapshot has.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model.errors import DiskError, ErrorCode
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.metadata_log import MetadataLog
from tidelog.quorum.snapshot_file import (
    BOOTSTRAP_ID,
    PART_SUFFIX,
    SUFFIX,
    SnapshotId,
    read_snapshot,
)
from tidelog.storage.filesystem import Buffer, FileSystem


class SnapshotAsked(NamedTuple):
    """Which bytes of which snapshot a node wants."""

    replica: ReplicaKey
    leader_epoch: int
    snapshot: SnapshotId
    position: int
    max_bytes: int


class SnapshotPiece(NamedTuple):
    """Some bytes of a snapshot, or why there are none."""

    error: int = ErrorCode.none
    size: int = 0
    """Of the whole snapshot."""
    position: int = 0
    data: bytes = b""


def snapshot_piece(log: MetadataLog, leader: Leader | None, asked: SnapshotAsked) -> SnapshotPiece:
    """What the leader gives of a snapshot to somebody who names the leader's epoch."""
    if leader is None:
        return SnapshotPiece(ErrorCode.not_leader_or_follower)
    if asked.leader_epoch != leader.epoch:
        is_older = asked.leader_epoch < leader.epoch
        return SnapshotPiece(
            ErrorCode.fenced_leader_epoch if is_older else ErrorCode.unknown_leader_epoch
        )
    snapshot, position = asked.snapshot, asked.position
    if snapshot == BOOTSTRAP_ID or not log.has_snapshot(snapshot):
        return SnapshotPiece(ErrorCode.snapshot_not_found)
    size = log.snapshot_size(snapshot)
    if not 0 <= position < size:
        return SnapshotPiece(ErrorCode.position_out_of_range)
    return SnapshotPiece(
        size=size, position=position, data=log.read_snapshot(snapshot, position, asked.max_bytes)
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
