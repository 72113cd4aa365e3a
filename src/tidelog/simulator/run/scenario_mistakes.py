"""Mistakes in a file that people write for the simulator: all at once, each with its line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.model.errors import ConfigError


class ScenarioMistake(NamedTuple):
    """One thing that is wrong, with the fix in it, and the line it stands on."""

    line: int
    text: str


class ScenarioError(ConfigError):
    """A plan or a transcript cannot be used."""

    def __init__(self, mistakes: Iterable[ScenarioMistake]) -> None:
        self.mistakes = sorted(mistakes)
        super().__init__("\n".join(f"line {each.line}: {each.text}" for each in self.mistakes))

    def of(self, file: object) -> str:
        """The mistakes with the name of the file, as an editor wants to read them."""
        return "\n".join(f"{file}:{each.line}: {each.text}" for each in self.mistakes)


def number_in(text: str, low: int, high: int) -> int:
    """A whole number within bounds."""
    try:
        found = int(text) if text.isascii() else None
    except ValueError:
        found = None
    if found is None or not low <= found <= high:
        raise ConfigError(f"{text!r} is not a whole number from {low} to {high}")
    return found
