"""The syntax of regular expressions over topic names: from text to a tree.

It is RE2's, as in Apache Kafka, without word boundaries and Unicode classes, which mean little in
topic names.
"""

from __future__ import annotations

from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits
from typing import Final, NamedTuple, TypeAlias

from tidelog.model.errors import TidelogError

ALPHABET: Final = frozenset(ascii_letters + digits + "._-")
"""Everything that a topic name can hold: a class of characters is a subset of it."""
MAX_REPEAT: Final = 1000
MAX_DEPTH: Final = 100
_WORD: Final = frozenset(ascii_letters + digits + "_")
_CLASSES: Final = {"d": frozenset(digits), "w": _WORD, "s": frozenset[str]()}
_POSIX: Final = {
    "alnum": frozenset(ascii_letters + digits),
    "alpha": frozenset(ascii_letters),
    "digit": frozenset(digits),
    "lower": frozenset(ascii_lowercase),
    "punct": frozenset("._-"),
    "upper": frozenset(ascii_uppercase),
    "word": _WORD,
}


class MalformedExpression(TidelogError):
    """Not an expression, or one that would be too large."""


class One(NamedTuple):
    """One character out of a class."""

    of: frozenset[str]


class Edge(NamedTuple):
    """The beginning of the name, or its end."""

    is_end: bool


class Sequence(NamedTuple):
    parts: tuple[Node, ...]


class Choice(NamedTuple):
    parts: tuple[Node, ...]


class Repeat(NamedTuple):
    part: Node
    least: int
    most: int | None


Node: TypeAlias = One | Edge | Sequence | Choice | Repeat


class Parser:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ignores_case = False
        self._depth = 0

    def parse(self) -> Node:
        node = self._choice()
        if self._at < len(self._text):
            raise MalformedExpression(f"unexpected ) at {self._at}")
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, what: str) -> bool:
        if self._text.startswith(what, self._at):
            self._at += len(what)
            return True
        return False

    def _next(self, what: str) -> str:
        if self._at >= len(self._text):
            raise MalformedExpression(f"{what} is missing at the end")
        self._at += 1
        return self._text[self._at - 1]

    # -- structure -----------------------------------------------------------------------------

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return Sequence(tuple(parts))

    def _repeated(self, node: Node) -> Node:
        times = self._times()
        if times is None:
            return node
        self._take("?")  # a preference, which does not change what matches as a whole
        if self._peek() and self._peek() in "*+?":
            raise MalformedExpression(f"a repetition of a repetition at {self._at}")
        return Repeat(node, *times)

    def _times(self) -> tuple[int, int | None] | None:
        for mark, times in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(mark):
                return times
        end = self._text.find("}", self._at)
        if self._peek() != "{" or end < 0:
            return None
        least, comma, most = self._text[self._at + 1 : end].partition(",")
        if not least.isdecimal() or not (most.isdecimal() or not most):
            return None  # as RE2 does, a brace that counts nothing stands for itself
        self._at = end + 1
        low = int(least)
        high = (int(most) if most else None) if comma else low
        if low > MAX_REPEAT or (high is not None and not low <= high <= MAX_REPEAT):
            raise MalformedExpression(f"a repetition of {least}{comma}{most} times")
        return low, high

    def _atom(self) -> Node:
        character = self._next("something")
        match character:
            case "(":
                return self._group()
            case "[":
                return One(self._class())
            case ".":
                return One(ALPHABET)
            case "^" | "$":
                return Edge(character == "$")
            case "*" | "+" | "?":
                raise MalformedExpression(f"nothing to repeat at {self._at - 1}")
            case "\\":
                return self._escaped()
            case _:
                return self._literal(character)

    def _group(self) -> Node:
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                while self._next("the end of a name") != ">":
                    pass
            elif not self._take(":"):
                return self._flags()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise MalformedExpression("groups are nested too deeply")
        ignored_case = self._ignores_case
        node = self._choice()
        self._ignores_case = ignored_case
        self._depth -= 1
        if not self._take(")"):
            raise MalformedExpression("a ) is missing")
        return node

    def _flags(self) -> Node:
        flag = self._next("a flag")
        while flag != ")":
            if flag not in "imsU":
                raise MalformedExpression(f"{flag} is no flag")
            self._ignores_case = self._ignores_case or flag == "i"
            flag = self._next("a flag")
        return Sequence(())

    # -- characters ----------------------------------------------------------------------------

    def _literal(self, character: str) -> One:
        return One(self._folded(frozenset(character)) & ALPHABET)

    def _folded(self, characters: frozenset[str]) -> frozenset[str]:
        if not self._ignores_case:
            return characters
        return frozenset(other for each in characters for other in (each.lower(), each.upper()))

    def _escaped(self) -> Node:
        character = self._next("what is escaped")
        if character in "Az":
            return Edge(character == "z")
        known = _escaped_class(character)
        return self._literal(character) if known is None else One(known)

    def _class(self) -> frozenset[str]:
        is_not = self._take("^")
        members: frozenset[str] = frozenset()
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            members |= self._class_member()
        self._at += 1
        members = self._folded(members)
        return ALPHABET - members if is_not else ALPHABET & members

    def _class_member(self) -> frozenset[str]:
        if self._take("[:"):
            end = self._text.find(":]", self._at)
            name = self._text[self._at : max(end, self._at)]
            if name not in _POSIX:
                raise MalformedExpression(f"{name!r} is no class of characters")
            self._at = end + 2
            return _POSIX[name]
        first = self._next("a ]")
        if first == "\\":
            first = self._next("what is escaped")
            known = _escaped_class(first)
            if known is not None:
                return known
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("", "]"):
            return frozenset(first)
        self._at += 1
        last = self._next("the end of a range")
        if last == "\\":
            last = self._next("what is escaped")
        if last < first:
            raise MalformedExpression(f"the range {first}-{last} is empty")
        return frozenset(each for each in ALPHABET if first <= each <= last)


def _escaped_class(character: str) -> frozenset[str] | None:
    """The class that an escaped letter stands for; None where it stands for itself."""
    if character.lower() in _CLASSES:
        members = _CLASSES[character.lower()]
        return members if character.islower() else ALPHABET - members
    if character.isalnum():
        raise MalformedExpression(f"\\{character} is not supported")
    return None
