"""What is wrong with a description is said with its line, all at once, before Spark starts."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.pipelines.conftest import Describe, Mistakes

from tidelog.model.errors import TidelogError
from tidelog.pipelines.description.example import write_example
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.parsing import load_pipeline
from tidelog.pipelines.description.picture import as_mermaid, as_text
from tidelog.pipelines.description.spec import Column, DecodeFormat, TableOutput, TopicOutput, With
from tidelog.pipelines.description.sql_text import alias_of, column_of
from tidelog.pipelines.project.project import table_source
from tidelog.pipelines.project.transformation import transformation_source

ORDERS = """
name: shop
tables:
  bronze:
    topics: orders
    decode:
      format: json
      schema: {order_id: bigint not null, amount: double, tags: array<string>}
"""


def test_the_example_is_a_pipeline_without_mistakes(tmp_path: Path) -> None:
    write_example(tmp_path / "my-shop", "127.0.0.1:9092")
    found = load_pipeline(tmp_path / "my-shop")
    assert found.name == "my_shop"
    assert list(found.tables) == ["bronze", "silver"]
    assert list(found.views) == ["daily_revenue"]


def test_an_example_is_not_written_over_something(tmp_path: Path) -> None:
    (tmp_path / "work.txt").write_text("mine")
    with pytest.raises(PipelineTrouble, match="not empty"):
        write_example(tmp_path, "127.0.0.1:9092")


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(PipelineTrouble, match="pipelines init"):
        load_pipeline(tmp_path)


def test_a_description_becomes_values(describe: Describe) -> None:
    found = describe(
        ORDERS
        + """
  silver:
    from: bronze
    steps:
      - with: {day: to_date(_timestamp)}
    rules: {amount is positive: amount > 0}
    partition_by: day
  back:
    from: silver
    to_topic: {topic: clean, key: cast(order_id as string)}
