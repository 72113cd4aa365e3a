"""A promise: a value that is not known yet, and who waits for it.

    promise = context.flushes.after_owed(partition)
    promise.then(heard)                 heard(value) once it is settled, or at once if it is

Invariant  A promise is settled once. Whoever settles it again has lost count of what was asked,
           and the node stops.
Invariant  Those who wait hear the value in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from tidelog.model.errors import InvariantBroken

K = TypeVar("K")
T = TypeVar("T")
R = TypeVar("R")


class Promise(Generic[T]):
    """One value that comes later."""

    __slots__ = ("_value", "_waiting")

    _value: T
    """Absent until the promise is settled."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[T], None]] | None = []

    @property
    def is_settled(self) -> bool:
        """Whether the value is known."""
        return self._waiting is None

    def settle(self, value: T) -> None:
        """The value is known: tell everyone who waits."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            raise InvariantBroken(f"a promise that was settled is settled again, with {value!r}")
        self._value = value
        for callback in waiting:
            callback(value)

    def then(self, callback: Callable[[T], None]) -> None:
        """Call back with the value, now or once it is known."""
        if self._waiting is None:
            callback(self._value)
        else:
            self._waiting.append(callback)

    def map(self, change: Callable[[T], R]) -> Promise[R]:
        """The promise of what becomes of the value at the moment in which it is known."""
        changed: Promise[R] = Promise()
        self.then(lambda value: changed.settle(change(value)))
        return changed


def all_of(promises: Sequence[Promise[T]]) -> Promise[list[T]]:
    """All the values, in the order of their promises, once the last of them is known."""
    everything: Promise[list[T]] = Promise()
    values: dict[int, T] = {}

    def known(place: int, value: T) -> None:
        values[place] = value
        if len(values) == len(promises):
            everything.settle([values[each] for each in range(len(promises))])

    for place, promise in enumerate(promises):
        promise.then(partial(known, place))
    if not promises:
        everything.settle([])
    return everything


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
