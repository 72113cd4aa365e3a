"""Regular expressions over topic names, in time linear in the name.

Clients choose the expressions, so an engine that tries one way after the other could be made to
try for hours. This one follows all ways at once.

Invariant  Matching looks at each character of a name once, at each part of the expression at most
           once for it; an expression has a bounded number of parts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.coordinator.groups.consumer.expression_syntax import (
    Choice,
    Edge,
    MalformedExpression,
    Node,
    One,
    Parser,
    Repeat,
    Sequence,
)

__all__ = ["Expression", "MalformedExpression"]

MAX_PARTS: Final = 10_000


class _Step(NamedTuple):
    """A part of the compiled expression: what it takes, and where to go on."""

    what: One | Edge | None
    to: tuple[int, ...]


class Expression:
    """A compiled expression."""

    def __init__(self, text: str) -> None:
        """`MalformedExpression` says what is wrong with the text."""
        self._steps: list[_Step] = [_Step(None, ())]
        self._first = self._compile(Parser(text).parse(), 0)

    def matches(self, name: str) -> bool:
        """Whether the whole name is what the expression describes."""
        states = self._reachable({self._first}, at_start=True, at_end=not name)
        for place, character in enumerate(name):
            taken = {
                step.to[0]
                for step in map(self._steps.__getitem__, states)
                if isinstance(step.what, One) and character in step.what.of
            }
            states = self._reachable(taken, at_start=False, at_end=place + 1 == len(name))
        return 0 in states

    def _reachable(self, states: set[int], *, at_start: bool, at_end: bool) -> set[int]:
        """Where one can be without taking a character."""
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            number = waiting.pop()
            if number in found:
                continue
            found.add(number)
            what, to = self._steps[number]
            if what is None or (isinstance(what, Edge) and (at_end if what.is_end else at_start)):
                waiting.extend(to)
        return found

    def _add(self, step: _Step) -> int:
        if len(self._steps) >= MAX_PARTS:
            raise MalformedExpression("the expression is too large")
        self._steps.append(step)
        return len(self._steps) - 1

    def _compile(self, node: Node, to: int) -> int:
        """Add the steps of a node that goes on at `to`; where it begins."""
        match node:
            case One() | Edge():
                return self._add(_Step(node, (to,)))
            case Sequence(parts):
                for part in reversed(parts):
                    to = self._compile(part, to)
                return to
            case Choice(parts):
                return self._add(_Step(None, tuple(self._compile(part, to) for part in parts)))
            case Repeat(part, least, most):
                if most is None:
                    loop = self._add(_Step(None, ()))
                    self._steps[loop] = _Step(None, (self._compile(part, loop), to))
                    to = loop
                else:
                    end = to
                    for _ in range(most - least):
                        to = self._add(_Step(None, (self._compile(part, to), end)))
                for _ in range(least):
                    to = self._compile(part, to)
                return to
