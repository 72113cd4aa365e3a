"""Times and durations as people write them, in milliseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

import typer

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = (1 << 63) - 1
_DURATION: Final = re.compile(
    r"P(?=.)(?:(?P<days>\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,3})?)S)?)?",
    re.ASCII,
)
_AGO: Final = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_AGO_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNITS_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


def moment_ms(text: str, option: str, *, expected: str = "a moment") -> int:
    """Milliseconds since 1970 of a moment in ISO 8601, in UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not {expected} such as 2026-01-31T12:00:00Z", param_hint=option
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return timestamp_ms((moment - _EPOCH) // timedelta(milliseconds=1), text, option)


def since_ms(text: str, now_ms: int, option: str) -> int:
    """A moment, or how long ago it was: 30s, 10m, 2h, 3d."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now_ms - int(ago[1]) * _AGO_MS[ago[2]]
    return moment_ms(text, option, expected="so long ago as 10m or 2h, nor a moment")


def timestamp_ms(milliseconds: int, text: str, option: str) -> int:
    """The same, if a record can bear it."""
    if not 0 <= milliseconds <= _LAST_MS:
        raise typer.BadParameter(f"no record can be of {text}", param_hint=option)
    return milliseconds


def duration_ms(text: str, option: str) -> int:
    """Milliseconds of a duration in ISO 8601: days and smaller, since a month has no length."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is not a duration such as PT30M or P1DT12H", param_hint=option
        )
    parts = found.groupdict(default="0")
    return sum(int(Decimal(parts[unit]) * size_ms) for unit, size_ms in _UNITS_MS.items())
