"""Questions to other nodes: one link per peer and purpose, opened when the first one is asked.

A link is a connection whenever it has to be and a promise all the time: whatever is asked of it is
answered once, be it with the news that the peer could not be asked.

    link = links.to_broker((host, port), "fetch")
    link.ask_fetch(now, 17, request, then, timeout_ms=30_000)
    ...                                 then(FetchResponse | LinkLost, now)

Records in a `FetchResponse` are views of the shell's receive buffer. They are good until `then`
returns and not a moment longer: append them there, or copy what has to be kept.

Invariant  `then` is called exactly once for every question, never from inside `ask`: with the
           answer, or with `LinkLost` when the link breaks, is closed, or the time is up.
Invariant  Answers come in the order of the questions. One that does not carry the correlation id
           of the oldest open question, or cannot be read, closes the link.
Invariant  A peer that fails is left alone for a while, twice as long each time it fails again
           without having answered in between; questions wait meanwhile, within their own time.
Invariant  Where peers want a proof of who asks (SASL), nothing is asked before they have it; it is
           renewed before it is over, between questions.
Invariant  Each connection has a number of its own, so that late news of an old one reach nobody.
Invariant  A connection that is given up is reset, so that nothing asked on it arrives later than
           what its peer already has. Only one whose end would be taken for ours
           (`speaks_for_us`) stays open, unheard, until the peer answers on the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final, NamedTuple, TypeAlias, cast

from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadline, Deadlines
from tidelog.node.core.effects import CloseLink, Effect, OpenLink, SendOnLink
from tidelog.node.core.inputs import LinkClosed, LinkFrame, LinkOpened
from tidelog.node.core.login import Login
from tidelog.protocol import codec
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.fetch import FetchRequest, FetchResponse, decode_fetch_response, encode_fetch
from tidelog.protocol.frame import MalformedRequest
from tidelog.protocol.message import RequestMessage, ResponseT
from tidelog.protocol.parts import Part
from tidelog.security.exchange import AuthenticationFailed, SaslClient

REST_FIRST_MS: Final = 20
REST_MOST_MS: Final = 1_000
GIVEN_UP_MOST: Final = 4
"""So many connections that were given up wait for an answer on the next one."""
_CORRELATION_IDS: Final = 1 << 31
_FETCH_FLEXIBLE: Final = SUPPORTED[ApiKey.FETCH].first_flexible


class LinkLost(NamedTuple):
    """No answer: the peer may or may not have done what it was asked."""

    reason: str
    by_peer: bool = False
    """Whether the peer closed the connection or refused one, which tells that its process may be
    gone; that it is silent tells nothing."""


BeginLogin: TypeAlias = Callable[[str], tuple[str, SaslClient] | None]
ThenFetched: TypeAlias = Callable[[FetchResponse | LinkLost, Now], None]


class _Question(NamedTuple):
    correlation_id: int
    api_key: int
    due_ms: int
    parts: list[Part]
    read: Callable[[memoryview], Callable[[Now], None]]
    """From the frame of an answer to the news of it, for whoever asked."""
    lost: Callable[[LinkLost, Now], None]


class LinkListeners(NamedTuple):
    """The names of the listeners that links lead to."""

    of_brokers: str
    of_controllers: str


class Links:
    """All links of a node, and the way from the shell's news to the link they are about."""

    def __init__(
        self,
        effects: list[Effect],
        deadlines: Deadlines,
        client_id: str,
        listeners: LinkListeners,
        begin_login: BeginLogin = lambda _: None,
    ) -> None:
        """`begin_login` says how this node proves itself at listeners of a name, if it has to."""
        self.begin_login: Final = begin_login
        self.effects: Final = effects
        self.deadlines: Final = deadlines
        self.client_id: Final = client_id
        self._listeners = listeners
        self._numbers = count(1)
        self._links: dict[tuple[tuple[str, int], str], Link] = {}
        self._connected: dict[int, Link] = {}

    def to_broker(self, address: tuple[str, int], purpose: str) -> Link:
        """The link to a broker; what has another purpose has a connection of its own."""
        return self._to(address, purpose, self._listeners.of_brokers)

    def to_controller(self, address: tuple[str, int], purpose: str) -> Link:
        """The same, to a member of the quorum."""
        return self._to(address, purpose, self._listeners.of_controllers)

    def _to(self, address: tuple[str, int], purpose: str, listener: str) -> Link:
        link = self._links.get((address, purpose))
        if link is None:
            link = self._links[address, purpose] = Link(self, address, purpose, listener)
        return link

    def opened(self, happened: LinkOpened) -> None:
        """A connection is there."""
        if (link := self._connected.get(happened.link)) is not None:
            link.opened(happened.now)

    def frame_arrived(self, happened: LinkFrame) -> None:
        """A peer answered."""
        if (link := self._connected.get(happened.link)) is not None:
            link.frame_arrived(happened.frame, happened.now)

    def closed(self, happened: LinkClosed) -> None:
        """A connection is gone, or never came about."""
        if (link := self._connected.pop(happened.link, None)) is not None:
            link.closed(happened.reason, happened.by_peer, happened.now)

    def connect(self, link: Link) -> int:
        """Ask for a new connection; its number."""
        number = next(self._numbers)
        self._connected[number] = link
        self.effects.append(OpenLink(number, *link.address, link.listener))
        return number

    def disconnect(self, number: int, reason: str) -> None:
        """Give a connection up and hear no more of it."""
        self.forget(number)
        self.effects.append(CloseLink(number, reason))

    def forget(self, number: int) -> None:
        """Hear no more of a connection."""
        self._connected.pop(number, None)


