"""Scenarios that come with the package: transcripts, one per file, found by their names."""

from __future__ import annotations

from importlib.resources import files

from tidelog.model.errors import ConfigError
from tidelog.model.nearest import nearest

_SUFFIX = ".txt"


def scenario_names() -> list[str]:
    """Every scenario that comes with the package."""
    found = (each.name for each in files(__package__).iterdir())
    return sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX))


def scenario_text(name: str) -> str:
    """One of them; ConfigError with the nearest name when there is none."""
    names = scenario_names()
    if name not in names:
        raise ConfigError(f"there is no scenario {name!r}; {nearest(name, names)}")
    return files(__package__).joinpath(name + _SUFFIX).read_text(encoding="utf-8")
