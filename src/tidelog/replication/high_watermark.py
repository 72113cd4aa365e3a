"""The high watermark: the offset below which a record can no longer be lost; who waits for it.

Invariant  Each offset below the high watermark is stored by every replica that could be elected
           next, so the set that counts holds proposed members, not just agreed ones.
Invariant  It rises only while enough replicas are in sync (KIP-966): what fewer of them hold could
           be lost with them.
Invariant  Within one leader epoch it only rises. That of a follower follows its leader's, one
           answer behind, and may step back.
Invariant  An answer that waits is given exactly once, or never when whoever waited has left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

from tidelog.model.errors import ErrorCode, invariant
from tidelog.replication.follower_progress import FollowerProgress

Answer: TypeAlias = Callable[[ErrorCode], None]


class HighWatermark:
    """That of one replica."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def raise_to(self, candidate: int, log_end: int) -> bool:
        """Move up to `candidate` if that is higher; say whether it moved."""
        if candidate <= self.offset:  # a returning follower lags; it is waited for
            return False
        invariant(candidate <= log_end, "the high watermark lies within the log")
        self.offset = candidate
        return True

    def follow(self, leader_high_watermark: int, log_start: int, log_end: int) -> bool:
        """Take the leader's as far as the own log goes; say whether it moved."""
        before = self.offset
        self.offset = leader_high_watermark
        self.clamp(log_start, log_end)
        return self.offset != before

    def clamp(self, log_start: int, log_end: int) -> None:
        """Stay inside a log whose ends have moved."""
        self.offset = max(log_start, min(self.offset, log_end))


def has_enough(in_sync: int, min_in_sync: int, replicas: int) -> bool:
    """Whether so many in-sync replicas make a write safe; all of them always do."""
    return in_sync >= min(min_in_sync, replicas)


def slowest_end(
    leader_end: int,
    followers: Iterable[FollowerProgress],
    maximal: frozenset[int],
    might_join: Callable[[FollowerProgress], bool],
) -> int:
    """How far the leader and everyone who counts have come.

    Besides the in-sync replicas those count that are about to join them: a high watermark
    that ran ahead of such a follower for ever would keep it out for ever.
    """
    slowest = leader_end
    for follower in followers:
        if follower.end_offset < slowest and (
            follower.broker_id in maximal or might_join(follower)
        ):
            slowest = follower.end_offset
    return slowest


class ParkedAnswer:
    """One that waits until everything below `end_offset` is settled."""

    __slots__ = ("_answer", "end_offset")

    def __init__(self, end_offset: int, answer: Answer) -> None:
        self.end_offset = end_offset
        self._answer: Answer | None = answer

    @property
    def is_waiting(self) -> bool:
        return self._answer is not None

    def settle(self, code: ErrorCode) -> None:
        """Answer, unless that was done before."""
        answer, self._answer = self._answer, None
        if answer is not None:
            answer(code)

    def time_out(self) -> None:
        """Its time is up: what was written stays, but nobody can promise anything."""
        self.settle(ErrorCode.request_timed_out)

    def cancel(self) -> None:
        """Whoever waited has left."""
        self._answer = None


class ParkedAnswers:
    """Those that wait for one leader in one epoch, by rising offset."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[ParkedAnswer] = deque()

    def __len__(self) -> int:
        return sum(parked.is_waiting for parked in self._waiting)

    def wait_for(self, end_offset: int, answer: Answer) -> ParkedAnswer:
        """Call `answer` once the offset is reached, or once it is known that it never counts."""
        waiting = self._waiting
        while waiting and not waiting[0].is_waiting:
            waiting.popleft()
        parked = ParkedAnswer(end_offset, answer)
        place = len(waiting)
        while place and waiting[place - 1].end_offset > end_offset:  # a repeated batch waits too
            place -= 1
        waiting.insert(place, parked)
        return parked

    def settle_up_to(self, offset: int, code: ErrorCode) -> None:
        """Everything below `offset` is settled."""
        waiting = self._waiting
        while waiting and waiting[0].end_offset <= offset:
            waiting.popleft().settle(code)

    def fail(self, code: ErrorCode) -> None:
        """Nobody will know any more: answer all of them."""
        waiting, self._waiting = self._waiting, deque()
        for parked in waiting:
            parked.settle(code)