class Link:
    """One peer, asked for one purpose."""

    __slots__ = (
        "_connection",
        "_given_up",
        "_links",
        "_login",
        "_next_correlation_id",
        "_questions",
        "_rest_ms",
        "_rest_over",
        "_rest_until_ms",
        "_sent",
        "_watch",
        "address",
        "is_open",
        "listener",
        "on_lost",
        "purpose",
        "speaks_for_us",
    )

    def __init__(self, links: Links, address: tuple[str, int], purpose: str, listener: str) -> None:
        self._links = links
        self.address = address
        self.listener = listener
        """The name of the peer's listener, which says how it is spoken to."""
        self.purpose = purpose
        self.is_open = False
        self.on_lost: Callable[[Now], None] | None = None
        """Told when the connection is gone without our doing, even if nothing was asked."""
        self.speaks_for_us = False
        """Whether the peer takes the end of its connection for the end of this node."""
        self._connection: int | None = None
        self._given_up: list[int] = []
        """Connections that stay open until the peer answers on another one."""
        self._questions: deque[_Question] = deque()
        self._sent = 0
        """So many of them, the oldest, are at the peer."""
        self._login: Login | None = None
        """While this node proves who it is, or is about to do so anew."""
        self._next_correlation_id = 0
        self._rest_ms = REST_FIRST_MS
        self._rest_until_ms: int | None = None
        self._rest_over: Deadline | None = None
        self._watch: Deadline | None = None

    @property
    def pending(self) -> int:
        """Questions that wait for their answer."""
        return len(self._questions)

    def ask(
        self,
        now: Now,
        request: RequestMessage[ResponseT],
        version: int,
        then: Callable[[ResponseT | LinkLost, Now], None],
        *,
        timeout_ms: int,
    ) -> None:
        """Ask in exactly this version; `then` gets the answer."""
        number = self._take_correlation_id()
        frame = codec.encode_request(request, version, number, self._links.client_id)
        message = cast("type[ResponseT]", request.RESPONSE)

        def read(answer: memoryview) -> Callable[[Now], None]:
            return partial(then, codec.decode_response(message, version, answer)[1])

        due_ms = now.monotonic_ms + timeout_ms
        self._put(_Question(number, request.API_KEY, due_ms, [frame], read, then), now)

    def ask_fetch(
        self,
        now: Now,
        version: int,
        request: FetchRequest,
        then: ThenFetched,
        *,
        timeout_ms: int,
    ) -> None:
        """Ask for records; those in the answer are gone when `then` returns."""
        number = self._take_correlation_id()
        flexible = version >= _FETCH_FLEXIBLE
        parts: list[Part] = [
            codec.request_header(ApiKey.FETCH, version, number, self._links.client_id, flexible),
            encode_fetch(version, request),
        ]

        def read(answer: memoryview) -> Callable[[Now], None]:
            return partial(then, decode_fetch_response(answer, version))

        due_ms = now.monotonic_ms + timeout_ms
        self._put(_Question(number, ApiKey.FETCH, due_ms, parts, read, then), now)

    def close(self, now: Now, reason: str = "closed by us") -> None:
        """Hang up; who still waits hears it before this returns. A later question reopens it."""
        self._hang_up(reason)
        self._let_go_of_given_up()
        self._fail_all(LinkLost(reason), now)

    def opened(self, now: Now) -> None:
        """The connection is there: prove who we are, then ask what has been waiting for it."""
        begun = self._links.begin_login(self.listener)
        if begun is None:
            self._ask_all()
            return
        self._login = Login(*begun, self._links.deadlines, self._not_logged_in, now)
        self._send_parts(self._login.begin(self._links.client_id))

    def _ask_all(self) -> None:
        self.is_open = True
        for question in self._questions:
            self._send(question)

    def _go_on_with_login(self, login: Login, frame: memoryview, now: Now) -> None:
        try:
            answer = login.answered(frame, self._links.client_id)
        except (MalformedRequest, AuthenticationFailed) as error:
            self._give_up(f"{self._peer} does not let us in: {error}", now)
            return
        if answer is not None:
            self._send_parts(answer)
            return
        login.end()
        self._login = None
        if login.renew_after_ms is not None:
            again = now.monotonic_ms + login.renew_after_ms
            number = self._connection
            self._links.deadlines.at(again, lambda later: self._renew(number, later))
        self._ask_all()

    def _renew(self, number: int | None, now: Now) -> None:
        """Prove anew who we are, once what has been asked is answered; hold the rest back."""
        begun = self._links.begin_login(self.listener)
        if number is None or number != self._connection or not self.is_open or begun is None:
            return
        self.is_open = False
        self._login = Login(*begun, self._links.deadlines, self._not_logged_in, now)
        if self._sent == 0:
            self._send_parts(self._login.begin(self._links.client_id))

    def _not_logged_in(self, now: Now) -> None:
        if self._login is not None:
            self._give_up(f"{self._peer} did not let us in in time", now)

    def frame_arrived(self, frame: memoryview, now: Now) -> None:
        """The peer answered its oldest open question."""
        login = self._login
        if login is not None and self._sent == 0:
            self._go_on_with_login(login, frame, now)
            return
        questions = self._questions
        try:
            expected = questions[0].correlation_id if questions else None
            given = int.from_bytes(frame[:4], "big", signed=True)
            if given != expected or len(frame) < 4:
                raise MalformedRequest(f"it answered question {given} instead of {expected}")
            tell = questions[0].read(frame)
        except MalformedRequest as error:
            self._give_up(f"{self._peer} is not understood: {error}", now)
            return
        self._rest_ms = REST_FIRST_MS
        if self._given_up:
            self._let_go_of_given_up()
        questions.popleft()
        self._sent -= 1
        if login is not None and self._sent == 0:
            self._send_parts(login.begin(self._links.client_id))
        tell(now)

    def closed(self, reason: str, by_peer: bool, now: Now) -> None:
        """The connection is gone, or never came about."""
        self._connection = None
        self._forget_connection()
        self._rest(now)
        self._fail_all(LinkLost(f"{self._peer}: {reason}", by_peer), now)
        if self.on_lost is not None:
            self.on_lost(now)

    @property
    def _peer(self) -> str:
        host, port = self.address
        return f"{host}:{port} ({self.purpose})"

    def _take_correlation_id(self) -> int:
        number = self._next_correlation_id
        self._next_correlation_id = (number + 1) % _CORRELATION_IDS
        return number

    def _put(self, question: _Question, now: Now) -> None:
        self._questions.append(question)
        if self.is_open:
            self._send(question)
        elif self._connection is None and self._rest_over is None:
            self._connect_once_rested(now)
        self._watch_until(question.due_ms)

    def _send(self, question: _Question) -> None:
        self._sent += 1
        self._send_parts(question.parts)

    def _send_parts(self, parts: list[Part]) -> None:
        if self._connection is not None:
            self._links.effects.append(SendOnLink(self._connection, parts))

    def _forget_connection(self) -> None:
        """Nothing is at the peer any more, and nothing is proved."""
        self.is_open = False
        self._sent = 0
        if self._login is not None:
            self._login.end()
            self._login = None

    def _connect_once_rested(self, now: Now) -> None:
        until_ms = self._rest_until_ms
        if until_ms is None or now.monotonic_ms >= until_ms:
            self._connection = self._links.connect(self)
        else:
            self._rest_over = self._links.deadlines.at(until_ms, self._rested)

    def _rested(self, now: Now) -> None:
        self._rest_over = None
        if self._questions:
            self._connection = self._links.connect(self)

    def _rest(self, now: Now) -> None:
        """Leave the peer alone for a while; how long, only an answer makes short again."""
        self._rest_until_ms = now.monotonic_ms + self._rest_ms
        self._rest_ms = min(2 * self._rest_ms, REST_MOST_MS)

    def _hang_up(self, reason: str) -> None:
        if self._connection is not None:
            self._links.disconnect(self._connection, reason)
            self._connection = None
            self._forget_connection()
        if self._rest_over is not None:
            self._rest_over.cancel()
            self._rest_over = None

    def _give_up(self, reason: str, now: Now) -> None:
        if self.speaks_for_us and self.is_open and self._connection is not None:
            self._links.forget(self._connection)
            self._given_up.append(self._connection)
            self._connection = None
            self._forget_connection()
            self._let_go_of_given_up(GIVEN_UP_MOST)
        self._hang_up(reason)
        self._rest(now)
        self._fail_all(LinkLost(reason), now)

    def _let_go_of_given_up(self, keep: int = 0) -> None:
        while len(self._given_up) > keep:
            self._links.disconnect(self._given_up.pop(0), "given up, and answered on another one")

    def _fail_all(self, lost: LinkLost, now: Now) -> None:
        # Whoever hears of the loss may ask again at once: that belongs to the next connection.
        questions, self._questions = self._questions, deque()
        for question in questions:
            question.lost(lost, now)

    def _watch_until(self, due_ms: int) -> None:
        # One timer for all questions, left alone when they are answered: there may be thousands
        # of them a second, each with a time limit far away.
        if self._watch is None or due_ms < self._watch.due_ms:
            if self._watch is not None:
                self._watch.cancel()
            self._watch = self._links.deadlines.at(due_ms, self._look_for_overdue)

    def _look_for_overdue(self, now: Now) -> None:
        self._watch = None
        overdue = [asked for asked in self._questions if asked.due_ms <= now.monotonic_ms]
        waiting = [asked for asked in self._questions if asked.due_ms > now.monotonic_ms]
        if overdue and self._sent:
            what = _api_name(overdue[0].api_key)
            self._give_up(f"{self._peer} did not answer {what} in time", now)
            return
        # What was never sent can fail alone; nothing waits behind its answer.
        self._questions = deque(waiting)
        if waiting:
            self._watch_until(min(asked.due_ms for asked in waiting))
        for question in overdue:
            question.lost(LinkLost(f"{self._peer} could not be reached in time"), now)


def _api_name(api_key: int) -> str:
    return ApiKey(api_key).name.replace("_", " ").capitalize()
