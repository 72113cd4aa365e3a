"""What one room tells others that it does not know.

Invariant  Everybody who asked to hear it is told, in the order of asking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Signal(Generic[P]):
    """One kind of news."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: list[Callable[P, object]] = []

    def hear(self, listener: Callable[P, object]) -> None:
        """Be told from now on."""
        self._listeners.append(listener)

    def tell(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """It happened."""
        for listener in self._listeners:
            listener(*args, **kwargs)
