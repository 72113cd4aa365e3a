"""Regular expressions over topic names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.coordinator.groups.consumer.expressions import Expression, MalformedExpression

names = st.text("abA1._-", max_size=6)
atoms = st.sampled_from(
    ["a", "b", r"\.", ".", "[ab]", "[^a]", r"\d", r"\w", "[a-b1]", "[._-]", "(?:)", "^", "$", "-"]
)
marks = st.sampled_from(["", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"])


def repeated(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(parts, marks).map(
        lambda each: each[0] if each[0] in ("^", "$", "(?:)") else "".join(each)
    )


expressions = st.recursive(
    repeated(atoms),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map("|".join),
        st.tuples(inner, marks).map(lambda each: f"({each[0]}){each[1]}"),
    ),
    max_leaves=8,
)


@given(expressions, names)
@settings(max_examples=examples(400), deadline=None)
def test_names_match_as_they_do_with_other_engines(expression: str, name: str) -> None:
    # Where an other engine's $ also matches before a last line break, names have none.
    assert Expression(expression).matches(name) == (re.fullmatch(expression, name) is not None)


def test_an_expression_that_explodes_elsewhere_is_answered_at_once() -> None:
    assert not Expression("(a+)+(a|a)*b").matches("a" * 249)
    assert Expression("(a*)*(.*)*").matches("a" * 249)


@pytest.mark.parametrize(
    "expression",
    ["(", ")", "a)", "[a", "*", "a**", "a{2,1}", "a{1001}", "(?x)", r"\b", r"\p{L}", "[b-a]",
     "[[:nothing:]]", "\\", "(?P<n", "((a{900}){900})",
     "(" * 10_000 + ")" * 10_000],
)  # fmt: skip
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(MalformedExpression):
        Expression(expression)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("(?i)ORDERS", "orders"),
        ("(?P<kind>orders|bills)-eu", "bills-eu"),
        ("[[:alpha:]]+[[:digit:]]", "abc1"),
        (r"\Aorders\z", "orders"),
        ("[]a]+", "a"),
        (r"[a\-]+", "a-a"),
        ("", ""),
    ],
)
def test_the_syntax_is_that_of_re2(expression: str, name: str) -> None:
    assert Expression(expression).matches(name)
