"""Promises: settled once, heard in order, put together."""

from __future__ import annotations

import pytest

from tidelog.model.errors import InvariantBroken
from tidelog.node.core.promise import Promise, all_of


def test_those_who_wait_hear_the_value_in_the_order_in_which_they_came() -> None:
    promise: Promise[int] = Promise()
    heard: list[tuple[str, int]] = []
    promise.then(lambda value: heard.append(("first", value)))
    promise.then(lambda value: heard.append(("second", value)))
    assert (heard, promise.is_settled) == ([], False)
    promise.settle(7)
    assert (heard, promise.is_settled) == ([("first", 7), ("second", 7)], True)


def test_who_comes_late_hears_the_value_at_once() -> None:
    promise: Promise[int] = Promise()
    heard: list[int] = []
    promise.settle(7)
    promise.then(heard.append)
    assert heard == [7]


def test_a_promise_is_settled_once() -> None:
    promise: Promise[int] = Promise()
    promise.settle(7)
    with pytest.raises(InvariantBroken):
        promise.settle(7)


def test_what_becomes_of_a_value_is_decided_when_it_is_known() -> None:
    promise: Promise[int] = Promise()
    factor = 1
    product = promise.map(lambda value: value * factor)
    heard: list[int] = []
    product.then(heard.append)
    factor = 3
    promise.settle(7)
    factor = 5
    product.then(heard.append)
    assert heard == [21, 21]


def test_all_values_come_together_in_the_order_of_their_promises() -> None:
    promises: list[Promise[str]] = [Promise() for _ in range(3)]
    heard: list[list[str]] = []
    all_of(promises).then(heard.append)
    promises[2].settle("c")
    promises[0].settle("a")
    assert heard == []
    promises[1].settle("b")
    assert heard == [["a", "b", "c"]]


def test_where_nothing_is_promised_everything_is_known() -> None:
    nothing: list[Promise[str]] = []
    assert all_of(nothing).is_settled
