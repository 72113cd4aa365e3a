"""Following the metadata log without a vote, as brokers do.

    asked = observer.wants()                        # send it to the leader, or to whom might know
    step = observer.fetched(asked, answer, now)     # what came back
    observer.committed_since(applied)               # the records to replay

Invariant  The epoch only rises; an answer from an earlier epoch than the one known is not used.
Invariant  The high watermark never falls, and nothing below it is ever cut: a leader that wants
           that has lost what was committed, and this node stops rather than believe it (C6).
Invariant  What the leader has not committed may be in the log, but is shown to nobody.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, TypeVar
from uuid import UUID

from tidelog.model.errors import ErrorCode, TidelogError
from tidelog.model.ids import NO_LEADER
from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter
from tidelog.quorum.replica import MetadataReplica, RecordCodec
from tidelog.quorum.serving import MetadataFetch, MetadataFetched
from tidelog.quorum.snapshot_file import SnapshotId
from tidelog.quorum.snapshot_transfer import SnapshotDownload
from tidelog.quorum.snapshots import KAFKA_RULES, SnapshotRules
from tidelog.records.batch import CorruptBatch, whole_batches
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.partition_log import PartitionLog

T = TypeVar("T")
_TELLS_THE_LEADER: Final = frozenset(
    {
        ErrorCode.none,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_leader_or_follower,
    }
)


class LostCommittedMetadata(TidelogError):
    """The quorum's leader does not have what was committed before."""


class Step(Enum):
    """How to go on after an answer."""

    AGAIN = auto()
    """Ask again at once: the log, the mark or the epoch moved, or nothing happened in time."""
    REST = auto()
    """The answer was of no use; ask again after a while."""
    SNAPSHOT = auto()
    """The log does not go back far enough; get the snapshot that the answer names."""


class Observer(MetadataReplica[T]):
    """A copy of the log that catches up with its leader."""

    may_refetch = True

    def __init__(
        self,
        *,
        files: FileSystem,
        log: PartitionLog,
        node_id: int,
        directory_id: UUID,
        codec: RecordCodec[T],
        now: Now,
        rules: SnapshotRules = KAFKA_RULES,
        static_voters: tuple[Voter, ...] = (),
    ) -> None:
        super().__init__(
            files=files, log=log, codec=codec, now=now, rules=rules, static_voters=static_voters
        )
        self._node_id = node_id
        self._directory_id = directory_id
        self._mark = self._snapshot_id.offset
        self.epoch = self._log.latest_epoch
        self.leader_id = NO_LEADER

    @property
    def high_watermark(self) -> int:
        return self._mark

    def wants(self, max_bytes: int = 1 << 20) -> MetadataFetch:
        """What to ask the leader."""
        return MetadataFetch(
            replica_id=self._node_id,
            directory_id=self._directory_id,
            leader_epoch=self.epoch,
            offset=self._log.end_offset,
            last_epoch=self._log.latest_epoch,
            high_watermark=self._mark,
            max_bytes=max_bytes,
        )

    def fetched(self, asked: MetadataFetch, answer: MetadataFetched[memoryview], now: Now) -> Step:
        """The answer to `asked`; its records are gone when this returns."""
        if answer.error not in _TELLS_THE_LEADER or answer.leader_epoch < self.epoch:
            return Step.REST
        if answer.leader_epoch > self.epoch:
            self.epoch = answer.leader_epoch
            self.leader_id = answer.leader_id
            return Step.AGAIN if answer.leader_id != NO_LEADER else Step.REST
        self.leader_id = answer.leader_id
        if answer.error:
            return Step.REST
        if (asked.offset, asked.last_epoch) != (self._log.end_offset, self._log.latest_epoch):
            return Step.AGAIN
        if answer.snapshot is not None:
            return Step.SNAPSHOT
        if answer.diverging is not None:
            self._truncate(*answer.diverging, now)
            return Step.AGAIN
        if answer.records is not None and not self._appended(answer.records, now):
            return Step.REST
        self._mark = max(self._mark, min(answer.high_watermark, self._log.end_offset))
        return Step.AGAIN

    def download(self, snapshot: SnapshotId) -> SnapshotDownload:
        """Begin to fetch the snapshot that an answer named."""
        return SnapshotDownload(self._files, self._log.path_of(snapshot), snapshot)

    def install(self, snapshot: SnapshotId, now: Now) -> None:
        """A fetched snapshot is whole and in place: go on behind it."""
        self._log.install(snapshot, now)
        self._load()
        self._mark = max(self._mark, snapshot.offset)

    def _appended(self, records: memoryview, now: Now) -> bool:
        before = self._log.end_offset
        try:
            self._log.append_fetched(records, self.epoch, now)
        except CorruptBatch:
            return False
        for header, batch in whole_batches(records):
            if before <= header.base_offset < self._log.end_offset:
                self._note(header, batch)
        return True

    def _truncate(self, epoch: int, end: int, now: Now) -> None:
        """Cut what the leader does not have, as far as its answer tells."""
        own_epoch, own_end = self._log.end_of_epoch(epoch)
        to = min(own_end, end) if own_epoch == epoch else own_end
        if to < self._mark:
            raise LostCommittedMetadata(
                f"the leader of epoch {self.epoch} ends epoch {epoch} at offset {end}, but "
                f"everything below {self._mark} was committed: the quorum has lost its log"
            )
        self._log.truncate_to(to, now)
        self._load()
