"""Faults and plans as text."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.errors import ConfigError
from tidelog.simulator.faults.fault_text import (
    BOUNDS,
    CHOICES,
    _word,
    parse_fault,
    parse_timed_fault,
    timed_fault_text,
)
from tidelog.simulator.faults.faults import Cut, Fault, Kill, PowerCut, TimedFault
from tidelog.simulator.faults.swarm import draw_plan
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.run.scenario_file import parse_plan, plan_text, usable_plan
from tidelog.simulator.world.conditions import Conditions

WORDS = st.text("abcdefgh-._/0123456789", min_size=1, max_size=12)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**40), 2**40),
    "str": WORDS,
    "tuple[Pair, ...]": st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3).map(tuple),
}


def faults() -> st.SearchStrategy[Fault]:
    def value(kind: type[Any], name: str, annotation: str) -> st.SearchStrategy[Any]:
        if (choices := CHOICES.get((_word(kind), name))) is not None:
            return st.sampled_from(choices)
        return st.integers(*BOUNDS[name]) if name in BOUNDS else VALUES[annotation]

    def values(kind: type[Any]) -> st.SearchStrategy[Fault]:
        given = {each.name: value(kind, each.name, str(each.type)) for each in fields(kind)}
        return st.fixed_dictionaries(given).map(lambda chosen: kind(**chosen))

    return st.one_of([values(kind) for kind in get_args(Fault)])


TIMED = st.builds(TimedFault, st.integers(0, 10**7), faults())


@given(TIMED)
@settings(max_examples=examples(200), deadline=None)
def test_a_fault_survives_being_written_and_read(timed: TimedFault) -> None:
    assert parse_timed_fault(timed_fault_text(timed)) == timed


def test_fields_with_a_default_may_be_left_out() -> None:
    assert parse_fault("kill node=101") == Kill(node=101)
    assert parse_fault("power-cut node=101 after=3") == PowerCut(node=101, after=3)
    assert parse_fault("cut pairs=100>101,101>100") == Cut(pairs=(("100", "101"), ("101", "100")))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("kill node=101", "at MILLISECONDS FAULT"),
        ("at soon kill node=101", "at MILLISECONDS FAULT"),
        ("at 5 explode node=101", "no fault 'explode'"),
        ("at 5 kill", "kill needs node"),
        ("at 5 kill node=x", "node=x"),
        ("at 5 kill mode=101", "kill has no 'mode'"),
        ("at 5 cut pairs=100", "HOST>HOST"),
        ("at 5 kil node=101", "there is no fault 'kil'; did you mean kill?"),
        ("at 5 fail-disk node=101 how=melt", "how is one of full, write, read, sync"),
        ("at 5 power-cut node=101 fate=bad", "fate is one of drawn, lost, kept"),
        ("at 5 depose how=politely", "how is one of kill, pause, cut, reset"),
        ("at 5 kill node=101 node=102", "kill has node twice"),
        ("at 5 jump-clock node=101 by_ms=999999999999999", "not a whole number from"),
    ],
)
def test_a_wrong_line_is_refused_in_words(line: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_timed_fault(line)


@given(
    st.builds(
        Plan,
        seed=st.integers(0, 2**62),
        brokers=st.integers(1, 9),
        settings=st.lists(st.tuples(WORDS, WORDS), max_size=3).map(tuple),
        conditions=st.builds(Conditions, *(st.integers(1, 10**6) for _ in Conditions._fields)),
        faults=st.lists(TIMED, max_size=4).map(tuple),
        dead=st.lists(st.integers(100, 109), max_size=2).map(tuple),
        loss_budget=st.integers(0, 2),
    )
)
@settings(max_examples=examples(100), deadline=None)
def test_a_plan_survives_being_written_and_read(plan: Plan) -> None:
    assert parse_plan(plan_text(plan)) == plan


@pytest.mark.parametrize("seed", range(20))
def test_every_drawn_plan_can_be_written_down(seed: int) -> None:
    plan = draw_plan(seed)

    assert parse_plan(plan_text(plan)) == plan


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("brokers 3", "needs a line: seed"),
        ("seed 1\nweather bad", "line 2: nobody knows 'weather'"),
        ("seed many", "line 1"),
        ("seed 1\nconditions rain=1", "line 2: there is no condition 'rain'"),
        ("seed 1\n\n# a remark\nat 1 kill", "line 4: kill needs node"),
        ("seed 1\nbroker 3", "line 2: nobody knows 'broker'; did you mean brokers?"),
        ("seed 1\nbrokers 0", "line 2: '0' is not a whole number from 1 to 9"),
        ("seed 1\nseed 2", "line 2: seed is there already, in line 1"),
        ("seed 1\nset x", "line 2: 'x' is not name=value"),
        ("seed 1\nconditions latency=1", "line 2: .* did you mean latency_us?"),
    ],
)
def test_a_wrong_plan_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_plan(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("seed 1\nat 5 kill node=103", "line 2: there is no node '103'; there is 100, 101, 102"),
        ("seed 1\nat 5 cut pairs=100>109", "line 2: there is no node '109'"),
        ("seed 1\ndead 7", "line 2: there is no node 7"),
        ("seed 1\nset no.such=1", "line 2: Unknown setting no.such"),
        ("seed 1\nset node.id=7", "line 2: node.id is the simulator's own"),
        ("seed 1\nbrokers 1\ncontrollers 3", "line 3: of 1 brokers no 3 can be controllers"),
        ("seed 1\nat 5 kill node=9\nat 6 kill node=8", "line 2: .*\nline 3: "),
    ],
)
def test_a_plan_for_nodes_that_are_not_there_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        usable_plan(text)
    with pytest.raises(ConfigError):
        usable_plan(f"{text}\nnonsense")


def test_paths_of_clients_are_no_mistake() -> None:
    assert usable_plan("seed 1\nat 5 cut pairs=producer-1>100").faults
