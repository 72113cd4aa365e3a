"""A peer that has to prove who it is before it may ask anything (SASL), and again in time.

    HANDSHAKE     ApiVersions and SaslHandshake are served, nothing else
    PROVING       tokens: in SaslAuthenticate, or bare after SaslHandshake version 0
    PROVED        everything is served, until the session is over; SaslHandshake begins anew
    FAILED        nothing is; the connection is about to be closed

Invariant  The principal of a connection is set by a proof and by nothing else, and a later proof on
           the same connection must be of the same principal (KIP-368).
Invariant  A peer that has not proved who it is sends small frames only, and has a bounded time.
Invariant  What failed is told as an event without anything that was to be proved with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol

from tidelog.model.principal import USER_TYPE, Principal
from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadline
from tidelog.node.core.effects import LimitFrames
from tidelog.node.core.runtime import Runtime
from tidelog.observe.events import AuthenticationRefused
from tidelog.protocol.apis import ApiKey
from tidelog.security.exchange import AuthenticationFailed, Proved, SaslServer

WITHIN_MS: Final = 30_000
REAUTHENTICATE_AFTER_MS: Final = 1_000
_BEFORE: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE})


class _State(Enum):
    HANDSHAKE = "handshake"
    PROVING = "proving"
    PROVED = "proved"
    FAILED = "failed"


class SaslRules(NamedTuple):
    """What a listener asks of its peers."""

    mechanisms: Mapping[str, Callable[[], SaslServer]]
    """How an exchange begins, by the name of its mechanism."""
    max_reauth_ms: int
    failed_delay_ms: int
    frame_bytes_before: int
    frame_bytes: int


class Token(NamedTuple):
    """The answer to a token that has not failed."""

    token: bytes
    session_lifetime_ms: int


class Failure(NamedTuple):
    """What to tell a peer whose proof has failed, before its connection is closed."""

    why: str


class ProvingConnection(Protocol):
    """The connection whose peer has to prove who it is."""

    principal: Principal

    @property
    def id(self) -> int: ...

    @property
    def listener(self) -> str: ...

    @property
    def peer_host(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    def close(self, reason: str) -> None: ...


class Authentication:
    """One connection of a listener with SASL."""

    def __init__(self, runtime: Runtime, connection: ProvingConnection, rules: SaslRules) -> None:
        self._runtime = runtime
        self._connection = connection
        self._rules = rules
        self._state = _State.HANDSHAKE
        self._mechanism = ""
        self._server: SaslServer | None = None
        self.has_proved = False
        """Whether it was ever known who the peer is."""
        self._may_renew = False
        self._started_ms = runtime.now.monotonic_ms
        self._over_ms: int | None = None
        self.takes_bare_tokens = False
        """Whether the next frame is a token and no request."""
        self._deadline: Deadline | None = runtime.deadlines.at(
            self._started_ms + WITHIN_MS, self._too_late
        )
        runtime.effects.append(LimitFrames(connection.id, rules.frame_bytes_before))

    @property
    def mechanisms(self) -> list[str]:
        """What the listener offers."""
        return list(self._rules.mechanisms)

    @property
    def is_proving(self) -> bool:
        return self._state is _State.PROVING

    @property
    def has_failed(self) -> bool:
        return self._state is _State.FAILED

    def refusal_of(self, api_key: ApiKey, now: Now) -> str | None:
        """Why a request may not be served now; None when it may."""
        state = self._state
        if state is _State.PROVED:
            if self._over_ms is None or now.monotonic_ms < self._over_ms:
                return None
            is_renewal = api_key is ApiKey.SASL_HANDSHAKE
            return None if is_renewal else "its session is over, and it has not proved itself anew"
        allowed = _BEFORE if state is _State.HANDSHAKE else frozenset({ApiKey.SASL_AUTHENTICATE})
        if api_key in allowed:
            return None
        return f"{api_key.name} was asked by a peer that has not proved who it is"

    def begin(self, mechanism: str, version: int, now: Now) -> str | None:
        """A handshake: an exchange begins. In words, why it does not; the connection then ends."""
        if mechanism not in self._rules.mechanisms:
            return self._fails(f"the mechanism {mechanism[:40]!r} is not offered", None)
        if self.has_proved and mechanism != self._mechanism:
            return self._fails(f"it began with {self._mechanism}, and goes on with another", None)
        self._mechanism = mechanism
        self._server = self._rules.mechanisms[mechanism]()
        self._state = _State.PROVING
        self._started_ms = now.monotonic_ms
        self.takes_bare_tokens = version == 0
        if self._deadline is None:
            self._deadline = self._runtime.deadlines.at(
                now.monotonic_ms + WITHIN_MS, self._too_late
            )
        return None

    def may_begin(self, now: Now) -> bool:
        """Whether this is the moment for a handshake: the first, or one that is due again."""
        if self._state is _State.HANDSHAKE:
            return True
        since_ms = now.monotonic_ms - self._started_ms
        return (
            self._state is _State.PROVED and self._may_renew and since_ms >= REAUTHENTICATE_AFTER_MS
        )

    def take(self, token: bytes, now: Now, *, version: int = 0) -> Token | Failure:
        """A token of the exchange that is under way."""
        server = self._server
        if server is None:
            return self._failure("there is no exchange under way", None)
        self._may_renew = self._may_renew or version > 0
        try:
            answer = server.respond(token)
        except AuthenticationFailed as error:
            return self._failure(str(error), error.user)
        if not isinstance(answer, Proved):
            return Token(answer, 0)
        principal = Principal(USER_TYPE, answer.user)
        before = self._connection.principal
        if self.has_proved and principal != before:
            self._fails("it proved to be somebody else than before", answer.user)
            return Failure(
                f"Cannot change principals during re-authentication from {before.type}."
                f"{before.name}: {principal.type}.{principal.name}"
            )
        return Token(answer.token, self._proved(principal, now))

    def close_later(self, now: Now, answer: Callable[[], None]) -> None:
        """Give the answer of a failure, and close, once the delay is over."""

        def end(_: Now) -> None:
            if not self._connection.closed:
                answer()
                self._connection.close("it did not prove who it is")

        self._runtime.deadlines.at(now.monotonic_ms + self._rules.failed_delay_ms, end)

    def cancel(self) -> None:
        """The peer left, or need not hurry any more."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _proved(self, principal: Principal, now: Now) -> int:
        self._connection.principal = principal
        self._state = _State.PROVED
        self._server = None
        self.takes_bare_tokens = False
        self.cancel()
        if not self.has_proved:
            self.has_proved = True
            self._runtime.effects.append(LimitFrames(self._connection.id, self._rules.frame_bytes))
        lifetime_ms = self._rules.max_reauth_ms
        self._over_ms = now.monotonic_ms + lifetime_ms if lifetime_ms else None
        return lifetime_ms

    def _failure(self, why: str, user: str | None) -> Failure:
        doing = "re-authentication" if self.has_proved else "authentication"
        self._fails(why, user)
        if self._mechanism == "PLAIN":
            return Failure("Authentication failed: Invalid username or password")
        return Failure(
            f"Authentication failed during {doing} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )

    def _fails(self, why: str, user: str | None) -> str:
        self._state = _State.FAILED
        self._server = None
        self.cancel()
        self._runtime.announce(
            AuthenticationRefused(
                listener=self._connection.listener,
                peer_host=self._connection.peer_host,
                mechanism=self._mechanism,
                user=user or "",
                cause=why,
            )
        )
        return why

    def _too_late(self, _now: Now) -> None:
        self._deadline = None
        if not self._connection.closed:
            self._fails(f"it did not prove within {WITHIN_MS // 1000} s who it is", None)
            self._connection.close("it did not prove in time who it is")
