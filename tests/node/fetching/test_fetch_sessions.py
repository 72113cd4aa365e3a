"""Which fetch sessions a node keeps when it cannot keep all."""

from __future__ import annotations

from itertools import count
from random import Random
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.node.fetching.fetch_sessions import FetchContext, FetchSessions, WantedPartition
from tidelog.protocol.fetch import FetchPartition, FetchRequest, FetchTopic

LONG_MS = 120_001


class SeededEntropy:
    def __init__(self) -> None:
        self._random = Random(1)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class Cache:
    """A cache of two sessions, and the clock beside it."""

    def __init__(self) -> None:
        self.sessions = FetchSessions(2, SeededEntropy())
        self.now_ms = 0
        self._followers = count(101)

    def open(self, partitions: int, *, follower: bool = False) -> int:
        """Ask for a session over so many partitions; its id, 0 when there is no room.

        Every follower is another broker.
        """
        context = self._fetch(0, 0, partitions, next(self._followers) if follower else -1)
        assert isinstance(context, FetchContext)
        return context.session_id

    def use(self, session: int, epoch: int = 1) -> FetchContext | ErrorCode:
        return self._fetch(session, epoch, 0, -1)

    def is_kept(self, session: int) -> bool:
        return session in self.sessions._sessions

    def _fetch(
        self, session: int, epoch: int, partitions: int, replica_id: int
    ) -> FetchContext | ErrorCode:
        wanted = [FetchPartition(index, -1, 0, -1, -1, 1) for index in range(partitions)]
        request = FetchRequest(
            replica_id,
            -1,
            0,
            0,
            1,
            0,
            session,
            epoch,
            [FetchTopic("orders", None, wanted)] if wanted else [],
            [],
            "",
            None,
        )
        return self.sessions.context_for(request, 12, self.now_ms)


def test_a_young_session_is_not_evicted_by_a_consumer_however_large() -> None:
    cache = Cache()
    small, other = cache.open(1), cache.open(5)
    assert cache.open(1000) == 0
    assert cache.is_kept(small)
    assert cache.is_kept(other)


def test_a_session_idle_for_two_minutes_goes_first() -> None:
    cache = Cache()
    large, small = cache.open(1000), cache.open(1)
    cache.now_ms = LONG_MS
    cache.use(small)
    assert cache.open(1) > 0
    assert not cache.is_kept(large)
    assert cache.is_kept(small)


def test_a_session_that_had_its_time_gives_way_to_a_larger_one_only() -> None:
    cache = Cache()
    small, large = cache.open(2), cache.open(5)
    cache.now_ms = LONG_MS
    cache.use(small)
    cache.use(large)
    assert cache.open(2) == 0, "as large is not larger"
    assert cache.open(3) > 0
    assert not cache.is_kept(small)


def test_a_young_small_session_does_not_protect_an_older_one_that_is_larger() -> None:
    cache = Cache()
    old = cache.open(3)
    cache.now_ms = LONG_MS
    cache.use(old)
    young = cache.open(1)
    assert cache.open(4) > 0
    assert not cache.is_kept(old)
    assert cache.is_kept(young)


def test_a_follower_takes_the_place_of_a_consumer_at_once() -> None:
    cache = Cache()
    large, small = cache.open(9), cache.open(5)
    assert cache.open(1, follower=True) > 0
    assert cache.is_kept(large)
    assert not cache.is_kept(small)


def test_a_consumer_never_takes_the_place_of_a_follower() -> None:
    cache = Cache()
    followers = [cache.open(1, follower=True) for _ in range(2)]
    cache.now_ms = LONG_MS
    for follower in followers:
        cache.use(follower)
    assert cache.open(1000) == 0


def test_a_follower_takes_the_place_of_a_smaller_one_that_had_its_time() -> None:
    cache = Cache()
    small, large = cache.open(1, follower=True), cache.open(5, follower=True)
    assert cache.open(9, follower=True) == 0
    cache.now_ms = LONG_MS
    cache.use(small)
    cache.use(large)
    assert cache.open(9, follower=True) > 0
    assert not cache.is_kept(small)


def test_a_fetch_of_nothing_begins_no_session() -> None:
    cache = Cache()
    assert cache.open(0) == 0
    assert len(cache.sessions) == 0


def test_a_reader_that_begins_anew_is_told_the_mark_again() -> None:
    """A follower drops an answer that arrives when its epoch or its log is another one."""
    first = FetchPartition(0, 5, 10, 4, 0, 1)
    context = FetchContext(7, by_topic_id=False, reader=101, now_ms=0)
    entry = WantedPartition(context, ("orders", 0), None, None, first)

    for wanted, told in (
        (first._replace(fetch_offset=12), 10),
        (first._replace(fetch_offset=11), -1),
        (first._replace(fetch_offset=11, current_leader_epoch=6), -1),
    ):
        entry.told_high_watermark = entry.told_log_start = 10
        entry.want(wanted)
        assert (entry.told_high_watermark, entry.told_log_start) == (told, told)


