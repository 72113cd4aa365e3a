"""The commands of a transcript as text, checked before any of them is carried out.

Invariant  What passes can be carried out: every word is known, every number is one, every node is
           one of the cluster. What the cluster makes of it is part of the story.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tidelog.model.errors import ConfigError
from tidelog.model.nearest import nearest
from tidelog.simulator.faults.fault_text import FAULTS, parse_fault
from tidelog.simulator.faults.faults import Fault
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.run.scenario_mistakes import ScenarioError, ScenarioMistake, number_in
from tidelog.simulator.world.cluster import FIRST_NODE, node_config

COMMAND: Final = "> "
COMMENT: Final = "#"
NARRATOR: Final = "narrator"
"""The name of the client, where a path begins or ends at it."""
MOST_NODES: Final = 9
LONGEST_MS: Final = 3_600_000
_MOST_OFFSET: Final = 2**62
_OWN_SETTINGS: Final = ("process.roles", "node.id", "listeners", "log.dirs")
_CLUSTER: Final = "cluster"


class Command(NamedTuple):
    """One line, taken apart."""

    line: int
    word: str
    plain: tuple[str, ...]
    named: dict[str, str]
    fault: Fault | None = None
    """What is done to the world, where the command is a fault."""


Check = Callable[[str, Plan | None], object]


class _Form(NamedTuple):
    """What may stand behind a word."""

    example: str
    plain: tuple[tuple[str, Check], ...] = ()
    needed: Mapping[str, Check] = MappingProxyType({})
    allowed: Mapping[str, Check] = MappingProxyType({})
    settings: bool = False
    """Whether any other name is a setting."""


def _number(low: int, high: int) -> Check:
    return lambda text, _: number_in(text, low, high)


def _one_of(*choices: str) -> Check:
    def check(text: str, _: Plan | None) -> None:
        if text not in choices:
            raise ConfigError(f"{text!r} is not one of {', '.join(choices)}")

    return check


def _text(text: str, _: Plan | None) -> None:
    if not text:
        raise ConfigError("nothing is no value")


def _broker(text: str, plan: Plan | None) -> None:
    _known(text, () if plan is None else plan.broker_ids, "broker")


def _brokers(text: str, plan: Plan | None) -> None:
    named = text.split(",")
    for each in named:
        _broker(each, plan)
    if len(set(named)) != len(named):
        raise ConfigError(f"{text!r} names a broker twice")


def _known(text: str, nodes: Iterable[int], kind: str = "node") -> None:
    known = list(map(str, nodes))
    if text not in known:
        raise ConfigError(f"there is no {kind} {text!r}; there is {', '.join(known)}")


_TOPIC: Final = (("TOPIC", _text),)
_OFFSET: Final = _number(-1, _MOST_OFFSET)
_FORMS: Final = {
    _CLUSTER: _Form(
        "cluster brokers=3 min.insync.replicas=2",
        allowed={
            "seed": _number(0, 2**62),
            "brokers": _number(1, MOST_NODES),
            "controllers": _number(1, MOST_NODES),
            "separate": _one_of("yes", "no"),
        },
        settings=True,
    ),
    "topic": _Form(
        "topic orders replicas=101,100,102",
        _TOPIC,
        {"replicas": _brokers},
        {"to": _broker},
        settings=True,
    ),
    "produce": _Form(
        "produce orders to=101 acks=all values=a,b",
        _TOPIC,
        {"to": _broker, "acks": _one_of("all", "-1", "0", "1"), "values": _text},
    ),
    "fetch": _Form("fetch orders from=101 offset=0", _TOPIC, {"from": _broker, "offset": _OFFSET}),
    "latest": _Form("latest orders from=101", _TOPIC, {"from": _broker}),
    "delete": _Form("delete orders to=101 before=3", _TOPIC, {"to": _broker, "before": _OFFSET}),
    "elect": _Form("elect", allowed={"to": _broker}),
    "reassign": _Form(
        "reassign orders replicas=101,102", _TOPIC, {"replicas": _brokers}, {"to": _broker}
    ),
    "pass": _Form("pass 500", (("MILLISECONDS", _number(0, LONGEST_MS)),)),
    "show": _Form("show orders", _TOPIC),
}


def parse_commands(text: str) -> list[Command]:
    """The commands of a transcript; ScenarioError with all mistakes."""
    commands: list[Command] = []
    mistakes: list[ScenarioMistake] = []
    plan: Plan | None = None
    begun = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith(COMMAND.strip()):
            continue
        try:
            command = _command(number, line, plan)
            if (command.word == _CLUSTER) == begun:
                raise ConfigError(
                    "a story has one cluster: begin another file"
                    if begun
                    else f"the first command is cluster, as in {COMMAND}{_FORMS[_CLUSTER].example}"
                )
            plan = cluster_plan(command) if command.word == _CLUSTER else plan
            commands.append(command)
        except ConfigError as error:
            mistakes.append(ScenarioMistake(number, f"{line}: {error}"))
        begun = True  # one word about a missing cluster is enough
        if plan is None and mistakes:
            break  # whether other lines make sense depends on the cluster
    if mistakes:
        raise ScenarioError(mistakes)
    return commands


def cluster_plan(command: Command) -> Plan:
    """The plan of a story's cluster, with settings that its nodes can have."""
    named = dict(command.named)
    plan = Plan(
        seed=int(named.pop("seed", "1")),
        brokers=int(named.pop("brokers", "3")),
        controllers=int(named.pop("controllers", "1")),
        separate=named.pop("separate", "no") == "yes",
        settings=tuple(named.items()),
    )
    check_cluster(plan)
    return plan