max_offsets_per_batch: 500
"""
    )
    bronze, silver, back = found.tables.values()
    assert bronze.decode is not None and bronze.decode.format is DecodeFormat.JSON
    assert bronze.decode.columns == (
        Column("order_id", "bigint", required=True),
        Column("amount", "double"),
        Column("tags", "array<string>"),
    )
    assert [type(each) for each in silver.steps] == [With]
    assert silver.output == TableOutput(partition_by=("day",), line=silver.output.line)
    assert isinstance(back.output, TopicOutput) and back.output.topic == "clean"
    assert [each.name for each in found.lineage("back")] == ["bronze", "silver", "back"]
    assert found.source("back").topics == ("orders",)
    assert found.max_offsets_per_batch == 500


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: x\ntabels: {}\ntables: {}", "2: a pipeline has no key tabels; did you mean tables"),
        ("name: x\nname: y\ntables: {}", "2: name is given twice"),
        ("name: [", "1: not YAML: expected the node content, but found '<stream end>'"),
        ("tables: {}", "1: a pipeline needs name"),
        ("name: x\n\x01: y", "2: not YAML: there is a character #x0001, which nobody can see"),
        ("name: &me [*me]", "1: not a tree: something is within itself"),
        ("name: x\nbootstrap: nowhere\ntables: {}", "2: bootstrap: 'nowhere' is not"),
        ("name: x\ntables:\n  A-1: {topics: o}", "3: A-1 is no name for a table"),
        ("name: x\ntables:\n  a:\n    topics: o\n    start: soon", "5: start: 'soon' is not"),
    ],
)
def test_a_mistake_has_a_line_and_a_fix(mistakes: Mistakes, text: str, expected: str) -> None:
    assert any(each.startswith(expected) for each in mistakes(text)), mistakes(text)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("topic: orders", "table a has no key topic; did you mean topics?"),
        ("pattern: '('", "pattern is not a regular expression"),
        ("topics: o, pattern: o", "table a needs one of topics, pattern"),
        ("topics: o, decode: jsn", "the format of decode is one of json"),
        ("topics: o, decode: csv", "schema is name: type for every column"),
        ("topics: o, decode: {format: text, delimiter: x}", "delimiter has no meaning when text"),
        ("topics: o, on_data_loss: go on", "on_data_loss is one of fail, go_on, not 'go on'"),
        ("from: b, on_data_loss: fail", "on_data_loss belongs to b, which reads the topic"),
        ("from: b", "there is no table b; there is none"),
        ("from: a", "a from a goes in a circle"),
        ("topics: o, format: delt", "format is one of delta, parquet"),
        ("topics: o, format: parquet, compact_files: 8", "files of a Parquet table cannot be"),
        ("topics: o, compact_files: 0", "compact_files is a number from 1"),
        ("topics: o, steps: [{wher: a}]", "a step has no key wher; did you mean where?"),
        ("topics: o, to_topic: b, format: delta", "format has no meaning"),
        ("topics: [o, p], to_topic: p", "a would read what it writes to p, for ever"),
        ("pattern: 'o.*', to_topic: {topic: out}", "a would read what it writes to out, for ever"),
        ("topics: o, decode: {format: avro}", "avro needs schema_file"),
        ("topics: o, decode: {format: json, schema: {a: int, A: int}}", "A is there already"),
    ],
)
def test_a_mistake_in_a_table_says_what_there_is(
    mistakes: Mistakes, table: str, expected: str
) -> None:
    found = mistakes(f"name: x\ntables:\n  a: {{{table}}}")
    assert any(each.startswith(f"3: {expected}") for each in found), found


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("    steps: [{where: amont > 0}]", "there is no column amont here; did you mean amount?"),
        ("    rules: {r: amount >}", "not SQL: amount >"),
        ("    rules: {r: sum(amount) > 1}", "sum(amount) is an aggregate"),
        ("    rules: {r: explode(tags) = 'a'}", "explode(tags) makes several rows of one"),
        (
            "    rules: {r: inline_outer(tags) = 'a'}",
            "inline_outer(tags) makes several rows of one",
        ),
        ("    steps: [{select: [amount, 1 AS Amount]}]", "Amount is selected twice"),
        ("    steps: [{select: [amount * 2]}]", "amount * 2 needs a name"),
        ("    steps: [{with: {_offset: '1'}}]", "_offset is a column of ours"),
        ("    steps: [{with: {_Offset: '1'}}]", "_Offset is a column of ours"),
        (
            "    steps: [{select: [order_id]}, {where: amount > 0}]",
            "there is no column amount here",
        ),
        ("    partition_by: dy", "there is no column dy here"),
        ("    steps: [{python: 'steps.py:f', returns: {x: int}}]", "there is no file steps.py"),
        ("    steps: [{python: 'steps.py:f'}]", "a python step says which columns it sets"),
        ("    steps: [{where: a, with: {b: c}}]", "a step is one of with, where, select, python"),
        ("views: {v: {sql: SELECT * FROM bronz}}", "there is no table bronz; did you mean bronze?"),
        ("views: {v: {sql: DROP TABLE bronze}}", "not a query"),
        ("views: {bronze: {sql: SELECT 1}}", "bronze is a table already"),
        (
            "views: {bronze_quarantine: {sql: SELECT 1}}",
            "8: bronze_quarantine is the quarantine of table bronze already",
        ),
        (
            "  bronze_quarantine: {from: bronze}",
            "8: bronze_quarantine is the quarantine of table bronze already",
        ),
    ],
)
def test_unknown_columns_and_wrong_sql_are_found(
    mistakes: Mistakes, more: str, expected: str
) -> None:
    found = mistakes(ORDERS + more)
    assert any(expected in each for each in found), found


@pytest.mark.parametrize(
    ("selected", "name", "expression"),
    [
        ("'O''Brien' AS name", "name", "'O''Brien'"),
        ("date_format(at, 'yyyy') `The Year`", "The Year", "date_format(at, 'yyyy')"),
        ("cast(amount  as INTEGER) as whole -- euros", "whole", "cast(amount  as INTEGER)"),
        ("'é' /* as x */ AS accent;", "accent", "'é' /* as x */"),
        ("amount", "amount", "amount"),
    ],
)
def test_a_selected_expression_reaches_spark_as_it_was_written(
    selected: str, name: str, expression: str
) -> None:
    assert alias_of(selected) == (name, expression)


def test_the_sql_of_a_description_is_in_the_generated_project_unchanged(describe: Describe) -> None:
    same = "if(nvl(tags[0], '') = 'O''Brien', 1, 2)"
    more = f"""
    steps:
      - select: ["{same} AS x", tags]
      - with: {{y: "{same} + 1"}}
      - where: "{same} > 1"
    rules: {{r: "{same} < 3"}}
