"""Fetch (key 1, versions 4-18): one door for consumers and followers.

A fetch is answered at once when it has enough bytes, an error or a divergence to report, or no
patience; otherwise it is parked until news or its deadline. Sizes follow KIP-74: the first
non-empty partition gives at least one whole batch, whatever the limits say.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.fetch_sessions import FetchContext, WantedPartition
from tidelog.node.parked_fetches import ParkedFetch
from tidelog.node.request import Reply, Request
from tidelog.replication.partition import Partition
from tidelog.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FileRegion,
    Part,
    encode_fetch_response,
    part_length,
)

READ_COMMITTED: Final = 1
FOLLOWER_READS_SINCE: Final = 11
NO_REPLICA: Final = -1


class Answers(NamedTuple):
    """What one look at the ready partitions found."""

    partitions: list[tuple[WantedPartition, FetchedPartition]]
    size_bytes: int
    urgent: bool


def handle(broker: BrokerState, request: Request) -> Reply:
    """Answer a fetch now, or park it."""
    fetch: FetchRequest = request.body
    context = broker.sessions.context_for(
        fetch, request.api_version, request.now.monotonic_ms, broker.topic_name
    )
    if isinstance(context, ErrorCode):
        return encode_fetch_response(
            request.api_version, request.correlation_id, context, 0, [], [], 0
        )
    if context.parked is not None:
        retry(broker, context.parked, request.now, time_is_up=True)
    answers = _look(broker, request, fetch, context)
    wanted_bytes = min(fetch.min_bytes, _bytes_limit(broker, fetch))
    enough = answers.urgent or answers.size_bytes >= wanted_bytes
    if enough or fetch.max_wait_ms <= 0 or not context.partitions:
        return _encode(broker, request, context, answers)
    later = request.park()
    if not context.is_session:
        context.watch_all(broker.replicas.get)
    context.parked = ParkedFetch(
        broker.parked, request, fetch, context, wanted_bytes - answers.size_bytes
    )
    request.connection.waiting[context.parked] = None
    return later


def retry(broker: BrokerState, parked: ParkedFetch, now: Now, time_is_up: bool) -> bool:
    """Look again at a parked fetch; answer it when there is reason to."""
    context, fetch, request = parked.context, parked.fetch, parked.request
    answers = _look(broker, request, fetch, context)
    wanted_bytes = min(fetch.min_bytes, _bytes_limit(broker, fetch))
    if not (time_is_up or answers.urgent or answers.size_bytes >= wanted_bytes):
        return False
    parked.cancel()
    request.connection.waiting.pop(parked, None)
    request.answer(_encode(broker, request, context, answers))
    return True


def _bytes_limit(broker: BrokerState, fetch: FetchRequest) -> int:
    return min(fetch.max_bytes, broker.fetch_max_bytes)


def _look(
    broker: BrokerState, request: Request, fetch: FetchRequest, context: FetchContext
) -> Answers:
    """Read every ready partition within the size limits."""
    remaining = _bytes_limit(broker, fetch)
    found: list[tuple[WantedPartition, FetchedPartition]] = []
    size = 0
    urgent = False
    keeps_watch = context.is_session
    for entry in list(context.ready):
        located = broker.replicas.locate(
            broker.image, entry.name, entry.topic_id, other_id=ErrorCode.inconsistent_topic_id
        )
        if isinstance(located, ErrorCode):
            answer = _refused(entry.wanted.partition, located)
        else:
            if keeps_watch:
                entry.watch(located)
            answer = _read(located, request.api_version, fetch, entry.wanted, remaining, size == 0)
        if answer.error or answer.diverging_epoch is not None:
            urgent = True
        if answer.records is not None:
            length = part_length(answer.records)
            size += length
            remaining = max(0, remaining - length)
        found.append((entry, answer))
    return Answers(found, size, urgent)


def _read(
    partition: Partition,
    version: int,
    fetch: FetchRequest,
    wanted: FetchPartition,
    remaining: int,
    is_first: bool,
) -> FetchedPartition:
    """Read one partition, by the order of checks of the protocol."""
    refused = _refusal(partition, version, fetch, wanted)
    if refused is not None:
        return _refused(wanted.partition, refused, partition)
    log = partition.log
    offset = wanted.fetch_offset
    diverging = None
    if wanted.last_fetched_epoch >= 0 and offset >= log.start_offset:
        diverging = partition.divergence(wanted.last_fetched_epoch, offset)
        if diverging == (-1, -1):
            return _refused(wanted.partition, ErrorCode.offset_out_of_range, partition)
    if not log.start_offset <= offset <= log.end_offset and diverging is None:
        return _refused(wanted.partition, ErrorCode.offset_out_of_range, partition)
    mark = partition.high_watermark.offset
    stable = partition.last_stable_offset
    committed_only = fetch.isolation_level == READ_COMMITTED
    limit = stable if committed_only else mark
    records: FileRegion | None = None
    aborted: list[tuple[int, int]] | None = [] if committed_only else None
    may_read = remaining > 0 or is_first
    if diverging is None and offset < limit and may_read:
        size = min(wanted.max_bytes, remaining)
        found = log.read(offset, size, limit, whole_first_batch=is_first)
        if found is not None:
            records = FileRegion(found.file, found.position, found.length)
            if committed_only:
                aborted = [
                    (transaction.producer_id, transaction.first_offset)
                    for transaction in log.aborted_transactions(offset, limit)
                ]
    return FetchedPartition(
        wanted.partition,
        ErrorCode.none,
        mark,
        stable,
        log.start_offset,
        aborted,
        NO_REPLICA,
        records,
        diverging,
        None,
    )


def _refusal(
    partition: Partition, version: int, fetch: FetchRequest, wanted: FetchPartition
) -> ErrorCode | None:
    fenced = partition.fence(wanted.current_leader_epoch)
    if fenced is not None:
        return fenced.code
    is_follower = fetch.replica_id >= 0
    if not partition.is_leader and (is_follower or version < FOLLOWER_READS_SINCE):
        return ErrorCode.not_leader_or_follower
    if is_follower and (
        fetch.replica_id == partition.node_id
        or fetch.replica_id not in partition.leadership.replicas
    ):
        if wanted.current_leader_epoch >= 0:
            return ErrorCode.unknown_leader_epoch
        return ErrorCode.not_leader_or_follower
    return None


def _refused(index: int, error: ErrorCode, partition: Partition | None = None) -> FetchedPartition:
    leader = None
    if partition is not None and error in (
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
    ):
        leader = (partition.leadership.leader, partition.leadership.leader_epoch)
    return FetchedPartition(index, error, -1, -1, -1, None, NO_REPLICA, None, None, leader)


def _encode(
    broker: BrokerState, request: Request, context: FetchContext, answers: Answers
) -> list[Part]:
    """Write the answer, remember what was told, and keep ready what has more to say."""
    topics: list[tuple[str | None, UUID | None, list[FetchedPartition]]] = []
    leaders: list[int] = []
    current: object = None
    for entry, answer in answers.partitions:
        told = _remember(context, entry, answer)
        if not told:
            continue
        topic = entry.key[0]
        if topic != current:
            current = topic
            name = None if entry.name is None else entry.name.topic
            topics.append((name, entry.topic_id, []))
        topics[-1][2].append(answer)
        if answer.current_leader is not None:
            leaders.append(answer.current_leader[0])
    return encode_fetch_response(
        request.api_version,
        request.correlation_id,
        ErrorCode.none,
        context.session_id,
        topics,
        broker.leader_endpoints(leaders),
        0,
    )


def _remember(context: FetchContext, entry: WantedPartition, answer: FetchedPartition) -> bool:
    """Note what the reader now knows; False when there is nothing it does not know already."""
    is_news = (
        not context.is_incremental
        or bool(answer.error)
        or answer.records is not None
        or answer.diverging_epoch is not None
        or answer.high_watermark != entry.told_high_watermark
        or answer.log_start_offset != entry.told_log_start
    )
    entry.told_high_watermark = answer.high_watermark
    entry.told_log_start = answer.log_start_offset
    has_more = (
        bool(answer.error)
        or answer.records is not None
        or answer.diverging_epoch is not None
        or entry.wanted.fetch_offset < answer.high_watermark
    )
    context.ready.pop(entry, None)
    if has_more and context.is_session:
        context.ready[entry] = None
    return is_news
