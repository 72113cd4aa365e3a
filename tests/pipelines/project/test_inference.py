"""Columns that nobody declared: found in records, pinned, and only ever added to."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pipelines.conftest import Describe

from tidelog.pipelines.description.column_flow import columns_of
from tidelog.pipelines.description.reading import Reading
from tidelog.pipelines.description.spec import Column
from tidelog.pipelines.description.sql_text import column_of
from tidelog.pipelines.project.inference import columns_in
from tidelog.pipelines.project.pinned import pin_columns, pinned_columns

INFERRED = "name: x\ntables: {a: {topics: o, decode: {format: json}, rules: {r: later > 0}}}"


def types(*values: Any) -> dict[str, str]:
    found = columns_in(json.dumps(each).encode() for each in values)
    return {each.name: each.type for each in found}


def test_types_are_those_that_hold_every_record() -> None:
    assert types({"a": 1, "b": "x", "c": True, "d": None}, {"a": 1.5, "d": 2, "e": 2**70}) == {
        "a": "double", "b": "string", "c": "boolean", "d": "bigint", "e": "double",
    }  # fmt: skip
    assert types({"a": 1}, {"a": "x"}, {"a": True}) == {"a": "string"}
    assert types({"a": {"b": 1}}, {"a": {"c": [1, None]}}) == {
        "a": "struct<`b`:bigint,`c`:array<bigint>>"
    }
    assert types({"a": {}, "b": []}) == {"a": "string", "b": "array<string>"}


def test_what_is_no_object_is_passed_over() -> None:
    assert columns_in([b"nonsense", None, b"[1]", b"5", b"\xff"]) == ()


def test_names_that_differ_in_case_are_one_column() -> None:
    assert types({"Id": 1}, {"id": 2.5}) == {"Id": "double"}


def test_names_that_no_column_can_have_are_passed_over() -> None:
    found = types(
        {"": 1, "a`b": 1, "_Offset": 1, "_OUTCOME": 1, "_corrupt": 1, "b": {"": 1, "c": 1}}
    )
    assert found == {"b": "struct<`c`:bigint>"}


def nested(levels: int) -> bytes:
    return b'{"a": ' * levels + b"1" + b"}" * levels


def test_a_record_that_is_nested_too_deep_is_passed_over() -> None:
    assert columns_in([nested(100_000), b'{"a": ' + b"[" * 5000, b'{"id": 1}']) == (
        Column("id", "bigint"),
    )
    assert columns_in([nested(21), b'{"a":' + b"[" * 20 + b"]" * 20 + b"}"]) == ()
    (deepest,) = columns_in([nested(20)])
    assert column_of(deepest.name, deepest.type).name == "a"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("xyz"), JSON_VALUES, max_size=3), max_size=4))
def test_every_inferred_type_is_a_type_of_sql(records: list[dict[str, Any]]) -> None:
    for name, text in types(*records).items():
        assert column_of(name, text).name == name


def test_a_pinned_column_keeps_its_type_and_new_ones_are_added_behind(describe: Describe) -> None:
    pipeline = describe(INFERRED)
    assert pinned_columns(pipeline, "a") is None
    assert pin_columns(pipeline, "a", (Column("id", "bigint"),)) == [Column("id", "bigint")]
    found = (Column("new", "string"), Column("ID", "string"))
    assert pin_columns(pipeline, "a", found) == [Column("new", "string")]
    assert pinned_columns(pipeline, "a") == (Column("id", "bigint"), Column("new", "string"))


def test_columns_are_checked_once_they_are_pinned(describe: Describe) -> None:
    pipeline = describe(INFERRED)
    pin_columns(pipeline, "a", (Column("id", "bigint"),))
    reading = Reading()
    assert columns_of(reading, pipeline, "a") == {"id": "bigint"}
    (mistake,) = reading.mistakes
    assert mistake.text == "there is no column later here; there is id"