"""
    source = transformation_source(describe(ORDERS + more), "bronze")
    for expression in (same, f"{same} + 1", f"{same} > 1", f"{same} < 3"):
        assert repr(expression) in source


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("STRUCT<Name: TEXT, `odd Name`: long>", "struct<Name: string, `odd Name`: bigint>"),
        ("array<struct<A: decimal(10,2)>>", "array<struct<A: decimal(10, 2)>>"),
        ("map<string, struct<A int not null>>", "map<string, struct<A: int not null>>"),
        ("struct<A: struct<B: int not null>>", "struct<A: struct<B: int not null>>"),
    ],
)
def test_fields_of_a_struct_keep_their_case_by_which_json_tells_them(
    given: str, expected: str
) -> None:
    assert column_of("c", given).type == expected


def test_a_type_that_does_not_exist_is_refused(mistakes: Mistakes) -> None:
    (found,) = mistakes(ORDERS.replace("double", "dubble"))
    assert found == "7: there is no type dubble; did you mean double?"
    (found,) = mistakes(ORDERS.replace("double", "money"))
    assert found.startswith("7: there is no type money; there is boolean")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("bigint not nul", "not nul cannot stand behind the type bigint; did you mean bigint not"),
        ("bigint nt null", "nt null cannot stand behind the type bigint; did you mean bigint not"),
        ("bigint null", "null cannot stand behind the type bigint; bigint alone may be null"),
        ("string collate x", "collate x cannot stand behind the type string; not null may"),
        ("'array<int> not nul'", "not nul cannot stand behind the type array<int>; did you mean"),
        ("'struct<a: int not nul>'", "struct<a: int not nul> is not a type"),
        ("'array<int nul>'", "array<int nul> is not a type"),
        ("'struct<a: int primary key>'", "struct<a: int primary key> is not a type"),
        ("'map<string>'", "map<string> is not a type"),
        ("'struct<int>'", "struct<int> is not a type"),
        ("'decimal(10,2,3)'", "there is no type decimal(10,2,3)"),
    ],
)
def test_a_word_behind_a_type_does_not_vanish(
    mistakes: Mistakes, given: str, expected: str
) -> None:
    (found,) = mistakes(ORDERS.replace("bigint not null", given))
    assert found.startswith(f"7: {expected}")


@pytest.mark.parametrize("given", ["bigint NOT NULL", "bigint  not  null", "'bigint not null '"])
def test_a_required_column_may_be_written_in_several_ways(describe: Describe, given: str) -> None:
    decode = describe(ORDERS.replace("bigint not null", given)).tables["bronze"].decode
    assert decode is not None and decode.columns is not None
    assert decode.columns[0] == Column("order_id", "bigint", required=True)


SECURED = """
name: shop
client: {security.protocol: sasl_ssl}
tables:
  a: {topics: o, decode: text, to_topic: TARGET}
