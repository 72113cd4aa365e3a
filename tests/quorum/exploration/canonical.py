"""Objects as values that are equal when the objects behave the same: clocks do not matter, only how
far off things are."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from tidelog.model.time import Now
from tidelog.quorum.timeouts import NEVER_MS, QuorumTimeouts
from tidelog.simulator.disk.memory_filesystem import DiskImage

_WALL_CLOCK: Final = frozenset({"caught_up_ms"})


def canonical(value: object, clock_ms: int, name: str = "") -> object:
    """`value` with everything in it, times as seen from `clock_ms`; `name` says what is a time."""
    match value:
        case Now():
            return value.monotonic_ms - clock_ms
        case QuorumTimeouts():
            return ()
        case bool() | None:
            return value
        case int():
            is_time = name.endswith(("_ms", "_due")) and name not in _WALL_CLOCK
            return value - clock_ms if is_time and value != NEVER_MS else value
        case dict():
            return tuple(
                sorted((key, canonical(each, clock_ms, name)) for key, each in value.items())
            )
        case set() | frozenset():
            return tuple(sorted(value))
        case tuple():
            names = getattr(value, "_fields", [name] * len(value))
            return tuple(
                canonical(each, clock_ms, of) for of, each in zip(names, value, strict=True)
            )
        case _ if type(value).__module__.startswith("tidelog."):
            return type(value).__name__, tuple(
                (of, canonical(getattr(value, of), clock_ms, of)) for of in _attributes(value)
            )
        case _:
            return value


def _attributes(value: object) -> Iterator[str]:
    slots: tuple[str, ...] = getattr(type(value), "__slots__", ())
    yield from slots
    yield from sorted(getattr(value, "__dict__", ()))


def digest(*images: DiskImage) -> bytes:
    """Of what is in the files, whatever they are numbered and when they were changed."""
    summed = blake2b(digest_size=16)
    for image in images:
        for entry in image:
            summed.update(entry.path.encode())
            summed.update(b"/" if entry.content is None else entry.content)
    return summed.digest()
