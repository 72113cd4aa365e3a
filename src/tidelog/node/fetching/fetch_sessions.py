"""Fetch sessions (KIP-227): a reader names its partitions once, then only what changes.

A context holds the partitions of one fetch: for a session it lives on between requests, for a
plain fetch it serves one. It keeps a ready set of partitions that may have something to say, so
that the cost of a fetch follows what changed and not how many partitions are watched.

Invariant  A partition outside the ready set has nothing that its reader has not been told.
Invariant  A session is used only with the epoch it expects next; anything else is refused.
Invariant  A follower may have several sessions, one for each of its fetchers, and each of its
           partitions is in one of them: a session that asks for a partition of another one of the
           same follower ends that one, which an earlier connection left behind.
Invariant  All sessions of a follower belong to one process of it: what an earlier one left behind
           is over, and what it still sends begins nothing.
Invariant  A parked fetch is answered once: by news, by its deadline, or never when its peer left.
           News are looked at when a tick ends, so that many appends cost one look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.model.entropy import Entropy
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadlines
from tidelog.node.core.request import Request
from tidelog.protocol.fetch import FetchPartition, FetchRequest
from tidelog.replication.messages import ANY_BROKER_EPOCH
from tidelog.replication.partition import Partition

IDLE_EVICTION_MS: Final = 120_000
EPOCH_MAX: Final = 2**31 - 1
FULL_FETCH_EPOCHS: Final = (0, -1)

WantedKey: TypeAlias = tuple[str | UUID, int]


class WantedPartition:
    """One partition that a reader wants, and what it was last told about it."""

    __slots__ = (
        "_context",
        "_left_ms",
        "hosted",
        "key",
        "name",
        "told_high_watermark",
        "told_log_start",
        "topic_id",
        "wanted",
    )

    def __init__(
        self,
        context: FetchContext,
        key: WantedKey,
        name: TopicPartition | None,
        topic_id: UUID | None,
        wanted: FetchPartition,
    ) -> None:
        self._context = context
        self.key = key
        self.name = name
        self.topic_id = topic_id
        self.wanted = wanted
        self._left_ms: int | None = None
        self.hosted: Partition | None = None
        self.told_high_watermark = -1
        self.told_log_start = -1

    def want(self, wanted: FetchPartition) -> None:
        """The reader asks for this from now on.

        In another epoch, or from further back, it may have dropped what it was told before.
        """
        before, self.wanted = self.wanted, wanted
        if (
            wanted.current_leader_epoch != before.current_leader_epoch
            or wanted.fetch_offset < before.fetch_offset
        ):
            self.told_high_watermark = self.told_log_start = -1

    @property
    def may_have_more(self) -> bool:
        """Whether the watched replica holds records that its reader has not got."""
        hosted = self.hosted
        return hosted is not None and self.wanted.fetch_offset < hosted.log.end_offset

    @property
    def must_be_heard(self) -> bool:
        """Whether each fetch of its reader may matter: a follower that is still to be in sync."""
        context = self._context
        if not context.privileged or self.hosted is None:
            return False
        leader = self.hosted.leading
        return leader is not None and leader.is_out_of_sync(context.reader)

    def last_heard_ms(self, now_ms: int) -> int:
        """When a request of its context was last here; now, while one waits here."""
        if self._left_ms is not None:
            return self._left_ms
        return now_ms if self._context.parked is not None else self._context.used_ms

    def leave(self) -> None:
        """The reader asks for it no more; later requests of its context tell nothing of it."""
        self._left_ms = self._context.used_ms
        self.watch(None)

    @property
    def wants_log_end(self) -> bool:
        """Whether the reader is a follower."""
        return self._context.privileged

    def has_news(self) -> None:
        """The next answer has something to tell, but need not come sooner for it."""
        self._context.ready[self] = None

    def partition_moved(self, new_bytes: int) -> None:
        """What the reader waits for moved in the watched partition."""
        context = self._context
        context.ready[self] = None
        if context.parked is not None:
            context.parked.news(new_bytes)

    def watch(self, hosted: Partition | None) -> None:
        """Be told of news of this replica from now on, and of no other."""
        if self.hosted is hosted:
            return
        if self.hosted is not None:
            self.hosted.watchers.remove(self)
        self.hosted = hosted
        if hosted is not None:
            hosted.watchers.add(self)


class FetchContext:
    """The partitions of one fetch, or of one session."""

    __slots__ = (
        "acl_generation",
        "by_topic_id",
        "created_ms",
        "is_incremental",
        "next_epoch",
        "parked",
        "partitions",
        "reader",
        "reader_epoch",
        "ready",
        "session_id",
        "used_ms",
    )

    def __init__(
        self,
        session_id: int,
        by_topic_id: bool,
        reader: int,
        now_ms: int,
        reader_epoch: int = ANY_BROKER_EPOCH,
    ) -> None:
        self.session_id = session_id
        self.acl_generation = 0
        """Of the access control lists by which its partitions were last judged."""
        self.by_topic_id = by_topic_id
        self.reader = reader
        """The broker that follows; -1 for a consumer."""
        self.reader_epoch = reader_epoch
        """Its incarnation."""
        self.created_ms = self.used_ms = now_ms
        """When the last request came, or when it was answered if it had to wait."""
        self.is_incremental = False
        """Whether only news is told: true from the second fetch of a session on."""
        self.next_epoch = 0
        self.partitions: dict[WantedKey, WantedPartition] = {}
        self.ready: dict[WantedPartition, None] = {}
        self.parked: ParkedFetch | None = None

    @property
    def is_session(self) -> bool:
        return self.session_id != 0

    @property
    def privileged(self) -> bool:
        """Whether the reader is a follower, whose session is not given up for a consumer's."""
        return self.reader >= 0

    def want(self, request: FetchRequest) -> list[WantedKey]:
        """Add or change what the request names, and drop what it forgets; what was added."""
        added: list[WantedKey] = []
        for topic in request.topics:
            identity = topic.topic_id or topic.name or ""
            for wanted in topic.partitions:
                key = (identity, wanted.partition)
                entry = self.partitions.get(key)
                if entry is None:
                    name = None
                    if topic.topic_id is None:
                        name = TopicPartition(topic.name or "", wanted.partition)
                    entry = WantedPartition(self, key, name, topic.topic_id, wanted)
                    self.partitions[key] = entry
                    added.append(key)
                entry.want(wanted)
                self.ready[entry] = None
        for forgotten, topic_id, indexes in request.forgotten:
            for index in indexes:
                self._forget((topic_id or forgotten or "", index))
        return added

    def watch_all(self, hosted_of: Callable[[TopicPartition], Partition | None]) -> None:
        """Be told of news of every wanted partition: what a parked plain fetch needs."""
        for entry in self.partitions.values():
            entry.watch(None if entry.name is None else hosted_of(entry.name))

    def judge_again(self, acl_generation: int) -> None:
        """Look at every partition once more if access control lists have changed."""
        if self.acl_generation != acl_generation:
            self.acl_generation = acl_generation
            self.ready = dict.fromkeys(self.partitions.values())

    def release(self) -> None:
        """Watch nothing any more."""
        for entry in self.partitions.values():
            entry.watch(None)

    def _forget(self, key: WantedKey) -> None:
        entry = self.partitions.pop(key, None)
        if entry is not None:
            entry.leave()
            self.ready.pop(entry, None)