"""


def test_delivery_to_a_topic_can_be_weakened(describe: Describe) -> None:
    pipeline = describe(SECURED.replace("TARGET", "{topic: p, delivery: at-least-once}"))
    assert "'delivery': 'at-least-once'" in table_source(pipeline, pipeline.tables["a"])
    pipeline = describe(SECURED.replace("TARGET", "p"))
    assert "'delivery': 'exactly-once'" in table_source(pipeline, pipeline.tables["a"])


def test_all_mistakes_are_told_at_once(mistakes: Mistakes) -> None:
    found = mistakes(ORDERS.replace("double", "dubble") + "    rule: {}\nviws: {}\n")
    assert [each.split(":")[0] for each in found] == ["7", "8", "9"]


def test_a_python_step_must_be_a_function_of_the_file(mistakes: Mistakes, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("def enrich(row): return row\n")
    more = "    steps: [{python: 'steps.py:enrch', returns: {x: int}}]"
    (found,) = mistakes(ORDERS + more)
    assert found.endswith("steps.py has no function enrch; did you mean enrich?")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import nosuch_module_of_mine", "there is no module nosuch_module_of_mine: install it"),
        ("import jsn", "there is no module jsn; did you mean json?"),
        ("from os.pth import join", "there is no module os.pth"),
        ("import xml.etre.ElementTree", "there is no module xml.etre; did you mean xml.etree?"),
        ("import helpers", "helpers.py beside it does not travel with it"),
        ("from . import helpers", ". is no package here"),
        ("class C:\n  def f(self):\n    import nosuch_one", "there is no module nosuch_one"),
        ("x = = 1", "invalid syntax"),
        ("\0", "source code string cannot contain null bytes"),
    ],
)
def test_a_python_file_that_cannot_be_loaded_is_found_before_it_is(
    mistakes: Mistakes, tmp_path: Path, line: str, expected: str
) -> None:
    (tmp_path / "helpers.py").write_text("")
    (tmp_path / "steps.py").write_text(f"import json\ndef enrich(row): return row\n{line}\n")
    more = "    steps: [{python: 'steps.py:enrich', returns: {x: int}}]"
    found = mistakes(ORDERS + more)
    assert any(
        each.partition("steps.py:")[2].partition(": ")[2].startswith(expected) for each in found
    ), found


def test_modules_that_are_there_or_may_be_missing_are_no_mistake(
    describe: Describe, tmp_path: Path
) -> None:
    (tmp_path / "steps.py").write_text(
        "import os.path, sys, xml.etree.ElementTree\nfrom pyarrow import compute\n"
        "try:\n    import nosuch_module\nexcept ImportError:\n    nosuch_module = None\n"
        "def enrich(row):\n    import math\n    return row\n"
    )
    more = "    steps: [{python: 'steps.py:enrich', returns: {x: int}}]"
    assert describe(ORDERS + more).tables


def test_columns_after_a_lambda_or_a_struct_are_known(describe: Describe) -> None:
    found = describe(ORDERS + "    rules: {r: 'exists(tags, t -> t = _topic)'}")
    assert len(found.tables["bronze"].rules) == 1


def test_no_slip_of_the_hand_is_answered_with_a_traceback(tmp_path: Path) -> None:
    write_example(tmp_path / "shop", "127.0.0.1:9092")
    path = tmp_path / "shop" / "pipeline.yaml"
    right = path.read_text()
    dice = Random(1)
    refused = 0
    for _ in range(150):
        text = right
        for _ in range(dice.randint(1, 3)):
            at, to = dice.randrange(len(text)), dice.randrange(len(text))
            piece = text[at : at + dice.randrange(40)]
            match dice.randrange(4):
                case 0:
                    text = text[:at] + text[at + 1 :]
                case 1:
                    sign = dice.choice("{}[]:,'\"#&*!|>-\n \t%@`\\(<=\N{EURO SIGN}\x00\u2028")
                    text = text[:at] + sign + text[at:]
                case 2:
                    text = text[:at] + text[at + len(piece) :]
                case _:
                    text = text[:to] + piece + text[to:]
        path.write_text(text)
        try:
            load_pipeline(path)
        except TidelogError:
            refused += 1
    assert 50 < refused < 150


def test_the_plan_is_a_picture(tmp_path: Path) -> None:
    write_example(tmp_path / "shop", "127.0.0.1:9092")
    found = load_pipeline(tmp_path / "shop")
    text = as_text(found)
    assert "+-- table bronze (delta)" in text
    assert "    +-- table silver (delta, by day)" in text
    assert "rule amount is positive: amount > 0" in text
    graph = as_mermaid(found)
    assert graph.startswith("graph LR\n")
    assert "silver --> daily_revenue" in graph
