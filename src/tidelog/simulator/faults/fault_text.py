"""Faults as lines of text: `at 1200 kill node=101 after=-1`.

Invariant  Reading what was written gives the same fault; fields with their default may be left
           out by hand.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any, Final, get_args

from tidelog.model.errors import ConfigError
from tidelog.model.nearest import nearest
from tidelog.simulator.disk.machine_disk import DAMAGED_FILES, DAMAGES, FAILURES, FATES
from tidelog.simulator.faults.faults import Fault, TimedFault
from tidelog.simulator.run.scenario_mistakes import number_in
from tidelog.simulator.world.paths import Pair


def _word(kind: type[Any]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


_KINDS: Final[dict[str, type[Any]]] = {_word(kind): kind for kind in get_args(Fault)}
FAULTS: Final = tuple(_KINDS)
"""The words that faults begin with."""
CHOICES: Final = {
    ("power-cut", "fate"): FATES,
    ("fail-disk", "how"): tuple(FAILURES),
    ("damage", "kind"): tuple(DAMAGED_FILES),
    ("damage", "how"): DAMAGES,
    ("depose", "how"): ("kill", "pause", "cut", "reset"),
}
BOUNDS: Final = {
    "after": (-1, 10**6),
    "write_ms": (0, 10**6),
    "sync_ms": (0, 10**6),
    "latency_ms": (0, 10**6),
    "for_ms": (0, 10**6),
    "loss_ppm": (0, 10**6),
    "bytes_per_s": (1, 10**12),
    "by_ms": (-(10**11), 10**11),
}
"""What a world can make sense of: no more than a few years of clock, of waiting far less."""
_ANY: Final = (-(2**62), 2**62)
LATEST_MS: Final = 10**9


def fault_text(fault: Fault) -> str:
    """The fault in one line: its kind, then its fields."""
    given = [f"{field.name}={_value_text(getattr(fault, field.name))}" for field in fields(fault)]
    return " ".join((_word(type(fault)), *given))


def timed_fault_text(timed: TimedFault) -> str:
    """With the moment before it, in milliseconds."""
    return f"at {timed.at_ms} {fault_text(timed.fault)}"


def parse_timed_fault(line: str) -> TimedFault:
    """The fault of a line; ConfigError tells what is wrong with it."""
    words = line.split()
    if len(words) < 3 or words[0] != "at" or not words[1].isdecimal():
        raise ConfigError(f"{line!r} is not of the form: at MILLISECONDS FAULT [name=value ...]")
    at_ms = number_in(words[1], 0, LATEST_MS)
    return TimedFault(at_ms, parse_fault(" ".join(words[2:])))


def parse_fault(line: str) -> Fault:
    """The fault of a line without a moment."""
    word, *given = line.split()
    kind = _KINDS.get(word)
    if kind is None:
        raise ConfigError(f"there is no fault {word!r}; {nearest(word, _KINDS)}")
    known = {field.name: field for field in fields(kind)}
    values: dict[str, Any] = {}
    for pair in given:
        name, _, text = pair.partition("=")
        if name not in known:
            raise ConfigError(f"{word} has no {name!r}; {nearest(name, known)}")
        if name in values:
            raise ConfigError(f"{word} has {name} twice")
        values[name] = _parse_value(str(known[name].type), name, text)
        choices = CHOICES.get((word, name), (text,))
        if text not in choices:
            raise ConfigError(f"{name}={text}: {name} is one of {', '.join(choices)}")
    missing = [
        name for name, field in known.items() if name not in values and field.default is MISSING
    ]
    if missing:
        raise ConfigError(f"{word} needs {', '.join(missing)}: {word} {missing[0]}=...")
    fault: Fault = kind(**values)
    return fault


def _value_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{one}>{other}" for one, other in value)
    return str(value)


def _parse_value(annotation: str, name: str, text: str) -> int | str | tuple[Pair, ...]:
    if annotation == "str":
        return text
    try:
        if annotation == "int":
            return number_in(text, *BOUNDS.get(name, _ANY))
        return tuple(_parse_pair(each) for each in text.split(",") if text)
    except ConfigError as error:
        raise ConfigError(f"{name}={text}: {error}") from error


def _parse_pair(text: str) -> Pair:
    one, arrow, other = text.partition(">")
    if not (one and arrow and other):
        raise ConfigError(f"{text!r} is not of the form HOST>HOST, as in 100>101")
    return one, other
