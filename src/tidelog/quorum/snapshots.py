"""When a snapshot is due, and the job that writes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.quorum.snapshot_file import SnapshotId, write_snapshot
from tidelog.quorum.voter_set import VoterSet
from tidelog.storage.filesystem import FileSystem

T = TypeVar("T")


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
    voters: VoterSet
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
            kraft_version=self.voters.kraft_version,
            voters=self.voters.voters,
        )
