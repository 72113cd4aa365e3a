"""One answer out of several that come in their own time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

K = TypeVar("K")
R = TypeVar("R")


def gather(
    keys: Sequence[K],
    ask: Callable[[K, Callable[[R], None]], None],
    then: Callable[[list[R]], None],
) -> None:
    """Ask about every key; call `then` once, with the answers in the order of the keys."""
    answers: dict[int, R] = {}

    def answered(place: int, answer: R) -> None:
        answers[place] = answer
        if len(answers) == len(keys):
            then([answers[each] for each in range(len(keys))])

    for place, key in enumerate(keys):
        ask(key, partial(answered, place))
    if not keys:
        then([])
