"""A blocking client: finds brokers, routes to leaders, tries again what trying again can cure.

Invariant  The first contact fails at once when nobody listens; afterwards a lost broker is given
           until the timeout to come back.
Invariant  Whatever raises `Unreachable` or a retriable refusal also drops what was believed about
           leaders, so the next attempt asks anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError, RequestRefused, Unreachable
from tidelog.client.metadata import ClusterView, read_metadata
from tidelog.model.errors import ConfigError, ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.model.settings.endpoints import parse_address
from tidelog.protocol.message import RequestMessage, ResponseT
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from tidelog.client.security import ClientSecurity

Result = TypeVar("Result")

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 1.0


class Client:
    """Connections to one cluster; use it as a context manager."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "tidelog",
        timeout_s: float = 30.0,
        request_timeout_s: float = 10.0,
        security: ClientSecurity | None = None,
    ) -> None:
        self._security = security
        self.timeout_s = timeout_s
        self.request_timeout_s = request_timeout_s
        self._client_id = client_id
        self._bootstrap = parse_bootstrap(bootstrap)
        self._connections: dict[tuple[str, int], Connection] = {}
        self._view: ClusterView | None = None
        self.any_connection()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def any_connection(self) -> Connection:
        """A connection to whichever broker answers first."""
        addresses = dict.fromkeys(self._addresses())
        for address in addresses:
            if (known := self._connections.get(address)) is not None and known.is_open:
                return known
        reasons = []
        for host, port in addresses:
            try:
                return self._connect(host, port)
            except Unreachable as error:
                reasons.append(str(error))
        raise Unreachable("; ".join(reasons))

    def broker(self, node_id: int) -> Connection:
        """A connection to one broker of the current view."""
        view = self._view or self.refresh()
        address = view.brokers.get(node_id)
        if address is None:
            raise RequestRefused(ErrorCode.broker_not_available, f"broker {node_id}")
        known = self._connections.get((address.host, address.port))
        if known is not None and known.is_open:
            return known
        return self._connect(address.host, address.port)

    def refresh(self, topics: Iterable[str] | None = None, *, create: bool = False) -> ClusterView:
        """Ask for metadata: of the named topics, or of all."""
        named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=create)
        self._view = read_metadata(self.any_connection().call(request))
        return self._view

    def forget(self) -> None:
        """Drop what is believed about leaders."""
        self._view = None

    def call(self, request: RequestMessage[ResponseT]) -> ResponseT:
        """Ask any broker, once."""
        return self.any_connection().call(request)

    def retrying(
        self,
        attempt: Callable[[], Result],
        *,
        hopeless: Iterable[ErrorCode] = (),
        timeout_s: float | None = None,
        after_failure: Callable[[], None] = lambda: None,
    ) -> Result:
        """Run `attempt` until it works, says a final no, or the time is up.

        `after_failure` may know why it goes on failing, and raise that.
        """
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        pause_s = _FIRST_PAUSE_S
        final = frozenset(hopeless)
        while True:
            try:
                return attempt()
            except ClientError as error:
                if not _curable(error, final) or time.monotonic() + pause_s > deadline:
                    raise
            after_failure()
            self.forget()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def leaders(self, topic: str, partitions: Iterable[int]) -> dict[int, list[int]]:
        """Which broker leads which of the partitions; a retriable refusal while one has none."""
        if self._view is None or topic not in self._view.topics:
            self.refresh([topic])
        view = self._view or self.refresh([topic])
        led: dict[int, list[int]] = {}
        for partition in partitions:
            leader = view.leader_of(topic, partition)
            if leader == NO_LEADER:
                raise RequestRefused(ErrorCode.leader_not_available, f"{topic}-{partition}")
            led.setdefault(leader, []).append(partition)
        return led

    @property
    def view(self) -> ClusterView:
        """What the last metadata answer said; asked for when there is none."""
        return self._view or self.refresh()

    def _addresses(self) -> Iterable[tuple[str, int]]:
        if self._view is not None:
            for broker in self._view.brokers.values():
                yield broker.host, broker.port
        yield from self._bootstrap

    def _connect(self, host: str, port: int) -> Connection:
        connection = Connection(
            host,
            port,
            client_id=self._client_id,
            timeout_s=self.request_timeout_s,
            security=self._security,
        )
        self._connections[host, port] = connection
        return connection


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """`host:port,host:port` as addresses; `[::1]:9092` is understood."""
    addresses = []
    for part in text.split(","):
        host, port = parse_address("bootstrap", part.strip())
        if port == 0:
            raise ConfigError(f"bootstrap: nobody listens on port 0 ({part.strip()!r})")
        addresses.append((host, port))
    return addresses


def _curable(error: ClientError, hopeless: frozenset[ErrorCode]) -> bool:
    if isinstance(error, RequestRefused):
        return error.code.retriable and error.code not in hopeless
    return isinstance(error, Unreachable)
