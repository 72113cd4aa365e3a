"""How many partitions clients may have created and deleted in a second (KIP-599).

The active controller decides, and it is there that partitions are counted, for whoever asked the
broker that passed the request on.

Invariant  For clients that know the error nothing is done once the tokens are used up: what is left
           of their request is refused. Older ones get what they asked for, and wait.
Invariant  Whoever asks on a controller's listener and not through a broker is not bounded: brokers
           create topics that they need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from tidelog.controller.image_delta import QuotaOwner
from tidelog.model.config import NodeConfig
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.quota_words import CONTROLLER_MUTATION_RATE
from tidelog.node.core.request import Request
from tidelog.node.core.runtime import Runtime
from tidelog.node.quotas.client_quota import TokenQuota
from tidelog.node.quotas.rate import Windows
from tidelog.node.quotas.token_bucket import TokenBucket
from tidelog.protocol.message import ResponseMessage
from tidelog.protocol.throttle_time import with_throttle_time

EXCEEDED: Final = Refusal(
    ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded."
)

ResponseT = TypeVar("ResponseT", bound=ResponseMessage)


class MutationThrottles:
    """One for each node."""

    def __init__(
        self, runtime: Runtime, config: NodeConfig, controller_names: frozenset[str]
    ) -> None:
        self._runtime = runtime
        self._controller_names = controller_names
        size_ms = config.controller_quota_window_size_seconds * 1000
        self.quota: Final = TokenQuota(Windows(config.controller_quota_window_num, size_ms))

    def change(self, quotas: Mapping[QuotaOwner, Mapping[str, float]]) -> None:
        """Other quotas are set from now on."""
        self.quota.change(quotas, CONTROLLER_MUTATION_RATE)

    def of(self, request: Request[object], *, strict_since: int) -> MutationCharge:
        """What a request is charged for."""
        bounded = None
        is_direct = request.connection.listener in self._controller_names
        if self.quota.limits and (request.is_enclosed or not is_direct):
            user, client_id = request.principal.name, request.client_id or ""
            bounded = self.quota.bounded(user, client_id, self._runtime.now.monotonic_ms)
        is_strict = request.api_version >= strict_since
        return MutationCharge(self, self._runtime, request, bounded, is_strict=is_strict)


class MutationCharge:
    """What one request does, while the controller decides on it."""

    def __init__(
        self,
        throttles: MutationThrottles,
        runtime: Runtime,
        request: Request[object],
        bounded: tuple[TokenBucket, float] | None,
        *,
        is_strict: bool,
    ) -> None:
        self._throttles = throttles
        self._runtime = runtime
        self._request = request
        self._bounded = bounded
        self._is_strict = is_strict
        self._until_ms = 0

    def charge(self, partitions: int) -> Refusal | None:
        """So many are to be created or deleted; why they may not."""
        if self._bounded is None:
            return None
        bucket, limit = self._bounded
        now_ms = self._runtime.now.monotonic_ms
        if self._is_strict:
            wait_ms = bucket.throttle_ms(limit, now_ms)
            if wait_ms > 0 or bucket.tokens(limit, now_ms) < 0:
                self._until_ms = now_ms + wait_ms
                return EXCEEDED
            bucket.take(partitions, limit, now_ms)
        else:
            bucket.take(partitions, limit, now_ms)
            self._until_ms = now_ms + bucket.throttle_ms(limit, now_ms)
        return None

    def throttled(self, answer: ResponseT) -> ResponseT:
        """The answer with the time that is left to wait, for which its client is not read."""
        now = self._runtime.now
        time_ms = self._until_ms - now.monotonic_ms
        if time_ms <= 0:
            return answer
        self._throttles.quota.counts.add(time_ms)
        self._request.throttle(now, time_ms, self._runtime.deadlines)
        return with_throttle_time(answer, time_ms)
