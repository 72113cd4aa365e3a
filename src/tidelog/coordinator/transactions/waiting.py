"""Producers that begin their next transaction while the markers of the last one are being written.

They could be told to come again; they are kept waiting instead, for a short while, because the
last marker is mostly a matter of milliseconds.

Invariant  Everybody who waits is answered once: when the end is complete, when the time is up, or
           when the coordinator is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.coordinator.decision import Answer, LateReply
from tidelog.coordinator.transactions.membership import Joining, join
from tidelog.coordinator.transactions.transaction import STILL_ENDING, Transaction
from tidelog.model.errors import Refusal


class _Waiting(NamedTuple):
    asked: Joining
    answer: Answer


class WaitingJoins:
    """Who waits, by transactional id and in the order in which they came."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Waiting]] = {}

    def add(self, asked: Joining, answer: Answer) -> bool:
        """Keep somebody waiting; whether nobody else waits for the same end."""
        waiting = self._waiting.setdefault(asked.transactional_id, [])
        waiting.append(_Waiting(asked, answer))
        return len(waiting) == 1

    def admit(
        self, transaction: Transaction, wall_ms: int
    ) -> tuple[list[Transaction], tuple[LateReply, ...]]:
        """The end is complete: each step of the transaction that follows, and all replies."""
        steps: list[Transaction] = []
        replies: list[LateReply] = []
        for asked, answer in self._waiting.pop(transaction.transactional_id, ()):
            after = join(asked, transaction, wall_ms)
            if isinstance(after, Refusal):
                replies.append(LateReply(answer, after))
                continue
            replies.append(LateReply(answer, None))
            if after is not transaction:
                transaction = after
                steps.append(after)
        return steps, tuple(replies)

    def give_up(self, transactional_id: str) -> tuple[LateReply, ...]:
        """The time is up for those who wait for this end."""
        waiting = self._waiting.pop(transactional_id, ())
        return tuple(LateReply(answer, STILL_ENDING) for _, answer in waiting)

    def all(self) -> Iterator[Answer]:
        """Everybody, who waits no longer."""
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            for _, answer in each:
                yield answer
