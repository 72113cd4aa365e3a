"""Fetch (key 1, versions 4-18): one door for consumers and followers.

A fetch is answered at once when it has enough bytes, an error or a divergence to report, or no
patience; otherwise it is parked until news or its deadline.

Invariant  A consumer that is over its quota is answered with nothing, and nothing counts as told to
           it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.api.contexts import RecordsContext
from tidelog.node.core.request import Reply, Request
from tidelog.node.core.runtime import Runtime
from tidelog.node.fetching.fetch_reading import NO_REPLICA, FetchRead, MayRead
from tidelog.node.fetching.fetch_sessions import FetchContext, ParkedFetch, WantedPartition
from tidelog.node.quotas.replication_throttle import ReplicationThrottle
from tidelog.protocol.fetch import (
    FetchedPartition,
    FetchRequest,
    FileRegion,
    Part,
    encode_fetch_response,
)
from tidelog.protocol.parts import part_length
from tidelog.security.acls import AclOperation, ResourceType

TOPIC_IDS_SINCE: Final = 13


def handle(context: RecordsContext, request: Request[FetchRequest]) -> Reply:
    """Answer a fetch now, or park it."""
    fetch, may_read = request.body, None
    authorizer = context.authorization.authorizer
    if authorizer is None:
        now_ms = request.now.monotonic_ms
        session = context.sessions.context_for(fetch, request.api_version, now_ms)
    else:
        may_read = _may_read(context, request, fetch)
        session = _judged_context(context, request, may_read, authorizer.generation)
    if isinstance(session, ErrorCode):
        return encode_fetch_response(
            request.api_version, request.correlation_id, session, 0, [], [], 0
        )
    if session.parked is not None:
        retry(context, session.parked, request.now, time_is_up=True)
    if context.throttles.are_set and may_read is not _nothing:
        fetch = _within_quota(context, request, fetch)
    has_time = fetch.max_wait_ms > 0
    look = FetchRead(
        context.reading,
        fetch,
        request.api_version,
        request.now,
        time_is_up=not has_time,
        may_read=may_read,
    )
    if look.at(session).is_enough or not has_time or not session.partitions:
        return _encode(context, request, session, look)
    later = request.park()
    if not session.is_session:
        session.watch_all(context.replicas.get)
    wait_ms = context.awaited.patience_ms(fetch.replica_id, fetch.max_wait_ms)
    parked = ParkedFetch(context.parked, request, fetch, session, look.missing_bytes, wait_ms)
    session.parked = parked
    if fetch.replica_id >= 0:
        context.awaited.parks(fetch.replica_id, parked)
    request.connection.waiting[parked] = None
    return later


def retry(context: RecordsContext, parked: ParkedFetch, now: Now, time_is_up: bool) -> bool:
    """Look again at a parked fetch; answer it when there is reason to."""
    session, request, may_read = parked.context, parked.request, None
    authorizer = context.authorization.authorizer
    if authorizer is not None:
        may_read = _may_read(context, request, parked.fetch)
        session.judge_again(authorizer.generation)
    look = FetchRead(
        context.reading,
        parked.fetch,
        request.api_version,
        None,
        time_is_up=time_is_up,
        may_read=may_read,
    ).at(session)
    if not (time_is_up or look.is_enough):
        return False
    session.used_ms = now.monotonic_ms
    parked.cancel()
    request.connection.waiting.pop(parked, None)
    request.answer(_encode(context, request, session, look))
    return True


def _judged_context(
    context: RecordsContext,
    request: Request[FetchRequest],
    may_read: MayRead | None,
    acl_generation: int,
) -> FetchContext | ErrorCode:
    """The partitions that the fetch speaks of, where not everybody may read everything.

    What a session was told before may not hold by other access control lists.
    Whoever says that he is a follower and may not be one gets no session: it would end those of
    the broker whose name he uses.
    """
    fetch, version, now_ms = request.body, request.api_version, request.now.monotonic_ms
    if may_read is not _nothing:
        session = context.sessions.context_for(fetch, version, now_ms)
        if isinstance(session, FetchContext):
            session.judge_again(acl_generation)
        return session
    forged = FetchContext(0, version >= TOPIC_IDS_SINCE, fetch.replica_id, now_ms)
    forged.want(fetch)
    return forged


def _may_read(
    context: RecordsContext, request: Request[FetchRequest], fetch: FetchRequest
) -> MayRead | None:
    """What the one who fetches may read now; None when it is everything."""
    authorization = context.authorization
    if fetch.replica_id >= 0:
        may_follow = authorization.allows_on_cluster(request, AclOperation.CLUSTER_ACTION)
        return None if may_follow else _nothing
    return lambda topic: (
        topic is None or authorization.allows(request, AclOperation.READ, ResourceType.TOPIC, topic)
    )


def _nothing(topic: str | None) -> bool:
    return False


def _within_quota(
    context: RecordsContext, request: Request[FetchRequest], fetch: FetchRequest
) -> FetchRequest:
    """Ask for no more than what a consumer could get without being throttled for it alone."""
    if fetch.replica_id >= 0:
        context.throttles.is_follower()
        return fetch
    most = context.throttles.most_to_fetch(request)
    return fetch if most is None else fetch._replace(max_bytes=min(fetch.max_bytes, most))


def _encode(
    context: RecordsContext, request: Request[FetchRequest], session: FetchContext, look: FetchRead
) -> list[Part]:
    """Write the answer, remember what was told, and keep ready what has more to say."""
    is_consumer = look.replica_id < 0
    if context.throttles.are_set and is_consumer:
        told = [each for each in look.found if _is_news(session, *each)]
        size = sum(map(part_length, _written(context, request, session, told)))
        time_ms = context.throttles.fetched(request, size)
        if time_ms > 0:
            return _over_quota(context, request, session, time_ms)
    watch, counters = context.runtime.watch, context.runtime.counters
    if is_consumer:
        counters.bytes_out += look.size_bytes
    else:
        counters.replication_bytes_out += look.size_bytes
        if context.reading.throttle.is_set:
            _note_throttled(context.reading.throttle, look)
    told = [each for each in look.found if _remember(session, *each)]
    if watch.magnified:
        for entry, answer in told:
            if entry.name is not None:
                _seen(context.runtime, entry.name, look.replica_id, answer)
    return _written(context, request, session, told)


def _note_throttled(throttle: ReplicationThrottle, look: FetchRead) -> None:
    throttle.record(
        sum(
            part_length(answer.records)
            for entry, answer in look.found
            if answer.records is not None and entry.name is not None and throttle.covers(entry.name)
        )
    )


def _written(
    context: RecordsContext,
    request: Request[FetchRequest],
    session: FetchContext,
    told: Sequence[tuple[WantedPartition, FetchedPartition]],
) -> list[Part]:
    """What there is to tell, as bytes and stretches of files."""
    topics: list[tuple[str | None, UUID | None, list[FetchedPartition]]] = []
    leaders: list[int] = []
    current: object = None
    for entry, answer in told:
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
        session.session_id,
        topics,
        context.cluster.leader_endpoints(leaders, request.connection.listener),
        0,
    )


def _over_quota(
    context: RecordsContext, request: Request[FetchRequest], session: FetchContext, time_ms: int
) -> list[Part]:
    """For a consumer over its quota. A session that would begin like this does not begin."""
    if session.is_session and not session.is_incremental:
        context.sessions.end(session)
    return encode_fetch_response(
        request.api_version,
        request.correlation_id,
        ErrorCode.none,
        session.session_id,
        [],
        [],
        time_ms,
    )


def _seen(
    runtime: Runtime, name: TopicPartition, replica_id: int, answer: FetchedPartition
) -> None:
    """For those who look."""
    records, diverging = answer.records, answer.diverging_epoch
    runtime.watch.see(
        name,
        runtime.now,
        "fetch_answered",
        replica=replica_id,
        bytes=records.length if isinstance(records, FileRegion) else 0,
        high_watermark=answer.high_watermark,
        error=int(answer.error),
        diverging=None if diverging is None else list(diverging),
    )


def _is_news(session: FetchContext, entry: WantedPartition, answer: FetchedPartition) -> bool:
    """Whether the reader does not know it already."""
    return (
        not session.is_incremental
        or answer.high_watermark != entry.told_high_watermark
        or answer.log_start_offset != entry.told_log_start
        or _says_something(answer)
    )


def _says_something(answer: FetchedPartition) -> bool:
    return (
        answer.records is not None
        or bool(answer.error)
        or answer.diverging_epoch is not None
        or answer.preferred_read_replica != NO_REPLICA
    )


def _remember(session: FetchContext, entry: WantedPartition, answer: FetchedPartition) -> bool:
    """Note what the reader now knows; False when there is nothing it does not know already."""
    is_news = _is_news(session, entry, answer)
    entry.told_high_watermark = answer.high_watermark
    entry.told_log_start = answer.log_start_offset
    if answer.records is not None:  # to the end of the line, so that nobody starves behind it
        session.ready.pop(entry, None)
        session.ready[entry] = None
    elif not (_says_something(answer) or entry.may_have_more or entry.must_be_heard):
        session.ready.pop(entry, None)
    return is_news
