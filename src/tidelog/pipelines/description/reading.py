"""Taking values out of a YAML tree, one mistake at a time and never stopping at the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from tidelog.model.nearest import nearest
from tidelog.pipelines.description.mistakes import Mistake
from tidelog.pipelines.description.sql_text import SqlMistake
from tidelog.pipelines.description.yaml_nodes import Given

T = TypeVar("T")


class Reading:
    """The mistakes found so far, and how to read each kind of value."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def wrong(self, line: int, text: str) -> None:
        self.mistakes.append(Mistake(line, text))

    def mapping(self, given: Given | None, what: str) -> dict[str, Given]:
        """A mapping with any keys; nothing counts as an empty one."""
        if given is None or given.value is None:
            return {}
        if isinstance(given.value, dict):
            return given.value
        self.wrong(given.line, f"{what} is a mapping (key: value)")
        return {}

    def keyed(self, given: Given | None, what: str, keys: Iterable[str]) -> dict[str, Given]:
        """A mapping with these keys only."""
        known = tuple(keys)
        found = self.mapping(given, what)
        for key, each in found.items():
            if key not in known:
                self.wrong(each.line, f"{what} has no key {key}; {nearest(key, known)}")
        return {key: each for key, each in found.items() if key in known}

    def text(self, given: Given | None, what: str, default: str = "") -> str:
        if given is None:
            return default
        if isinstance(given.value, bool) or not isinstance(given.value, str | int | float):
            self.wrong(given.line, f"{what} is a text")
            return default
        return str(given.value)

    def texts(self, given: Given | None, what: str) -> tuple[str, ...]:
        """One text, or a list of them."""
        if given is None:
            return ()
        many = given.value if isinstance(given.value, list) else [given]
        return tuple(filter(None, (self.text(each, f"each of {what}") for each in many)))

    def count(self, given: Given | None, what: str) -> int | None:
        if given is None:
            return None
        if isinstance(given.value, int) and not isinstance(given.value, bool) and given.value > 0:
            return given.value
        self.wrong(given.line, f"{what} is a number from 1 on")
        return None

    def flag(self, given: Given | None, what: str) -> bool:
        if given is None:
            return False
        if isinstance(given.value, bool):
            return given.value
        self.wrong(given.line, f"{what} is true or false")
        return False

    def settings(self, given: Given | None, what: str) -> dict[str, str]:
        """Names and values that somebody else will understand, all as text."""
        return {
            key: str(each.value).lower()
            if isinstance(each.value, bool)
            else self.text(each, f"{what}.{key}")
            for key, each in self.mapping(given, what).items()
        }

    def choice(self, given: Given | None, what: str, values: Iterable[T], default: T) -> T:
        if given is None:
            return default
        by_text = {str(each): each for each in values}
        text = self.text(given, what)
        if text in by_text:
            return by_text[text]
        self.wrong(
            given.line, f"{what} is one of {', '.join(by_text)}, not {text or given.value!r}"
        )
        return default

    def sql(self, line: int, read: Callable[[], T]) -> T | None:
        """What `read` makes of a piece of SQL; None and a mistake when it cannot."""
        try:
            return read()
        except SqlMistake as error:
            self.wrong(line, str(error))
            return None
