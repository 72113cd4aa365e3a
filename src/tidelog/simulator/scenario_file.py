"""A plan as a text file: what a failing seed is reduced to, and what can be written by hand.

    seed 42
    brokers 3
    set replica.lag.time.max.ms=2000
    conditions latency_us=200 jitter_us=500
    faults_ms 20000
    at 4000 kill node=101
    at 9000 start node=101

Invariant  Reading what was written gives an equal plan. A line that starts with # says nothing.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from tidelog.model.errors import ConfigError
from tidelog.simulator.conditions import EVERYDAY, Conditions
from tidelog.simulator.fault_text import parse_timed_fault, timed_fault_text
from tidelog.simulator.faults import TimedFault
from tidelog.simulator.plan import Plan

_NUMBERS: Final = (
    "seed",
    "brokers",
    "controllers",
    "directories",
    "faults_ms",
    "calm_ms",
    "loss_budget",
    "events_most",
)


def plan_text(plan: Plan) -> str:
    """The plan, line by line; what has its default is left out."""
    usual = {field.name: field.default for field in fields(Plan)}
    lines = [
        f"{name} {getattr(plan, name)}" for name in _NUMBERS if getattr(plan, name) != usual[name]
    ]
    if plan.separate:
        lines.append("separate")
    if plan.dead:
        lines.append(f"dead {','.join(map(str, plan.dead))}")
    lines += (f"set {name}={value}" for name, value in plan.settings)
    unusual = [
        f"{name}={value}"
        for name, value in plan.conditions._asdict().items()
        if value != getattr(EVERYDAY, name)
    ]
    if unusual:
        lines.append(f"conditions {' '.join(unusual)}")
    lines += map(timed_fault_text, plan.faults)
    return "\n".join(lines) + "\n"


def parse_plan(text: str) -> Plan:
    """The plan of a file; ConfigError tells the line that cannot be understood."""
    values: dict[str, Any] = {}
    settings: list[tuple[str, str]] = []
    faults: list[TimedFault] = []
    for number, line in enumerate(text.splitlines(), 1):
        word, _, rest = line.strip().partition(" ")
        try:
            match word:
                case "" | "#":
                    pass
                case "at":
                    faults.append(parse_timed_fault(line))
                case "set":
                    name, _, value = rest.partition("=")
                    settings.append((name.strip(), value.strip()))
                case "conditions":
                    values["conditions"] = _conditions(rest)
                case "separate":
                    values["separate"] = True
                case "dead":
                    values["dead"] = tuple(int(node) for node in rest.split(","))
                case _:
                    if word not in _NUMBERS:
                        raise ConfigError(f"nobody knows {word!r}")
                    values[word] = int(rest)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"line {number}: {error}") from error
    if "seed" not in values:
        raise ConfigError("a plan needs a line: seed NUMBER")
    return Plan(settings=tuple(settings), faults=tuple(faults), **values)


def _conditions(text: str) -> Conditions:
    given: dict[str, int] = {}
    for pair in text.split():
        name, _, value = pair.partition("=")
        if name not in Conditions._fields:
            raise ConfigError(f"there is no condition {name!r}")
        given[name] = int(value)
    return Conditions(**given)
