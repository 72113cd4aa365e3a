"""The leader of one epoch: what the voters hold decides what is committed.

Invariant  The high watermark never falls, and it moves only past a record of the leader's own
           epoch: what an earlier leader wrote is committed with it, never by counting copies (C4).
Invariant  An offset counts for a voter only once that voter has made it durable (C5).
"""

from __future__ import annotations

from collections.abc import Iterable


class Leader:
    """Built anew for each epoch this node leads."""

    __slots__ = ("_durable", "epoch", "epoch_start_offset", "high_watermark")

    def __init__(
        self, *, epoch: int, epoch_start_offset: int, voter_ids: Iterable[int], high_watermark: int
    ) -> None:
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self.high_watermark = high_watermark
        self._durable = dict.fromkeys(voter_ids, 0)

    @property
    def has_committed(self) -> bool:
        """Whether a record of this epoch is committed; before that the controller must not act."""
        return self.high_watermark > self.epoch_start_offset

    def note_durable(self, voter_id: int, end_offset: int) -> bool:
        """A voter holds everything below `end_offset`; whether that moved the high watermark."""
        if end_offset <= self._durable[voter_id]:
            return False
        self._durable[voter_id] = end_offset
        held_by_majority = sorted(self._durable.values(), reverse=True)[len(self._durable) // 2]
        if held_by_majority <= max(self.high_watermark, self.epoch_start_offset):
            return False
        self.high_watermark = held_by_majority
        return True

    def end_offset_of(self, voter_id: int) -> int:
        """How far a voter holds the log, as far as the leader knows."""
        return self._durable[voter_id]
