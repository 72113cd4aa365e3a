"""Brokers that were there a moment ago, for clients that have to find their way around them.

A broker dies, and clients ask the others for its partitions' leaders at once, before anybody has
decided. Two things let them go on as soon as there is a decision:

- While the connection to a broker has just broken, whoever asks for the leader of its partitions
  gets the answer when there is a decision (`node/core/delayed_requests.py`), so that the first
  answer is right; who asks in other ways is told that they have no leader.
- A broker that was fenced a moment ago is still in the list of brokers. Clients that find a broker
  missing tear down what they had to do with it, which takes librdkafka a second.

Invariant  A doubt about a broker ends when it answers, when it is fenced, or after a second: by
           then it is fenced, even if the controller went with it, or it lives and only we cannot
           reach it.
Invariant  Without a grace (`broker.disconnect.grace.ms=0`) clients are told what the metadata says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tidelog.controller.image_delta import BrokerDelta
from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadline, Deadlines

DOUBT_MS: Final = 1_000
LISTED_AFTER_FENCING_MS: Final = 5_000


class Departures:
    """What this node knows of brokers that may be gone, apart from the metadata."""

    def __init__(self, deadlines: Deadlines, grace_ms: int) -> None:
        self._deadlines = deadlines
        self._helps_clients = grace_ms > 0
        self._in_doubt: dict[int, Deadline] = {}
        self._lately_fenced: dict[int, Deadline] = {}

    def is_in_doubt(self, broker_id: int) -> bool:
        """Whether the connection to a broker has just broken."""
        return broker_id in self._in_doubt

    def doubt_ends_ms(self, broker_id: int) -> int | None:
        """When the doubt about a broker ends at the latest; None where there is none."""
        doubt = self._in_doubt.get(broker_id)
        return None if doubt is None else doubt.due_ms

    @property
    def in_doubt(self) -> Collection[int]:
        """The brokers to which the connection has just broken."""
        return self._in_doubt.keys()

    def is_lately_fenced(self, broker_id: int) -> bool:
        """Whether clients may still have it in mind."""
        return broker_id in self._lately_fenced

    def connection_lost(self, broker_id: int, now: Now) -> None:
        """The connection to a broker broke."""
        self._note(self._in_doubt, broker_id, now.monotonic_ms + DOUBT_MS)

    def heard_from(self, broker_id: int) -> None:
        """A broker answered."""
        self._forget(self._in_doubt, broker_id)

    def apply(self, brokers: Mapping[int, BrokerDelta], now: Now) -> None:
        """Follow the metadata."""
        for broker_id, change in brokers.items():
            before, after = change.before, change.after
            if before is not None and after is not None and after.fenced and not before.fenced:
                until_ms = now.monotonic_ms + LISTED_AFTER_FENCING_MS
                self._note(self._lately_fenced, broker_id, until_ms)
                self._forget(self._in_doubt, broker_id)
            elif after is None or not after.fenced:
                self._forget(self._lately_fenced, broker_id)

    def _note(self, noted: dict[int, Deadline], broker_id: int, until_ms: int) -> None:
        if self._helps_clients:
            self._forget(noted, broker_id)

            def expired(_: Now) -> None:
                noted.pop(broker_id, None)

            noted[broker_id] = self._deadlines.at(until_ms, expired)

    def _forget(self, noted: dict[int, Deadline], broker_id: int) -> None:
        deadline = noted.pop(broker_id, None)
        if deadline is not None:
            deadline.cancel()
