"""SQL that cannot work, or that one record could stop a pipeline with, is found without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.pipelines.conftest import Describe, Mistakes

from tidelog.pipelines.description.failing_sql import failing_parts
from tidelog.pipelines.description.function_check import doubts
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spark_functions import FUNCTIONS, names_in
from tidelog.pipelines.description.sql_text import by_name
from tidelog.pipelines.tables.partition_values import misfits

TABLES = """
name: shop
tables:
  a:
    topics: o
    decode:
      format: json
      schema: {id: bigint, tags: array<string>, at: struct<x:int>, Amount: double}
  b: {topics: p, decode: {format: json, schema: {id: bigint, name: string}}}
  late: {topics: q, decode: {format: json}}
"""


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT amont FROM a", "there is no column amont here; did you mean Amount?"),
        ("SELECT a.nam FROM a", "there is no column nam here"),
        ("SELECT id FROM a WHERE nam > 1", "there is no column nam here"),
        ("WITH q AS (SELECT id AS i FROM a) SELECT id FROM q", "there is no column id here"),
        ("SELECT id FROM a JOIN b ON a.id = b.id", "column id is ambiguous: it is in a and b"),
        ("SELECT _value FROM a", "there is no column _value here"),
        ("SELECT summ(id) FROM a", "Spark has no function summ; did you mean sum?"),
    ],
)
def test_a_view_names_columns_and_functions_that_exist(
    mistakes: Mistakes, sql: str, expected: str
) -> None:
    (found,) = mistakes(f"{TABLES}views:\n  v:\n    sql: {sql}\n")
    assert found.partition(": ")[2].startswith(expected)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT _topic, AMOUNT, at.x, a.at.x, * FROM a",
        "SELECT id FROM a JOIN b USING (id)",
        "SELECT id * 2 AS twice, twice + 1 AS more FROM a",
        "SELECT t FROM a LATERAL VIEW explode(tags) e AS t",
        "SELECT col FROM a LATERAL VIEW explode(tags)",
        "SELECT explode(tags) AS t FROM a",
        "SELECT at.x, count(*) AS c FROM a GROUP BY at.x HAVING c > 1 ORDER BY c",
        "SELECT s.* FROM (SELECT at.* FROM a) s",
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id AND name = 'x')",
        "SELECT id, row_number() OVER (PARTITION BY _topic ORDER BY id) AS r FROM a QUALIFY r = 1",
        "SELECT x.id, transform(tags, t -> upper(t)) AS u FROM a x LEFT SEMI JOIN b ON x.id = b.id",
        "SELECT name FROM b PIVOT (count(id) FOR name IN ('x', 'y'))",
        "SELECT k FROM a UNPIVOT (v FOR k IN (id, amount))",
        "SELECT a.id, r.id AS n FROM a CROSS JOIN range(3) r",
        "SELECT element_at(tags, id) AS t, current_date AS d, current_date() + 1 AS e FROM a",
        "SELECT anything FROM late",
    ],
)
def test_a_view_that_spark_understands_is_no_mistake(describe: Describe, sql: str) -> None:
    assert describe(f"{TABLES}views:\n  v:\n    sql: {json.dumps(sql)}\n").views


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("uper(name)", "Spark has no function uper; did you mean upper?"),
        ("raise_error(name)", "raise_error fails for some records, which would stop the pipeline"),
        ("upper(parse_json(name))", "parse_json fails for some records"),
        ("decode(_key, 'utf-8')", "decode fails for some records"),
        ("from_json(name, 'a int', map('mode', 'failfast'))", "from_json fails for some records"),
        ("hll_sketch_estimate(_key)", "hll_sketch_estimate fails for some records"),
        ("element_at(array(1), id)", "argument 2 of element_at comes from a record"),
        ("element_at(array(1), 0)", "element_at counts from 1"),
        ("transform(array(1), i -> element_at(array(1), i))", "argument 2 of element_at comes"),
        ("name rlike name", "the pattern of name RLIKE name comes from a record"),
        ("name like concat(name, '%')", "the pattern of name LIKE"),
        ("map(name, 1)", "argument 1 of map comes from a record"),
        ("convert_timezone(name, 'UTC', _timestamp)", "argument 1 of convert_timezone comes"),
        ("timestampadd(year, id, _timestamp)", "argument 2 of timestampadd comes from a record"),
        ("interval 1 day / id", "INTERVAL '1' DAY / id fails for some records"),
        ("cast(name as interval day to second)", "CAST(name AS INTERVAL DAY TO SECOND) fails"),
    ],
)
def test_what_one_record_could_stop_a_pipeline_with_is_refused(
    mistakes: Mistakes, sql: str, expected: str
) -> None:
    found = mistakes(f'{TABLES}  c: {{from: b, steps: [{{with: {{x: "{sql}"}}}}]}}\n')
    assert any(expected in each for each in found), found


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("Amount + 1", "double"), ("id", "bigint"), ("upper(name)", "string"), ("'yes'", "string"),
        ("coalesce(id, 0)", "bigint"), ("_timestamp", "timestamp"), ("tags", "array<string>"),
        ("if(id > 1, 1, 2)", "bigint"), ("cast(name as int)", "int"), ("length(name)", "int"),
        ("more", "bigint"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["rules: {{r: {}}}", "steps: [{{where: {}}}]"])
def test_a_condition_is_true_or_false(
    mistakes: Mistakes, place: str, condition: str, kind: str
) -> None:
    schema = "{id: bigint, name: string, Amount: double, tags: array<string>}"
    first = f"{{topics: o, decode: {{format: json, schema: {schema}}}, "
    first += "steps: [{with: {more: id + 1}}]}"
    text = (
        f"name: x\ntables:\n  a: {first}\n  b: {{from: a, {place.format(json.dumps(condition))}}}"
    )
    (found,) = mistakes(text)
    assert found.startswith(f"4: {condition} is {kind}, and a condition is true or false")


CONDITIONS = [
    "b", "not b", "l > 0 and d < 1", "b is null", "s like 'a%'", "s rlike 'a'", "l in (1, 2)",
    "l between 1 and 2", "isnan(d)", "isnull(s)", "isnotnull(s)", "startswith(s, 'a')",
    "contains(s, 'a')", "endswith(s, 'a')", "array_contains(a, 1)", "exists(a, x -> x > 1)",
    "forall(a, x -> x > 1)", "arrays_overlap(a, a)", "map_contains_key(m, 'a')", "equal_null(l, 1)",
    "l <=> 1", "luhn_check(s)", "is_valid_utf8(s)", "if(l > 1, b, false)", "nvl2(s, b, false)",
    "case when l > 1 then b end", "coalesce(b, false)", "nvl(b, true)", "nullif(b, false)",
    "boolean(s)", "cast(s as boolean)", "s::boolean", "array(b)[0]", "get(array(b), 0)",
    "element_at(array(b), 1)", "map('a', b)['a']", "aggregate(array(b), true, (x, y) -> x and y)",
    "array_max(array(b))", "greatest(b, false)", "decode(l, 1, true, false)",
    "try_variant_get(try_parse_json(s), '$.a', 'boolean')", "from_json(s, 'a boolean').a",
    "named_struct('x', b).x", "transform(array(b), x -> not x)[0]",
    "l is distinct from 1", "regexp_like(s, 'a')", "ilike(s, 'a')", "dt > current_date()",
    "is_variant_null(try_parse_json(s))", "flatten(array(array(b)))[0]", "sort_array(array(b))[0]",
]  # fmt: skip


def test_what_may_be_true_or_false_is_not_refused(describe: Describe) -> None:
    schema = "{s: string, l: bigint, d: double, dt: date, a: array<int>, m: 'map<string,int>', "
    schema += "b: boolean}"
    rules = ", ".join(f"r{at}: {json.dumps(each)}" for at, each in enumerate(CONDITIONS))
    text = f"name: x\ntables:\n  t:\n    topics: o\n    decode: {{format: json, schema: {schema}}}"
    assert len(describe(f"{text}\n    rules: {{{rules}}}\n").tables["t"].rules) == len(CONDITIONS)


@pytest.mark.usefixtures("spark")
def test_conditions_are_conditions_for_spark_too(session: SparkSession) -> None:
    rows = session.sql(UNFIT).selectExpr("*", "l > 0 AS b")
    found = rows.selectExpr(*[f"{text} AS c{at}" for at, text in enumerate(CONDITIONS)]).dtypes
    assert [kind for _, kind in found] == ["boolean"] * len(CONDITIONS)


def test_functions_of_an_extension_are_not_unknown(describe: Describe) -> None:
    text = f"{TABLES}views: {{v: {{sql: SELECT their_own(id) AS x FROM a}}}}\n"
    assert describe(f"{text}spark: {{spark.sql.extensions: their.Extensions}}").views
    assert describe(text.replace("their_own", "system.session.their_own")).views


def test_a_function_that_only_an_extension_could_bring_is_doubted(describe: Describe) -> None:
    text = f"{TABLES}views: {{v: {{sql: SELECT uper(id) AS x FROM a}}}}\n"
    pipeline = describe(f"{text}spark: {{spark.sql.extensions: their.Extensions}}")
    assert [each.text for each in doubts(pipeline)] == [
        "Spark has no function uper; did you mean upper? "
        "(unless an extension or another version brings it)"
    ]
    assert not doubts(describe(text.replace("uper", "upper")))


def test_functions_of_another_spark_are_read_from_its_jar() -> None:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-catalyst_*.jar")
    found = names_in(jar)
    assert {*FUNCTIONS} - found == {"python_worker_logs", "struct", "when"}  # not in the registry
    assert len(found - FUNCTIONS) < 30 and "uper" not in found


def test_a_misspelt_function_is_found_whichever_spark_is_installed(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        f"{TABLES}views: {{v: {{sql: SELECT cout(*) AS x FROM a}}}}\n"
    )
    for home, ending in ((Path(pyspark.__file__).parent, 1), (tmp_path, 0)):
        told = subprocess.run(
            [sys.executable, "-m", "tidelog", "pipelines", "check", "--offline", tmp_path],
            env={**os.environ, "SPARK_HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == ending
        assert "pipeline.yaml:11: Spark has no function cout; did you mean count?" in told.stderr


@pytest.mark.parametrize(
    ("column", "kind"),
    [("tags", "array<string>"), ("x", "array<string>"), ("y", "map<string, int>"), ("z", "struct")],
)
def test_nested_columns_cannot_be_partitioned_by(
    mistakes: Mistakes, column: str, kind: str
) -> None:
    steps = "steps: [{with: {x: tags, y: 'cast(null as map<string,int>)', z: struct(id)}}]"
    (found,) = mistakes(f"{TABLES}  c: {{from: a, {steps}, partition_by: {column}}}\n")
    assert f"{column} is {kind}" in found and found.endswith("no table can be partitioned by it")


def test_nested_values_that_only_spark_knew_of_are_refused_by_the_sink() -> None:
    with pytest.raises(PipelineTrouble, match="tags is list<"):
        misfits(pa.table({"tags": [["a"]]}), ["tags"])


UNFIT = """
SELECT * FROM VALUES
 ('abc', 0, 9223372036854775807L, double('NaN'), X'ff00', date'9999-12-31', array(1), map('a', 1)),
 ('%zz', -1, -9223372036854775808L, double('Infinity'), X'', date'0001-01-01', array(), map()),
 (null, null, null, null, null, null, null, null)
