"""The name that was meant: what every sentence that begins with `there is no X` ends with."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_LIKENESS: Final = 0.6
_SHOWN: Final = 20


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, if any is."""
    by_lower = {each.lower(): each for each in sorted(known)}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=_LIKENESS)
    return by_lower[close[0]] if close else None


def nearest(name: str, known: Iterable[str]) -> str:
    """How to go on after `there is no X`: the name that was meant, or all names there are."""
    names = sorted(known)
    if (meant := nearest_name(name, names)) is not None:
        return f"did you mean {meant}?"
    shown = [*names[:_SHOWN], "…"] if len(names) > _SHOWN else names
    return f"there is {', '.join(shown)}" if names else "there is none"
