"""One look at the partitions of a fetch: the order of checks, the limits of sizes.

Sizes follow KIP-74: the first non-empty partition gives at least one whole batch, whatever the
limits say; later ones give what fits into the rest.

Invariant  No consumer gets an offset at or above the high watermark, or, reading committed
           transactions only, at or above the last stable offset; a follower reads to the end (D11).
Invariant  A follower that is throttled gets no records, but everything else that a leader tells.
Invariant  An epoch is fenced before anything else is said about a partition (D13).
Invariant  A consumer that is ahead of a new leader, of its high watermark or of the epoch it knows,
           waits here as long as its fetch may wait; the error comes when that time is up. Clients
           wait far longer after an error (librdkafka half a second) than the leader needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.model.errors import DiskError, ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.fetching.awaited_followers import AwaitedFollowers
from tidelog.node.fetching.fetch_sessions import FetchContext, WantedPartition
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.quotas.replication_throttle import ReplicationThrottle
from tidelog.node.replicas.replicas import Replicas
from tidelog.observe.live_watch import LiveWatch
from tidelog.protocol.fetch import FetchedPartition, FetchPartition, FetchRequest, FileRegion
from tidelog.records.batch import CorruptBatch
from tidelog.records.compression import CompressionType
from tidelog.replication.messages import FollowerFetch
from tidelog.replication.partition import Partition

READ_COMMITTED: Final = 1
STORAGE_ERROR_SINCE: Final = 6
ZSTD_SINCE: Final = 10
FOLLOWER_READS_SINCE: Final = 11
OFFSET_NOT_AVAILABLE_SINCE: Final = 11
"""The first version whose clients know the error; older ones get an empty answer."""
LEADER_HINTS_SINCE: Final = 16
NO_REPLICA: Final = -1
SOON_OVER: Final = (ErrorCode.offset_not_available, ErrorCode.unknown_leader_epoch)
"""What a consumer is told by a leader that has just begun."""
LEADER_HINTED: Final = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)


MayRead: TypeAlias = Callable[[str | None], bool]
"""Whether a topic may be read; one whose name is not known has none."""


class ReadingContext(NamedTuple):
    """What reading for a fetch needs of the node."""

    cluster: ClusterView
    replicas: Replicas
    awaited: AwaitedFollowers
    fetch_max_bytes: int
    selects_by_rack: bool
    """Whether consumers are sent to a replica in their own rack."""
    watch: LiveWatch
    throttle: ReplicationThrottle
    """Of what is sent to followers."""


class FetchRead:
    """What a fetch finds now. `urgent` says that it must be answered whatever its size."""

    __slots__ = (
        "_context",
        "_fetch",
        "_heard",
        "_may_read",
        "_patient",
        "_remaining",
        "_version",
        "_wanted_bytes",
        "found",
        "size_bytes",
        "urgent",
    )

    def __init__(
        self,
        context: ReadingContext,
        fetch: FetchRequest,
        version: int,
        heard: Now | None,
        *,
        time_is_up: bool,
        may_read: MayRead | None = None,
    ) -> None:
        """`heard` is when a follower's fetch arrived; None for another look at a parked one.

        Everything may be read unless `may_read` says otherwise.
        """
        self._patient = not time_is_up and fetch.replica_id < 0 and fetch.min_bytes > 0
        self._context = context
        self._heard = heard
        self._may_read = may_read
        self._fetch = fetch
        self._version = version
        self._remaining = min(fetch.max_bytes, context.fetch_max_bytes)
        self._wanted_bytes = min(fetch.min_bytes, self._remaining)
        self.found: list[tuple[WantedPartition, FetchedPartition]] = []
        self.size_bytes = 0
        self.urgent = False

    @property
    def replica_id(self) -> int:
        """The follower that fetches; below 0 it is a consumer."""
        return self._fetch.replica_id

    @property
    def is_enough(self) -> bool:
        """Whether there is reason to answer before the time is up."""
        return self.urgent or self.size_bytes >= self._wanted_bytes

    @property
    def missing_bytes(self) -> int:
        return self._wanted_bytes - self.size_bytes

    def at(self, context: FetchContext) -> FetchRead:
        """Read every ready partition, in order."""
        keeps_watch = context.is_session
        cluster, replicas = self._context.cluster, self._context.replicas
        may_read = self._may_read
        for entry in list(context.ready):
            if entry.name is None:
                entry.name = _known_name(cluster, entry.topic_id, entry.wanted.partition)
            if may_read is not None and not may_read(entry.name and entry.name.topic):
                entry.watch(None)
                denied = ErrorCode.topic_authorization_failed
                self.found.append((entry, self._refused(entry.wanted, entry.name, denied)))
                continue
            hosted = replicas.locate(
                cluster.image, entry.name, entry.topic_id, other_id=ErrorCode.inconsistent_topic_id
            )
            if isinstance(hosted, ErrorCode):
                entry.watch(None)
                answer = self._refused(entry.wanted, entry.name, hosted)
            else:
                if keeps_watch:
                    entry.watch(hosted)
                answer = self._read(hosted, entry.wanted, entry if keeps_watch else None)
            self.found.append((entry, answer))
        return self

    def _read(
        self, partition: Partition, wanted: FetchPartition, listening: WantedPartition | None
    ) -> FetchedPartition:
        if self._context.watch.magnified and self._heard is not None:
            self._seen(partition.name, wanted, self._heard)
        refused = self._refusal(partition, wanted)
        if refused is not None:
            return self._refused(wanted, partition.name, refused)
        log, offset = partition.log, wanted.fetch_offset
        diverging = None
        if wanted.last_fetched_epoch >= 0 and offset >= log.start_offset:
            diverging = partition.divergence(wanted.last_fetched_epoch, offset)
        if diverging == (-1, -1) or (
            diverging is None and not log.start_offset <= offset <= log.end_offset
        ):
            return self._refused(wanted, partition.name, ErrorCode.offset_out_of_range)
        is_follower = self._fetch.replica_id >= 0
        if diverging is None and is_follower and self._heard is not None:
            refusal = self._note_progress(partition, wanted, listening, self._heard)
            if refusal is not None:
                return self._refused(wanted, partition.name, refusal.code)
        high_watermark, stable = partition.high_watermark.offset, partition.last_stable_offset
        committed_only = self._fetch.isolation_level == READ_COMMITTED
        records: FileRegion | None = None
        aborted: list[tuple[int, int]] | None = [] if committed_only else None
        nearer = None
        if diverging is None and not is_follower:
            leader = partition.leading
            if leader is not None and leader.is_not_available_yet(offset):
                if self._patient:
                    return _nothing_yet(partition, wanted)
                if self._version >= OFFSET_NOT_AVAILABLE_SINCE:
                    return self._refused(wanted, partition.name, ErrorCode.offset_not_available)
            nearer = self._nearer_replica(partition, offset)
        if diverging is not None or nearer is not None:
            self.urgent = True
        elif not (is_follower and self._context.throttle.is_set and self._is_held_up(partition)):
            limit = log.end_offset if is_follower else stable if committed_only else high_watermark
            try:
                records = self._records(partition, wanted, limit)
                if records is not None and committed_only:
                    aborted = _aborted(partition, offset, records.length)
            except DiskError:
                return self._refused(wanted, partition.name, ErrorCode.kafka_storage_error)
            except CorruptBatch:
                return self._refused(wanted, partition.name, ErrorCode.corrupt_message)
        return FetchedPartition(
            wanted.partition,
            ErrorCode.none,
            high_watermark,
            stable,
            log.start_offset,
            aborted,
            NO_REPLICA if nearer is None else nearer,
            records,
            diverging,
        )

    def _is_held_up(self, partition: Partition) -> bool:
        """Whether a follower gets nothing of this partition before replication is slow again."""
        throttle, leader = self._context.throttle, partition.leading
        return (
            throttle.covers(partition.name)
            and leader is not None
            and leader.is_out_of_sync(self._fetch.replica_id)
            and throttle.is_exceeded()
        )

    def _seen(self, name: TopicPartition, wanted: FetchPartition, heard: Now) -> None:
        """For those who look."""
        self._context.watch.see(
            name,
            heard,
            "fetch_received",
            replica=self._fetch.replica_id,
            fetch_offset=wanted.fetch_offset,
            last_fetched_epoch=wanted.last_fetched_epoch,
        )

    def _nearer_replica(self, partition: Partition, offset: int) -> int | None:
        """The in-sync replica in the consumer's own rack, if we are not in it (KIP-392)."""
        rack, leader = self._fetch.rack_id, partition.leading
        if not rack or leader is None or self._heard is None or not self._context.selects_by_rack:
            return None
        brokers = self._context.cluster.image.brokers
        near = {
            candidate.broker_id: candidate
            for candidate in leader.read_candidates(offset, self._heard)
            if self._context.cluster.is_live(candidate.broker_id)
            and brokers[candidate.broker_id].rack == rack
        }
        if not near or partition.node_id in near:
            return None
        return max(
            near, key=lambda node: (near[node].end_offset, near[node].last_caught_up_ms, -node)
        )

    def _note_progress(
        self,
        partition: Partition,
        wanted: FetchPartition,
        listening: WantedPartition | None,
        heard: Now,
    ) -> Refusal | None:
        """A follower that asks for an offset holds everything below it.

        Noted before the high watermark is read, so that the answer tells of one that moved by it.
        """
        if self._context.awaited:
            self._context.awaited.heard(self._fetch.replica_id, partition.name)
        leader = partition.leader()
        if isinstance(leader, Refusal):
            return leader
        return leader.follower_fetched(
            FollowerFetch(
                replica_id=self._fetch.replica_id,
                broker_epoch=self._fetch.replica_epoch,
                fetch_offset=wanted.fetch_offset,
                log_start_offset=wanted.log_start_offset,
                leader_end_before_read=partition.log.end_offset,
                listening=listening,
            ),
            heard,
        )

    def _records(
        self, partition: Partition, wanted: FetchPartition, limit: int
    ) -> FileRegion | None:
        """Batches below `limit` that fit, and whether waiting for more would be pointless."""
        log, offset, remaining = partition.log, wanted.fetch_offset, self._remaining
        if offset >= limit:
            if (
                offset > limit
            ):  # the reader is ahead of a high watermark that lags; it will ask again
                self.urgent = True
            return None
        is_first = self.size_bytes == 0
        found = None
        if remaining > 0 or is_first:
            size = min(wanted.max_bytes, remaining)
            found = log.read(offset, size, limit, whole_first_batch=is_first)
        if found is None:
            if remaining < wanted.max_bytes:  # there is more than the answer has room for
                self.urgent = True
            return None
        if offset < log.segments.active.base_offset:  # what follows is in another file
            self.urgent = True
        self.size_bytes += found.length
        self._remaining = max(0, remaining - found.length)
        return FileRegion(found.file, found.position, found.length)

    def _refusal(self, partition: Partition, wanted: FetchPartition) -> ErrorCode | None:
        fenced = partition.fence(wanted.current_leader_epoch)
        replica_id = self._fetch.replica_id
        if fenced is not None:
            if replica_id < 0 and self._is_led_elsewhere(partition, fenced.code):
                return ErrorCode.not_leader_or_follower
            return fenced.code
        if not partition.is_leader and (replica_id >= 0 or self._version < FOLLOWER_READS_SINCE):
            return ErrorCode.not_leader_or_follower
        if replica_id >= 0 and (
            replica_id == partition.node_id or replica_id not in partition.leadership.replicas
        ):
            if wanted.current_leader_epoch >= 0:
                return ErrorCode.unknown_leader_epoch
            return ErrorCode.not_leader_or_follower
        if self._version < ZSTD_SINCE and partition.rules.codec is CompressionType.ZSTD:
            return ErrorCode.unsupported_compression_type
        return None

    def _is_led_elsewhere(self, partition: Partition, fenced: ErrorCode) -> bool:
        """Whether a consumer in an epoch that ended here is best told where to go on.

        Some clients follow the hint only if the error says that this is not the leader. Told that
        their epoch is over, they ask another broker for the leader, who may not have heard of the
        change yet, and believe it for seconds.
        """
        return (
            fenced is ErrorCode.fenced_leader_epoch
            and self._version >= LEADER_HINTS_SINCE
            and not partition.is_leader
        )

    def _refused(
        self, wanted: FetchPartition, name: TopicPartition | None, error: ErrorCode
    ) -> FetchedPartition:
        if not (self._patient and error in SOON_OVER):
            self.urgent = True
        if error is ErrorCode.kafka_storage_error and self._version < STORAGE_ERROR_SINCE:
            error = ErrorCode.not_leader_or_follower
        leader = None
        if name is not None and self._version >= LEADER_HINTS_SINCE and error in LEADER_HINTED:
            leader = self._context.cluster.current_leader(name)
        return FetchedPartition(wanted.partition, error, -1, current_leader=leader)


def _nothing_yet(partition: Partition, wanted: FetchPartition) -> FetchedPartition:
    """For a consumer that is ahead of the high watermark: wait until it rises."""
    return FetchedPartition(
        wanted.partition,
        ErrorCode.none,
        partition.high_watermark.offset,
        partition.last_stable_offset,
        partition.log.start_offset,
    )


def _known_name(cluster: ClusterView, topic_id: UUID | None, index: int) -> TopicPartition | None:
    """A session may name a topic id before this broker has heard of it."""
    name = None if topic_id is None else cluster.topic_name(topic_id)
    return None if name is None else TopicPartition(name, index)


def _aborted(partition: Partition, offset: int, length: int) -> list[tuple[int, int]]:
    log = partition.log
    bound = log.upper_bound_of(offset, length)
    return [
        (transaction.producer_id, transaction.first_offset)
        for transaction in log.aborted_transactions(offset, bound)
    ]
