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
from tidelog.model.nearest import nearest
from tidelog.simulator.faults.fault_text import LATEST_MS, parse_timed_fault, timed_fault_text
from tidelog.simulator.faults.faults import Fault, TimedFault
from tidelog.simulator.run.command_text import MOST_NODES, check_cluster, check_fault
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.run.scenario_mistakes import ScenarioError, ScenarioMistake, number_in
from tidelog.simulator.world.conditions import EVERYDAY, Conditions

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
_WORDS: Final = (*_NUMBERS, "separate", "dead", "set", "conditions", "at")
_MOST: Final = 10**12
_BOUNDS: Final = {
    "seed": (0, 2**62),
    "brokers": (1, MOST_NODES),
    "controllers": (1, MOST_NODES),
    "faults_ms": (0, LATEST_MS),
    "calm_ms": (0, LATEST_MS),
}


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
    """The plan of a file; ScenarioError tells every line that cannot be understood."""
    return _Reader(text).plan()


def usable_plan(text: str) -> Plan:
    """The same, of a cluster that can be, with faults of its own nodes."""
    reader = _Reader(text)
    plan = reader.plan()
    reader.check(plan)
    return plan


class _Reader:
    """Line by line; never stops at the first mistake."""

    def __init__(self, text: str) -> None:
        self._values: dict[str, Any] = {}
        self._lines: dict[str, int] = {}
        self._settings: list[tuple[str, str]] = []
        self._faults: list[TimedFault] = []
        self._fault_lines: list[int] = []
        self._mistakes: list[ScenarioMistake] = []
        for number, line in enumerate(text.splitlines(), 1):
            try:
                self._read(number, line)
            except ConfigError as error:
                self._wrong(number, error)

    def plan(self) -> Plan:
        """What was read, if all of it could be."""
        if "seed" not in self._values and "seed" not in self._lines:
            self._wrong(1, "a plan needs a line: seed NUMBER")
        self._end()
        return Plan(settings=tuple(self._settings), faults=tuple(self._faults), **self._values)

    def check(self, plan: Plan) -> None:
        """Refuse what names something that is not there."""
        for number, (_, fault) in zip(self._fault_lines, plan.faults, strict=True):
            try:
                check_fault(fault, plan, _clients_in(fault))
            except ConfigError as error:
                self._wrong(number, error)
        for node in plan.dead:
            if node not in plan.node_ids:
                known = ", ".join(map(str, plan.node_ids))
                self._wrong(self._lines["dead"], f"there is no node {node}; there is {known}")
        try:
            check_cluster(plan)
        except ConfigError as error:
            self._wrong(self._lines.get("set", self._lines.get("controllers", 1)), error)
        self._end()

    def _read(self, number: int, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#"):
            return
        if word == "at":
            self._faults.append(parse_timed_fault(line))
            self._fault_lines.append(number)
            return
        if word in self._lines and word != "set":
            raise ConfigError(f"{word} is there already, in line {self._lines[word]}")
        self._lines[word] = number
        match word:
            case "set":
                name, equals, value = (each.strip() for each in rest.partition("="))
                if not equals or not name:
                    raise ConfigError(
                        f"{rest!r} is not name=value, as in set min.insync.replicas=2"
                    )
                self._settings.append((name, value))
            case "conditions":
                self._values["conditions"] = _conditions(rest)
            case "separate":
                self._values["separate"] = True
            case "dead":
                nodes = rest.split(",") if rest else []
                self._values["dead"] = tuple(number_in(each.strip(), 0, _MOST) for each in nodes)
            case _:
                if word not in _NUMBERS:
                    raise ConfigError(f"nobody knows {word!r}; {nearest(word, _WORDS)}")
                self._values[word] = number_in(rest.strip(), *_BOUNDS.get(word, (0, _MOST)))

    def _wrong(self, line: int, what: object) -> None:
        self._mistakes.append(ScenarioMistake(line, str(what)))

    def _end(self) -> None:
        if self._mistakes:
            raise ScenarioError(self._mistakes)


def _clients_in(fault: Fault) -> list[str]:
    """The ends of paths that are no numbers, as no node's name is: clients have names."""
    hosts = (host for pair in getattr(fault, "pairs", ()) for host in pair)
    return [host for host in hosts if not host.isdecimal()]


def _conditions(text: str) -> Conditions:
    given: dict[str, int] = {}
    for pair in text.split():
        name, _, value = pair.partition("=")
        if name not in Conditions._fields:
            raise ConfigError(
                f"there is no condition {name!r}; {nearest(name, Conditions._fields)}"
            )
        given[name] = number_in(value, int(name == "bytes_per_s"), _MOST)
    return Conditions(**given)
