"""What clients of a broker may do in a second: bytes in, bytes out, and time of the node.

An answer leaves at once and says how long its client has to wait; meanwhile the client is not read
(KIP-219). A fetch that would be too much is answered with nothing.

Invariant  While no quota is set, `are_set` is False and nothing is measured.
Invariant  Followers and other brokers are not bounded: what is done for them is `exempt`. The same
           goes for all that is asked on a controller's listener, and for produce requests
           without an answer as far as their time is concerned.
Invariant  The time of a request is known after its step, so that it counts for the next one of its
           client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.controller.image_delta import QuotaOwner
from tidelog.model.config import NodeConfig
from tidelog.model.quota_words import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from tidelog.node.core.connections import Connection
from tidelog.node.core.effects import MeasureRequests
from tidelog.node.core.request import Request
from tidelog.node.core.runtime import Runtime
from tidelog.node.quotas.client_quota import RateQuota
from tidelog.node.quotas.rate import Rate, Windows
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.frame import RequestHeader

PERCENT_PER_NANOSECOND: Final = 100 / 1_000_000_000
OF_BROKERS: Final = (ApiKey.WRITE_TXN_MARKERS, ApiKey.ENVELOPE)
THROTTLED_BY_HANDLER: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
"""Their answers are also bounded by their bytes."""


def client_windows(config: NodeConfig) -> Windows:
    return Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)


class ClientThrottles:
    """One for each broker."""

    def __init__(
        self, runtime: Runtime, config: NodeConfig, controller_names: frozenset[str]
    ) -> None:
        self._runtime = runtime
        self._controller_names = controller_names
        windows = client_windows(config)
        self.produce: Final = RateQuota(windows)
        self.fetch: Final = RateQuota(windows)
        self.request: Final = RateQuota(windows, throttle_max_ms=windows.size_ms)
        self.exempt: Final = Rate(windows)
        """Time of the node in percents, spent on what is not bounded."""
        self.are_set = False
        self._measures = False
        self._at_work_for: tuple[str, str] | None = None
        """User and client id of the request whose step it is; None when that is exempt."""

    def change(self, quotas: Mapping[QuotaOwner, Mapping[str, float]]) -> None:
        """Other quotas are set from now on."""
        for quota, key in (
            (self.produce, PRODUCER_BYTE_RATE),
            (self.fetch, CONSUMER_BYTE_RATE),
            (self.request, REQUEST_PERCENTAGE),
        ):
            quota.change(quotas, key)
        self.are_set = bool(self.produce.limits or self.fetch.limits or self.request.limits)
        if self._measures is not self.bounds_time:
            self._measures = self.bounds_time
            self._runtime.effects.append(MeasureRequests(self._measures))

    @property
    def bounds_time(self) -> bool:
        """Whether anybody's time is bounded."""
        return bool(self.request.limits)

    # Requests of every kind

    def begins(self, connection: Connection, header: RequestHeader) -> None:
        """A request is taken up."""
        if self._is_exempt(connection, header.api_key):
            self._at_work_for = None
        else:
            self._at_work_for = (connection.principal.name, header.client_id or "")

    def took(self, nanoseconds: int) -> None:
        """So long the step of the last request took."""
        percents, now_ms = nanoseconds * PERCENT_PER_NANOSECOND, self._runtime.now.monotonic_ms
        if self._at_work_for is None:
            self.exempt.record(percents, now_ms)
        else:
            self.request.note(*self._at_work_for, percents, now_ms)
            self._at_work_for = None

    def throttle(self, connection: Connection, api_key: ApiKey, client_id: str | None) -> int:
        """A request is answered; how long its client, which is not read meanwhile, has to wait."""
        if api_key in THROTTLED_BY_HANDLER or self._is_exempt(connection, api_key):
            return 0
        now = self._runtime.now
        user = connection.principal.name
        time_ms = self.request.record(user, client_id or "", 0, now.monotonic_ms)
        if time_ms > 0:
            self.request.counts.add(time_ms)
            connection.throttle(now, time_ms, self._runtime.deadlines)
        return time_ms

    def _is_exempt(self, connection: Connection, api_key: ApiKey) -> bool:
        return api_key in OF_BROKERS or connection.listener in self._controller_names

    # Records

    def produced(self, request: Request[object], *, is_answered: bool) -> int:
        """A produce request is done; how long its client, which is not read, has to wait."""
        user, client_id, now_ms = self._client(request)
        bytes_ms = self.produce.record(user, client_id, request.frame_bytes, now_ms)
        if is_answered:
            time_ms = self.request.record(user, client_id, 0, now_ms)
        else:
            time_ms, self._at_work_for = 0, None
        return self._throttle_longest(request, self.produce, bytes_ms, time_ms)

    def most_to_fetch(self, request: Request[object]) -> int | None:
        """More at once than this would be throttled for sure; None when nothing is."""
        most = self.fetch.most_in_windows(*self._client(request))
        return None if most is None else int(most)

    def fetched(self, request: Request[object], size: int) -> int:
        """A fetch is to be answered by so many bytes; how long its client has to wait instead."""
        user, client_id, now_ms = self._client(request)
        time_ms = self.request.record(user, client_id, 0, now_ms)
        bytes_ms = self.fetch.record(user, client_id, size, now_ms)
        if bytes_ms or time_ms:
            self.fetch.note(user, client_id, -size, now_ms)
        return self._throttle_longest(request, self.fetch, bytes_ms, time_ms)

    def is_follower(self) -> None:
        """The fetch that is worked on is one of a follower."""
        self._at_work_for = None

    def _client(self, request: Request[object]) -> tuple[str, str, int]:
        now_ms = self._runtime.now.monotonic_ms
        return request.principal.name, request.client_id or "", now_ms

    def _throttle_longest(
        self, request: Request[object], quota: RateQuota, bytes_ms: int, time_ms: int
    ) -> int:
        longest_ms = max(bytes_ms, time_ms)
        if longest_ms > 0:
            (quota if bytes_ms > time_ms else self.request).counts.add(longest_ms)
            request.throttle(self._runtime.now, longest_ms, self._runtime.deadlines)
        return longest_ms