# Several sessions of one follower


class Follower:
    """Broker 101 in one of its incarnations, with as many fetchers as it likes."""

    def __init__(self, sessions: FetchSessions, broker_epoch: int) -> None:
        self._sessions = sessions
        self._broker_epoch = broker_epoch

    def fetch(self, session: int, epoch: int, *indexes: int) -> FetchContext | ErrorCode:
        """Ask for these partitions besides what the session has."""
        wanted = [FetchPartition(index, -1, 0, -1, -1, 1) for index in indexes]
        topics = [FetchTopic(None, UUID(int=7), wanted)] if wanted else []
        request = FetchRequest(
            101, self._broker_epoch, 0, 0, 1, 0, session, epoch, topics, [], "", None
        )
        return self._sessions.context_for(request, 17, 0)

    def open(self, *indexes: int) -> int:
        """Begin a session with these partitions; its id, 0 when it is not kept."""
        context = self.fetch(0, 0, *indexes)
        assert isinstance(context, FetchContext)
        return context.session_id

    def goes_on(self, session: int, epoch: int = 1) -> bool:
        return not isinstance(self.fetch(session, epoch), ErrorCode)


def test_each_fetcher_of_a_follower_has_a_session_of_its_own() -> None:
    follower = Follower(FetchSessions(10, SeededEntropy()), 5)
    opened = [follower.open(index, index + 4) for index in range(4)]
    assert all(follower.goes_on(session) for session in opened)
    assert all(follower.goes_on(session, 2) for session in opened)


def test_a_session_ends_those_of_its_follower_that_held_one_of_its_partitions() -> None:
    sessions = FetchSessions(10, SeededEntropy())
    follower = Follower(sessions, 5)
    left_behind, other = follower.open(0, 1), follower.open(2)
    anew = follower.open(1, 3)
    assert not follower.goes_on(left_behind)
    assert follower.goes_on(other)
    assert not isinstance(follower.fetch(anew, 1, 2), ErrorCode), "it takes 2 over from the other"
    assert not follower.goes_on(other, 2)
    assert len(sessions) == 1


def test_the_sessions_of_a_process_end_with_the_first_one_of_its_successor() -> None:
    sessions = FetchSessions(10, SeededEntropy())
    before, after = Follower(sessions, 5), Follower(sessions, 6)
    opened = [before.open(0), before.open(1)]
    successor = after.open(2)
    assert not any(before.goes_on(session) for session in opened)
    assert before.open(2) == 0, "what an earlier process still sends begins nothing"
    assert after.goes_on(successor)
    assert len(sessions) == 1


def test_followers_that_do_not_tell_their_incarnation_may_have_several_sessions_too() -> None:
    follower = Follower(FetchSessions(10, SeededEntropy()), -1)
    opened = [follower.open(0), follower.open(1)]
    assert all(follower.goes_on(session) for session in opened)


def test_nobody_ends_a_session_of_somebody_else_by_naming_it() -> None:
    cache = Cache()
    session = cache.open(1, follower=True)
    cache._fetch(session, 0, 1, -1)
    assert cache.is_kept(session)
    cache._fetch(session, 0, 1, 101)
    assert not cache.is_kept(session)


# What a session tells of its reader


def entry_of(context: FetchContext) -> WantedPartition:
    [entry] = context.partitions.values()
    return entry


def test_a_reader_was_last_heard_when_a_request_of_its_session_was_last_here() -> None:
    cache = Cache()
    session = cache.open(1, follower=True)
    cache.now_ms = 700
    context = cache.use(session)
    assert isinstance(context, FetchContext)
    assert entry_of(context).last_heard_ms(900) == 700
    context.used_ms = 850  # it waited until then
    assert entry_of(context).last_heard_ms(900) == 850


def test_a_reader_that_left_a_partition_is_not_heard_of_it_any_more() -> None:
    sessions = FetchSessions(10, SeededEntropy())
    follower = Follower(sessions, 5)
    context = follower.fetch(0, 0, 0, 1)
    assert isinstance(context, FetchContext)
    context.used_ms = 300
    left = context.partitions[UUID(int=7), 1]
    forgets = FetchRequest(
        101, 5, 0, 0, 1, 0, context.session_id, 1, [], [(None, UUID(int=7), [1])], "", None
    )
    assert sessions.context_for(forgets, 17, 500) is context
    assert left.last_heard_ms(900) == 300
    assert entry_of(context).last_heard_ms(900) == 500
