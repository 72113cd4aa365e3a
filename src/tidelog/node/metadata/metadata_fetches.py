"""Fetches of the metadata log that this node answers: as its leader, or with who that is.

Invariant  A fetch that finds nothing new waits until something is appended or committed, or until
           its time is up; it is answered once, or never when its peer left.
Invariant  Only the arrival of a fetch tells that its follower is there; to look at it again does
           not, or a leader whom nobody can reach would go on leading (C8).
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.controller.records import MetadataRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now
from tidelog.node.core.request import Reply, Request
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.quorum_messages import asked_for, fetch_response
from tidelog.protocol.fetch import FetchRequest, Part, encode_fetch_response
from tidelog.quorum.fetching import (
    UNKNOWN_HIGH_WATERMARK,
    MetadataFetch,
    MetadataFetchResponse,
    SnapshotFetch,
    SnapshotFetchResponse,
)
from tidelog.quorum.quorum import Quorum
from tidelog.storage.log_values import LogSlice


class _Parked:
    """One follower that waits for news."""

    __slots__ = ("asked", "deadline", "fetches", "request")

    def __init__(
        self,
        fetches: MetadataFetches,
        request: Request[FetchRequest],
        asked: MetadataFetch,
        due_ms: int,
    ) -> None:
        self.fetches = fetches
        self.request = request
        self.asked = asked
        self.deadline = fetches.deadlines.at(due_ms, self._time_is_up)
        request.connection.waiting[self] = None

    def cancel(self) -> None:
        """The peer left."""
        self.deadline.cancel()
        self.fetches.parked.pop(self, None)

    def _time_is_up(self, now: Now) -> None:
        self.fetches.look_at(self, time_is_up=True)


class MetadataFetches:
    """Answers followers of the log, now or once there is something to say."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        quorum: Quorum[MetadataRecord],
        applied: Callable[[int, int], None],
        fetched: Callable[[Now], None],
    ) -> None:
        """`applied` hears up to which offset a follower has applied the log; `fetched` that the
        quorum may have changed by a fetch."""
        self.deadlines = runtime.deadlines
        self._cluster = cluster
        self._applied = applied
        self._fetched = fetched
        self.parked: dict[_Parked, None] = {}
        self.have_news = False
        """Something was appended or committed since the last look."""
        self._quorum = quorum

    def handle(self, request: Request[FetchRequest]) -> Reply:
        """Answer a fetch now, or park it."""
        fetch = request.body
        asked = asked_for(fetch, self._cluster.cluster_id)
        if isinstance(asked, ErrorCode):
            version, correlation_id = request.api_version, request.correlation_id
            return encode_fetch_response(version, correlation_id, asked, 0, [], [], 0)
        answer = self._quorum.handle_fetch(asked, request.now)
        self._fetched(request.now)
        if answer.is_fine and asked.high_watermark != UNKNOWN_HIGH_WATERMARK:
            self._applied(asked.replica_id, asked.high_watermark - 1)
        if answer.is_news_for(asked) or fetch.max_wait_ms == 0:
            return self._encode(request, answer)
        later = request.park()
        due_ms = request.now.monotonic_ms + fetch.max_wait_ms
        self.parked[_Parked(self, request, asked, due_ms)] = None
        return later

    def snapshot_piece(self, asked: SnapshotFetch, now: Now) -> SnapshotFetchResponse:
        """Some bytes of a snapshot, for a node that begins with it."""
        return self._quorum.handle_snapshot_fetch(asked, now)

    @property
    def leader(self) -> tuple[int, int]:
        """Who leads the quorum, and in which epoch, for whoever asks the wrong node."""
        return self._quorum.leader_id, self._quorum.epoch

    def look_again(self) -> None:
        """Answer everyone for whom there is news."""
        self.have_news = False
        for parked in list(self.parked):
            self.look_at(parked, time_is_up=False)

    def look_at(self, parked: _Parked, *, time_is_up: bool) -> None:
        """Answer one parked fetch, if there is reason to."""
        answer = self._quorum.answer_for(parked.asked)
        if time_is_up or answer.is_news_for(parked.asked):
            parked.cancel()
            parked.request.connection.waiting.pop(parked, None)
            parked.request.answer(self._encode(parked.request, answer))

    def _encode(
        self, request: Request[FetchRequest], answer: MetadataFetchResponse[LogSlice]
    ) -> list[Part]:
        return fetch_response(request.api_version, request.correlation_id, answer)