AS t(s, i, l, d, bin, dt, a, m)
"""
FINE = [
    "cast(s as int)", "cast(s as timestamp)", "cast(l as timestamp)", "cast(d as decimal(3,1))",
    "cast(bin as string)", "l + 1", "-l", "i / i", "i % i", "i div 0", "a[5]", "m[s]", "get(a, i)",
    "element_at(a, 5)", "get(split(s, ','), i)", "split_part(s, ',', 3)", "to_date(s, 'yyyy')",
    "date_format(dt, 'yyyy')", "from_json(s, 'a int')", "from_csv(s, 'a int')",
    "get_json_object(s, s)", "try_variant_get(try_parse_json(s), '$.a', 'int')",
    "try_to_number(s, '999')", "try_to_binary(s, 'hex')", "try_url_decode(s)", "unhex(s)",
    "unbase64(s)", "try_aes_decrypt(bin, s)", "try_reflect('java.lang.Integer', 'parseInt', s)",
    "map_concat(map('a', i), map('a', i))", "str_to_map(concat(s, ':1,', s, ':2'))",
    "parse_url(s, s)", "date_add(dt, i)", "make_date(i, i, i)", "from_utc_timestamp(dt, 'CET')",
    "s rlike '^a'", "s like 'a%'", "contains(s, s)", "regexp_extract(s, '(a)(b)', 2)",
    "factorial(i)", "conv(s, 36, 2)", "chr(l)", "substr(s, i, i)", "next_day(dt, s)",
    "elt(i, s, s)", "date_trunc(s, dt)", "from_unixtime(l)", "transform(a, x -> x / 0)",
    "format_number(d, 2)", "i * unix_date(dt + interval 1 day)", "sequence(1, 3)",
]  # fmt: skip


@pytest.mark.usefixtures("spark")
def test_what_is_let_through_fails_for_no_record(session: SparkSession) -> None:
    for text in FINE:
        parsed = by_name(text)
        assert parsed is not None and list(failing_parts(parsed)) == [], text
    rows = session.sql(UNFIT).localCheckpoint()
    computed = rows.selectExpr(*[f"{text} AS c{at}" for at, text in enumerate(FINE)])
    computed.write.format("noop").mode("overwrite").save()
    assert computed.where("c0 is null").count() == 3


@pytest.mark.usefixtures("spark")
def test_the_functions_are_those_that_spark_has(session: SparkSession) -> None:
    names = {row[0] for row in session.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert {each for each in names if each.isidentifier()} == FUNCTIONS
