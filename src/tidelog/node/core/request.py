"""One request on its way through the node, and what a handler may answer."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeAlias, TypeVar

from tidelog.model.errors import Refusal
from tidelog.model.principal import Principal
from tidelog.model.time import Now
from tidelog.node.core.connections import Connection, Slot
from tidelog.node.core.deadlines import Deadlines
from tidelog.node.core.promise import Promise
from tidelog.node.core.request_meter import RequestMeter, RequestTimeQuota
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.codec import encode_response
from tidelog.protocol.fetch import Part
from tidelog.protocol.frame import RequestHeader
from tidelog.protocol.message import ResponseMessage
from tidelog.protocol.throttle_time import encoded_with_throttle_time, with_throttle_time


class Later(Enum):
    """What a handler returns when there is no answer to send now."""

    PARKED = "the handler kept the request and will answer it"
    NO_REPLY = "the protocol wants no answer"
    HANG_UP = "the protocol's only answer is to close the connection"


Answer: TypeAlias = ResponseMessage | list[Part]
Reply: TypeAlias = Answer | Later

BodyT_co = TypeVar("BodyT_co", covariant=True)
AnswerT = TypeVar("AnswerT", bound=Answer)


def encode_answer(answer: Answer, version: int, correlation_id: int) -> list[Part]:
    """The answer as bytes."""
    if isinstance(answer, list):
        return answer
    return [encode_response(answer, version, correlation_id)]


def throttled_answer(answer: Answer, api_key: ApiKey, version: int, time_ms: int) -> Answer:
    """The answer that tells its client to wait."""
    if isinstance(answer, list):
        return encoded_with_throttle_time(api_key, version, answer, time_ms)
    return with_throttle_time(answer, time_ms)


class Request(Generic[BodyT_co]):
    """A decoded request: who sent it, when, and its place in the queue of answers."""

    __slots__ = (
        "_meter",
        "_queued_bytes",
        "_slot",
        "api_key",
        "api_version",
        "arrived",
        "body",
        "client_id",
        "connection",
        "correlation_id",
        "frame",
        "frame_bytes",
        "now",
    )

    def __init__(
        self,
        now: Now,
        connection: Connection,
        header: RequestHeader,
        body: BodyT_co,
        frame: memoryview,
        meter: RequestMeter | None = None,
    ) -> None:
        self.now = now
        self.arrived = now
        """Whenever it is taken up again."""
        self.connection = connection
        self.api_key = header.api_key
        self.api_version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.body = body
        self.frame = frame
        """As it came, if it may have to be passed on; gone when its handler returns."""
        self.frame_bytes = 0
        """How large it was when it came."""
        self._slot: Slot | None = None
        self._queued_bytes = 0
        self._meter = meter
        """Who notes how long it was parked; nobody asks that of what another request encloses."""

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self.connection.principal

    @property
    def client_host(self) -> str:
        """Where he asks from."""
        return self.connection.peer_host

    @property
    def is_enclosed(self) -> bool:
        """Whether a broker passed it on in an envelope."""
        return False

    def park(self) -> Later:
        """Keep the place of the answer, once; `answer` fills it."""
        if self._slot is None:
            self._slot = self.connection.reserve()
        return Later.PARKED

    def drop_body(self) -> None:
        """What was asked is not needed any more; the answer goes to whoever asked it."""
        del self.body

    def answer(self, reply: Answer) -> None:
        """Answer a parked request."""
        self.release_bytes()
        if self._slot is not None and not self.connection.closed:
            if self._meter is not None and self._meter.time_quota is not None:
                reply = self._in_time(reply, self._meter.time_quota)
            encoded = encode_answer(reply, self.api_version, self.correlation_id)
            self.connection.fill(self._slot, encoded)
            self._slot = None
            if self._meter is not None:
                self._meter.answered(self.api_key, self.arrived)

    def _in_time(self, reply: Answer, quota: RequestTimeQuota) -> Answer:
        time_ms = quota.throttle(self.connection, self.api_key, self.client_id)
        if time_ms == 0:
            return reply
        return throttled_answer(reply, self.api_key, self.api_version, time_ms)

    def throttle(self, now: Now, time_ms: int, deadlines: Deadlines) -> None:
        """Whoever asked is not read for this time."""
        self.connection.throttle(now, time_ms, deadlines)

    def answer_with(self, promise: Promise[AnswerT]) -> Later:
        """Answer once the promise is settled, with what it is then."""
        later = self.park()
        promise.then(self.answer)
        return later

    def queue_bytes(self, size: int) -> None:
        """So many bytes of the request stay in memory until it is answered, or released."""
        self._queued_bytes += size
        self.connection.memory.add(self.connection, size)

    def release_bytes(self) -> None:
        """Nothing of it stays in memory because somebody else is asked."""
        size, self._queued_bytes = self._queued_bytes, 0
        if size:
            self.connection.memory.remove(self.connection, size)

    def refuse(self, refusal: Refusal, refused: Callable[[Refusal], Answer]) -> None:
        """Refuse a parked request as a whole, in the words of `refused`."""
        self.answer(refused(refusal))
