"""Whether there is a controller that decides, for people who wonder why nothing changes.

Without a majority of the controllers nothing is elected, created or fenced, while whatever needs no
decision goes on. A node that has heard of no active controller for longer than an election takes
says so, and why as far as it can tell; and says it again when there is one.

Invariant  A node that was asleep itself accuses nobody: it listens for a while first.
Invariant  The active controller counts as heard of while a majority follows it.
"""

from __future__ import annotations

from typing import Final

from tidelog.controller.records import MetadataRecord
from tidelog.model.time import Now
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.controller_locator import ControllerLocator
from tidelog.observe.cluster_events import ControllerFound, ControllerMissing
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import Address
from tidelog.quorum.quorum import Quorum

ASLEEP_MS: Final = 500
"""A look that comes this much too late tells that we did not listen."""


class ControllerWatch:
    """Notes who answers, and looks every few seconds whether a controller was among them."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        quorum: Quorum[MetadataRecord],
        locator: ControllerLocator,
    ) -> None:
        config = cluster.config
        self._runtime = runtime
        self._cluster = cluster
        self._quorum = quorum
        self._locator = locator
        self._patience_ms = (
            config.controller_quorum_fetch_timeout_ms + config.controller_quorum_election_timeout_ms
        )
        self._heard_ms = 0
        self._answered_ms: dict[Address, int] = {}
        self.missing: str | None = None
        """Why there is no active controller, while there is none."""

    def start(self, now: Now) -> None:
        """Begin to listen."""
        self._heard_ms = now.monotonic_ms
        self._look_at(now.monotonic_ms + self._patience_ms)

    # What others notice

    def answered(self, address: Address, now: Now) -> None:
        """A controller said something, be it that it does not lead."""
        self._answered_ms[address] = now.monotonic_ms

    def heard(self, now: Now) -> None:
        """The active controller answered, or is this node."""
        if self.missing is not None:
            self.missing = None
            seconds = (now.monotonic_ms - self._heard_ms) / 1000
            self._runtime.announce(
                ControllerFound(
                    controller_id=self._quorum.leader_id,
                    epoch=self._quorum.epoch,
                    cause=f"there was none for {seconds:.1f} s",
                )
            )
        self._heard_ms = now.monotonic_ms

    # Looking

    def _look_at(self, due_ms: int) -> None:
        def look(now: Now) -> None:
            self._look_now(due_ms, now)

        self._runtime.deadlines.at(due_ms, look)

    def _look_now(self, due_ms: int, now: Now) -> None:
        now_ms = now.monotonic_ms
        role = self._quorum.role
        if isinstance(role, Leader):
            self._heard_ms = role.majority_heard_ms(now_ms)
        if now_ms - due_ms > ASLEEP_MS:
            self._look_at(now_ms + self._patience_ms)
            return
        if now_ms - self._heard_ms < self._patience_ms:
            self._look_at(self._heard_ms + self._patience_ms)
            return
        is_news = self.missing is None
        self.missing = self._why_missing()
        if is_news:
            self._runtime.announce(ControllerMissing(cause=self.missing))
        self._look_at(now_ms + self._patience_ms)

    def _why_missing(self) -> str:
        others = self._locator.others
        silent = sorted(
            each for each in others if self._answered_ms.get(each, -1) <= self._heard_ms
        )
        total = len(others) + self._cluster.config.is_controller
        reached, needed = total - len(silent), total // 2 + 1
        where = ", ".join(f"{host}:{port}" for host, port in silent)
        lacking = "none of them leads"
        if reached < needed:
            lacking = f"{needed} {'is' if needed == 1 else 'are'} needed"
        nobody = f": nobody answers at {where}" if silent else ""
        return f"{reached} of {total} controllers can be reached, and {lacking}{nobody}"
