"""What a coordinator answers a command with: records first, then the replies that they make true.

Invariant  A reply leaves only when every record before it, this decision's own included, is below
           the high watermark; what a coordinator says therefore survives the loss of its node.
Invariant  A decision changes no state that is stored: replaying its records does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from tidelog.model.errors import Refusal

R = TypeVar("R")
T = TypeVar("T")

Answer: TypeAlias = Callable[[R | Refusal], None]
"""Takes the reply of somebody who was kept waiting, or a `Refusal`. The first one counts: who is
let go when a coordinator ends may also hear that what it waited behind was not committed."""


def once(then: Callable[[R], None]) -> Callable[[R], None]:
    """Calls `then` with the first reply, and not again."""
    is_told = False

    def tell(reply: R) -> None:
        nonlocal is_told
        if not is_told:
            is_told = True
            then(reply)

    return tell


class ProducerIdAndEpoch(NamedTuple):
    """In whose transaction records are written."""

    producer_id: int
    producer_epoch: int


class LateReply:
    """The reply to somebody whom an earlier decision kept waiting, whatever it is that they get."""

    __slots__ = ("_refuse", "_reply")

    def __init__(self, to: Answer[R], reply: R) -> None:
        self._reply: Callable[[], None] = partial(to, reply)
        self._refuse: Callable[[Refusal], None] = to

    def give(self, refused: Refusal | None) -> None:
        """Give it, or say why what it tells of did not come about."""
        if refused is None:
            self._reply()
        else:
            self._refuse(refused)


@dataclass(frozen=True, slots=True)
class CoordinatorResult(Generic[T, R]):
    """Records, the reply to whoever asked, and replies to those who waited for this."""

    records: tuple[T, ...]
    reply: R
    late: tuple[LateReply, ...] = ()
    producer: ProducerIdAndEpoch | None = None
    """Given when the records count only once this producer's transaction commits."""
