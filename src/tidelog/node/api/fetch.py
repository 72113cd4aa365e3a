"""Fetch (key 1, versions 4-18): one door for consumers and followers.

A fetch is answered at once when it has enough bytes, an error or a divergence to report, or no
patience; otherwise it is parked until news or its deadline.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.core.request import Reply, Request
from tidelog.node.fetching.fetch_reading import NO_REPLICA, Look
from tidelog.node.fetching.fetch_sessions import FetchContext, WantedPartition
from tidelog.node.fetching.parked_fetches import ParkedFetch
from tidelog.protocol.fetch import FetchedPartition, FetchRequest, Part, encode_fetch_response


def handle(broker: BrokerState, request: Request) -> Reply:
    """Answer a fetch now, or park it."""
    fetch: FetchRequest = request.body
    context = broker.sessions.context_for(fetch, request.api_version, request.now.monotonic_ms)
    if isinstance(context, ErrorCode):
        return encode_fetch_response(
            request.api_version, request.correlation_id, context, 0, [], [], 0
        )
    if context.parked is not None:
        retry(broker, context.parked, request.now, time_is_up=True)
    has_time = fetch.max_wait_ms > 0
    look = Look(broker, fetch, request.api_version, request.now, time_is_up=not has_time)
    if look.at(context).is_enough or not has_time or not context.partitions:
        return _encode(broker, request, context, look)
    later = request.park()
    if not context.is_session:
        context.watch_all(broker.replicas.get)
    wait_ms = broker.awaited.patience_ms(fetch.replica_id, fetch.max_wait_ms)
    parked = ParkedFetch(broker.parked, request, fetch, context, look.missing_bytes, wait_ms)
    context.parked = parked
    if fetch.replica_id >= 0:
        broker.awaited.parks(fetch.replica_id, parked)
    request.connection.waiting[parked] = None
    return later


def retry(broker: BrokerState, parked: ParkedFetch, now: Now, time_is_up: bool) -> bool:
    """Look again at a parked fetch; answer it when there is reason to."""
    context, request = parked.context, parked.request
    look = Look(broker, parked.fetch, request.api_version, None, time_is_up=time_is_up).at(context)
    if not (time_is_up or look.is_enough):
        return False
    context.used_ms = now.monotonic_ms
    parked.cancel()
    request.connection.waiting.pop(parked, None)
    request.answer(_encode(broker, request, context, look))
    return True


def _encode(broker: BrokerState, request: Request, context: FetchContext, look: Look) -> list[Part]:
    """Write the answer, remember what was told, and keep ready what has more to say."""
    topics: list[tuple[str | None, UUID | None, list[FetchedPartition]]] = []
    leaders: list[int] = []
    current: object = None
    for entry, answer in look.found:
        if not _remember(context, entry, answer):
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
        broker.leader_endpoints(leaders, request.connection.listener),
        0,
    )


def _remember(context: FetchContext, entry: WantedPartition, answer: FetchedPartition) -> bool:
    """Note what the reader now knows; False when there is nothing it does not know already."""
    says_something = (
        bool(answer.error)
        or answer.records is not None
        or answer.diverging_epoch is not None
        or answer.preferred_read_replica != NO_REPLICA
    )
    is_news = (
        says_something
        or not context.is_incremental
        or answer.high_watermark != entry.told_high_watermark
        or answer.log_start_offset != entry.told_log_start
    )
    entry.told_high_watermark = answer.high_watermark
    entry.told_log_start = answer.log_start_offset
    if answer.records is not None:  # to the end of the line, so that nobody starves behind it
        context.ready.pop(entry, None)
        context.ready[entry] = None
    elif not (says_something or entry.may_have_more or entry.must_be_heard):
        context.ready.pop(entry, None)
    return is_news
