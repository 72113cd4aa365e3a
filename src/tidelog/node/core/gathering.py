"""One answer out of several that come in their own time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelog.node.core.promise import Promise, all_of

K = TypeVar("K")
R = TypeVar("R")


def gather(
    keys: Sequence[K],
    ask: Callable[[K, Callable[[R], None]], None],
    then: Callable[[list[R]], None],
) -> None:
    """Ask about every key; call `then` once, with the answers in the order of the keys."""
    answers: list[Promise[R]] = [Promise() for _ in keys]
    all_of(answers).then(then)
    for key, answer in zip(keys, answers, strict=True):
        ask(key, answer.settle)