def check_cluster(plan: Plan) -> None:
    """Refuse a cluster that cannot be, or nodes that cannot have these settings."""
    if not plan.separate and plan.controllers > plan.brokers:
        raise ConfigError(
            f"of {plan.brokers} brokers no {plan.controllers} can be controllers; "
            "separate=yes lets them be nodes of their own"
        )
    for name, _ in plan.settings:
        if name in _OWN_SETTINGS:
            raise ConfigError(f"{name} is the simulator's own and cannot be set")
    node_config(FIRST_NODE, dict(plan.settings), plan.controller_ids)


def check_fault(fault: Fault, plan: Plan, hosts: Iterable[str] = ()) -> None:
    """Refuse a fault of a node, or of a path, that is not there; `hosts` are not nodes."""
    node = getattr(fault, "node", None)
    if node is not None:
        _known(str(node), plan.node_ids)
    others = tuple(hosts)
    for pair in getattr(fault, "pairs", ()):
        for host in pair:
            if host not in others:
                _known(host, plan.node_ids)


def _command(number: int, line: str, plan: Plan | None) -> Command:
    if not line.startswith(COMMAND):
        raise ConfigError(f"a command begins with {COMMAND!r}, with a space behind it")
    word, *rest = line.removeprefix(COMMAND).split() or [""]
    if word in FAULTS:
        if plan is None:
            return Command(number, word, (), {})
        fault = parse_fault(" ".join((word, *rest)))
        check_fault(fault, plan, (NARRATOR,))
        return Command(number, word, (), {}, fault)
    form = _FORMS.get(word)
    if form is None:
        raise ConfigError(f"there is no command {word!r}; {nearest(word, (*_FORMS, *FAULTS))}")
    named: dict[str, str] = {}
    for name, value in (each.split("=", 1) for each in rest if "=" in each):
        if name in named:
            raise ConfigError(f"{name} is given twice")
        named[name] = value
    command = Command(number, word, tuple(each for each in rest if "=" not in each), named)
    if plan is not None or word == _CLUSTER:
        _check_form(command, form, plan)
    return command


def _check_form(command: Command, form: _Form, plan: Plan | None) -> None:
    example = f"as in {COMMAND}{form.example}"
    if len(command.plain) != len(form.plain):
        wanted = " ".join(name for name, _ in form.plain) or "nothing without a ="
        raise ConfigError(f"{command.word} takes {wanted}, {example}")
    known = {**form.needed, **form.allowed}
    for name, value in command.named.items():
        if name not in known and not form.settings:
            raise ConfigError(f"{command.word} has no {name!r}; {nearest(name, known)}")
        if name in known:
            _check_value(name, value, known[name], plan)
    for (name, check), value in zip(form.plain, command.plain, strict=True):
        _check_value(name, value, check, plan)
    missing = [name for name in form.needed if name not in command.named]
    if missing:
        raise ConfigError(f"{command.word} needs {', '.join(missing)}, {example}")


def _check_value(name: str, value: str, check: Check, plan: Plan | None) -> None:
    try:
        check(value, plan)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
