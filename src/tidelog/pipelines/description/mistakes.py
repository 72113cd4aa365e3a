"""Mistakes in a pipeline's description: all of them at once, each with its place and the fix; and
how whoever runs it is told of anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from tidelog.client.errors import Unreachable
from tidelog.model.errors import ConfigError, TidelogError

Tell: TypeAlias = Callable[[str], None]
"""Says one line to whoever runs a pipeline."""


class Mistake(NamedTuple):
    """One thing that is wrong, and the line it stands on."""

    line: int
    text: str


class SpecError(ConfigError):
    """The description cannot be used."""

    def __init__(self, path: str, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = sorted(set(mistakes))
        super().__init__("\n".join(f"{path}:{each.line}: {each.text}" for each in self.mistakes))


class PipelineTrouble(TidelogError):
    """A pipeline cannot go on; the message says what to do."""


class NotYet(PipelineTrouble):
    """A pipeline cannot go on now; that may pass without anybody doing anything."""


class ClusterAway(NotYet, Unreachable):
    """A pipeline cannot go on because no broker answers."""
