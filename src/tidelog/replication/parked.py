"""Answers that wait until an offset is reached: produces for the mark, deletions for all starts.

Invariant  Each is answered exactly once, or never when whoever waited has left.
Invariant  An answer is bound to the leader epoch in which it began to wait: when that epoch ends,
           even with the same leader, what was written may yet be cut off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from tidelog.model.errors import ErrorCode

Answer: TypeAlias = Callable[[ErrorCode], None]


class ParkedAnswer:
    """One that waits until everything below `end_offset` is settled."""

    __slots__ = ("_answer", "end_offset", "leader_epoch")

    def __init__(self, end_offset: int, leader_epoch: int, answer: Answer) -> None:
        self.end_offset = end_offset
        self.leader_epoch = leader_epoch
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
    """Those that wait in one partition, by rising offset."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[ParkedAnswer] = deque()

    def __len__(self) -> int:
        return sum(parked.is_waiting for parked in self._waiting)

    def wait_for(self, end_offset: int, leader_epoch: int, answer: Answer) -> ParkedAnswer:
        """Call `answer` once the offset is reached, or once it is known that it never counts."""
        waiting = self._waiting
        while waiting and not waiting[0].is_waiting:
            waiting.popleft()
        parked = ParkedAnswer(end_offset, leader_epoch, answer)
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

    def end_epochs_before(self, leader_epoch: int) -> None:
        """Another epoch began: nothing written in an earlier one is promised any more."""
        ended = [parked for parked in self._waiting if parked.leader_epoch < leader_epoch]
        self._waiting = deque(
            parked for parked in self._waiting if parked.leader_epoch >= leader_epoch
        )
        for parked in ended:
            parked.settle(ErrorCode.not_leader_or_follower)

    def fail(self, code: ErrorCode) -> None:
        """Nobody will know any more: answer all of them."""
        waiting, self._waiting = self._waiting, deque()
        for parked in waiting:
            parked.settle(code)
