"""Faults and plans as text."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.model.errors import ConfigError
from tidelog.simulator.conditions import Conditions
from tidelog.simulator.fault_text import parse_fault, parse_timed_fault, timed_fault_text
from tidelog.simulator.faults import Cut, Fault, Kill, PowerCut, TimedFault
from tidelog.simulator.plan import Plan
from tidelog.simulator.scenario_file import parse_plan, plan_text
from tidelog.simulator.swarm import draw_plan

WORDS = st.text("abcdefgh-._/0123456789", min_size=1, max_size=12)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**40), 2**40),
    "str": WORDS,
    "tuple[Pair, ...]": st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3).map(tuple),
}


def faults() -> st.SearchStrategy[Fault]:
    def values(kind: type[Any]) -> st.SearchStrategy[Fault]:
        given = {field.name: VALUES[str(field.type)] for field in fields(kind)}
        return st.fixed_dictionaries(given).map(lambda chosen: kind(**chosen))

    return st.one_of([values(kind) for kind in get_args(Fault)])


TIMED = st.builds(TimedFault, st.integers(0, 10**7), faults())


@given(TIMED)
@settings(max_examples=200, deadline=None)
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
        conditions=st.builds(Conditions, *(st.integers(0, 10**6) for _ in Conditions._fields)),
        faults=st.lists(TIMED, max_size=4).map(tuple),
        dead=st.lists(st.integers(100, 109), max_size=2).map(tuple),
        loss_budget=st.integers(0, 2),
    )
)
@settings(max_examples=100, deadline=None)
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
    ],
)
def test_a_wrong_plan_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_plan(text)
