"""Faults as lines of text: `at 1200 kill node=101 after=-1`.

Invariant  Reading what was written gives the same fault; fields with their default may be left
           out by hand.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any, Final, get_args

from tidelog.model.errors import ConfigError
from tidelog.simulator.faults import Fault, TimedFault
from tidelog.simulator.paths import Pair


def _word(kind: type[Any]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


_KINDS: Final[dict[str, type[Any]]] = {_word(kind): kind for kind in get_args(Fault)}


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
    return TimedFault(int(words[1]), parse_fault(" ".join(words[2:])))


def parse_fault(line: str) -> Fault:
    """The fault of a line without a moment."""
    word, *given = line.split()
    kind = _KINDS.get(word)
    if kind is None:
        raise ConfigError(f"there is no fault {word!r}; there are {', '.join(_KINDS)}")
    known = {field.name: field for field in fields(kind)}
    values: dict[str, Any] = {}
    for pair in given:
        name, _, text = pair.partition("=")
        if name not in known:
            raise ConfigError(f"{word} has no {name!r}; it has {', '.join(known) or 'nothing'}")
        values[name] = _parse_value(str(known[name].type), text, pair)
    missing = [
        name for name, field in known.items() if name not in values and field.default is MISSING
    ]
    if missing:
        raise ConfigError(f"{word} needs {', '.join(missing)}")
    fault: Fault = kind(**values)
    return fault


def _value_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{one}>{other}" for one, other in value)
    return str(value)


def _parse_value(annotation: str, text: str, pair: str) -> int | str | tuple[Pair, ...]:
    if annotation == "str":
        return text
    try:
        if annotation == "int":
            return int(text)
        return tuple(_parse_pair(each) for each in text.split(",") if each)
    except ValueError as error:
        raise ConfigError(f"{pair!r}: {error}") from error


def _parse_pair(text: str) -> Pair:
    one, arrow, other = text.partition(">")
    if not (one and arrow and other):
        raise ValueError(f"{text!r} is not of the form HOST>HOST")
    return one, other
