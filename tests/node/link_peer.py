"""The other end of a link, and the shell between."""

from __future__ import annotations

from typing import Any

from tests.protocol.kio_messages.entity_messages import encode_response

from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadlines
from tidelog.node.core.effects import Effect, SendOnLink
from tidelog.node.core.inputs import LinkClosed, LinkFrame, LinkOpened
from tidelog.node.core.links import BeginLogin, Link, LinkListeners, LinkLost, Links
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import FetchRequest, joined
from tidelog.protocol.frame import read_request_header
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest

PEER = ("127.0.0.1", 9093)
NOTHING = FetchRequest(101, 7, 500, 1, 1024, 0, 0, 0, [], [], "", None)


class Peer:
    """Plays the shell and the node at the other end, one moment at a time."""

    def __init__(self, begin_login: BeginLogin = lambda _: None) -> None:
        self.now = Now(1_000, 5_000)
        self.effects: list[Effect] = []
        self.deadlines = Deadlines()
        self.links = Links(
            self.effects, self.deadlines, "broker-101", LinkListeners("", ""), begin_login
        )
        self.heard: list[tuple[str, Any]] = []

    def link(self, purpose: str = "control") -> Link:
        return self.links.to_broker(PEER, purpose)

    def ask(self, name: str, link: Link | None = None, timeout_ms: int = 1_000) -> None:
        """Ask for the description of a cluster; the answer is kept under `name`."""

        def then(answer: object, now: Now) -> None:
            assert now == self.now
            self.heard.append((name, answer))

        link = link or self.link()
        link.ask(self.now, DescribeClusterRequest(), 0, then, timeout_ms=timeout_ms)

    def take(self) -> list[Effect]:
        effects = self.effects[:]
        self.effects.clear()
        return effects

    def sent(self) -> list[int]:
        """The correlation ids of what was sent since the last time."""
        return [
            read_request_header(joined(effect.parts)).correlation_id
            for effect in self.take()
            if isinstance(effect, SendOnLink)
        ]

    def opened(self, number: int = 1) -> None:
        self.links.opened(LinkOpened(self.now, number))

    def answer(self, correlation_id: int, number: int = 1, cluster_id: str = "c") -> None:
        frame = encode_response(
            ApiKey.DESCRIBE_CLUSTER, 0, correlation_id, {"cluster_id": cluster_id}
        )
        self.frame(frame, number)

    def frame(self, frame: bytes | bytearray, number: int = 1) -> None:
        self.links.frame_arrived(LinkFrame(self.now, number, memoryview(frame)))

    def closed(
        self, number: int = 1, reason: str = "connection refused", *, by_peer: bool = True
    ) -> None:
        self.links.closed(LinkClosed(self.now, number, reason, by_peer))

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, from deadline to deadline."""
        until = self.now.monotonic_ms + milliseconds
        while (due := self.deadlines.next_ms) is not None and due <= until:
            self.now = Now(max(due, self.now.monotonic_ms), 5_000)
            self.deadlines.run_due(self.now)
        self.now = Now(until, 5_000)

    def lost(self) -> list[str]:
        """Who heard that the link was lost."""
        return [name for name, answer in self.heard if isinstance(answer, LinkLost)]

    def answered(self) -> list[tuple[str, str]]:
        return [
            (name, answer.cluster_id)
            for name, answer in self.heard
            if not isinstance(answer, LinkLost)
        ]