class FetchSessions:
    """All sessions of a node, bounded by `max.incremental.fetch.session.cache.slots`."""

    def __init__(self, slots: int, entropy: Entropy) -> None:
        self._slots = slots
        self._entropy = entropy
        self._sessions: dict[int, FetchContext] = {}
        self._of_follower: dict[int, dict[int, FetchContext]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def context_for(
        self, request: FetchRequest, version: int, now_ms: int
    ) -> FetchContext | ErrorCode:
        """The context that this request speaks of, brought up to date with it."""
        by_topic_id = version >= 13
        if request.session_epoch in FULL_FETCH_EPOCHS:
            self._end_as(request.replica_id, request.session_id)
            context = FetchContext(
                0, by_topic_id, request.replica_id, now_ms, request.replica_epoch
            )
            context.want(request)
            if request.session_epoch == 0 and version >= 7 and context.partitions:
                self._try_to_keep(context, now_ms)
            return context
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.next_epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if session.by_topic_id != by_topic_id:
            return ErrorCode.fetch_session_topic_id_error
        added = session.want(request)
        if added and session.privileged:
            self._end_others_with(added, session)
        session.is_incremental = True
        session.next_epoch = session.next_epoch + 1 if session.next_epoch < EPOCH_MAX else 1
        session.used_ms = now_ms
        if not session.partitions:
            self.end(session)
        return session

    def of_follower(self, follower: int) -> Iterable[FetchContext]:
        """The sessions of a follower."""
        return tuple(self._of_follower.get(follower, {}).values())

    def end(self, session: FetchContext) -> None:
        """A fetch still parked in the session goes on as a plain one, and its answer tells so."""
        del self._sessions[session.session_id]
        if session.privileged:
            siblings = self._of_follower[session.reader]
            del siblings[session.session_id]
            if not siblings:
                del self._of_follower[session.reader]
        session.session_id = 0
        if session.parked is None:
            session.release()

    def _end_as(self, reader: int, session_id: int) -> None:
        """A reader begins anew where it had a session; nobody ends one of somebody else."""
        session = self._sessions.get(session_id)
        if session is not None and session.reader == reader:
            self.end(session)

    def _try_to_keep(self, context: FetchContext, now_ms: int) -> None:
        if context.privileged and not self._succeeds(context):
            return
        if len(self._sessions) >= self._slots and not self._evict_for(context, now_ms):
            return
        session_id = self._entropy.below(EPOCH_MAX) + 1
        while session_id in self._sessions:
            session_id = self._entropy.below(EPOCH_MAX) + 1
        context.session_id = session_id
        context.next_epoch = 1
        self._sessions[session_id] = context
        if context.privileged:
            self._of_follower.setdefault(context.reader, {})[session_id] = context

    def _succeeds(self, newcomer: FetchContext) -> bool:
        """End what an earlier process or connection of a follower left behind.

        False when the newcomer itself is of an earlier process.
        """
        siblings = self.of_follower(newcomer.reader)
        if any(_is_of_earlier_process(newcomer, session) for session in siblings):
            return False
        for session in siblings:
            if _is_of_earlier_process(session, newcomer):
                self.end(session)
        self._end_others_with(newcomer.partitions, newcomer)
        return True

    def _end_others_with(self, keys: Iterable[WantedKey], session: FetchContext) -> None:
        """Partially ended, a session would leave its reader waiting for what it no longer holds."""
        for other in self.of_follower(session.reader):
            if other is not session and not other.partitions.keys().isdisjoint(keys):
                self.end(other)

    def _evict_for(self, newcomer: FetchContext, now_ms: int) -> bool:
        """Make room: an idle session goes first, then a lesser one that had its time."""
        victim = self._idle(now_ms) or self._lesser(newcomer, now_ms)
        if victim is None:
            return False
        self.end(victim)
        return True

    def _idle(self, now_ms: int) -> FetchContext | None:
        oldest = min(self._sessions.values(), key=lambda session: session.used_ms, default=None)
        if oldest is None or now_ms - oldest.used_ms <= IDLE_EVICTION_MS:
            return None
        return oldest

    def _lesser(self, newcomer: FetchContext, now_ms: int) -> FetchContext | None:
        candidates = (
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > IDLE_EVICTION_MS
            or (newcomer.privileged and not session.privileged)
        )
        least = min(candidates, key=_worth, default=None)
        return least if least is not None and _worth(least) < _worth(newcomer) else None


def _worth(session: FetchContext) -> tuple[bool, int]:
    """Followers before consumers, then whoever watches more."""
    return session.privileged, len(session.partitions)


def _is_of_earlier_process(session: FetchContext, other: FetchContext) -> bool:
    return ANY_BROKER_EPOCH < session.reader_epoch < other.reader_epoch


Retry: TypeAlias = Callable[["ParkedFetch", Now, bool], bool]


class ParkedFetch:
    """One fetch that waits."""

    __slots__ = ("_fetches", "_missing_bytes", "_woken", "context", "deadline", "fetch", "request")

    def __init__(
        self,
        fetches: ParkedFetches,
        request: Request[FetchRequest],
        fetch: FetchRequest,
        context: FetchContext,
        missing_bytes: int,
        wait_ms: int,
    ) -> None:
        self._fetches = fetches
        self._missing_bytes = missing_bytes
        self._woken = False
        self.request = request
        self.fetch = fetch
        self.context = context
        self.deadline = fetches.deadlines.at(request.now.monotonic_ms + wait_ms, self._time_is_up)

    @property
    def is_waiting(self) -> bool:
        return self.context.parked is self

    def news(self, new_bytes: int) -> None:
        """Something moved; bytes count towards what is missing, anything else wakes at once."""
        self._missing_bytes -= new_bytes
        if not self._woken and (new_bytes == 0 or self._missing_bytes <= 0):
            self._woken = True
            self._fetches.woken.append(self)

    def look_again(self, now: Now) -> None:
        """Try to answer after news."""
        self._woken = False
        if self.is_waiting:
            self._fetches.retry(self, now, False)

    def hurry(self, now: Now) -> None:
        """Answer with what there is, if it still waits."""
        if self.is_waiting:
            self._fetches.retry(self, now, True)

    def cancel(self) -> None:
        """The peer left: wait for nothing any more."""
        self.deadline.cancel()
        if self.is_waiting:
            self.context.parked = None
        if not self.context.is_session:
            self.context.release()

    def _time_is_up(self, now: Now) -> None:
        self._fetches.retry(self, now, True)


class ParkedFetches:
    """All parked fetches of a node; `retry` re-reads one and says whether it was answered."""

    def __init__(self, deadlines: Deadlines, retry: Retry) -> None:
        self.deadlines = deadlines
        self.retry = retry
        self.woken: list[ParkedFetch] = []

    def tick_ended(self, now: Now) -> None:
        """Look again at every fetch that had news since the last tick."""
        woken, self.woken = self.woken, []
        for parked in woken:
            parked.look_again(now)
