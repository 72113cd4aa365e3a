"""Producer ids of this broker, taken from blocks that the controller hands out.

Invariant  An id is given once; a block that was not used up before a restart is simply lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidelog.model.errors import Refusal
from tidelog.model.time import Now

Arrived: TypeAlias = Callable[[Refusal | None], None]
Allocate: TypeAlias = Callable[[Now, Callable[[range | Refusal], None]], None]


class ProducerIds:
    """The current block, and who waits for the next one."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate = allocate
        self._block = range(0)
        self._waiting: list[Arrived] = []

    @property
    def has_any(self) -> bool:
        """Whether an id can be taken without asking the controller."""
        return bool(self._block)

    def take(self) -> int | None:
        """The next free id, or None when the block is used up."""
        if not self._block:
            return None
        producer_id = self._block[0]
        self._block = self._block[1:]
        return producer_id

    def refill(self, now: Now, arrived: Arrived) -> None:
        """Ask the controller for a block; `arrived` is called once it is here or refused."""
        self._waiting.append(arrived)
        if len(self._waiting) == 1:
            self._allocate(now, self._block_arrived)

    def _block_arrived(self, block: range | Refusal) -> None:
        refusal = block if isinstance(block, Refusal) else None
        if not isinstance(block, Refusal):
            self._block = block
        waiting, self._waiting = self._waiting, []
        for arrived in waiting:
            arrived(refusal)
