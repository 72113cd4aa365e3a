"""A process that dies before a change to the disk: Python tells of each before it is made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

Heard: TypeAlias = Callable[[str, tuple[Any, ...]], None]
"""Hears what is about to happen and with what; whatever it raises, happens instead."""

_hearing: list[Heard] = []
_PATH_ARGUMENT: Final = {"os.rename": 1, "os.remove": 0, "shutil.rmtree": 0, "open": 0}
"""Which argument of an event is the path that will be different."""


class Killed(BaseException):
    """The process is gone, between two steps."""


def _about_to(event: str, arguments: tuple[Any, ...]) -> None:
    for heard in tuple(_hearing):
        heard(event, arguments)


sys.addaudithook(_about_to)  # for good: Python takes none back


@contextmanager
def hearing(heard: Heard) -> Iterator[None]:
    """Tell of every event meanwhile."""
    _hearing.append(heard)
    try:
        yield
    finally:
        _hearing.remove(heard)


@contextmanager
def killed_before(event: str, path: Path) -> Iterator[None]:
    """Die as soon as this is about to happen to a path; it is wrong if that never comes."""
    argument = _PATH_ARGUMENT[event]

    def heard(what: str, arguments: tuple[Any, ...]) -> None:
        if what == event and str(arguments[argument]) == str(path):
            raise Killed

    try:
        with hearing(heard):
            yield
    except Killed:
        return
    raise AssertionError(f"nobody was about to {event} {path}")
