"""SQL that cannot work, or that one record could stop a pipeline with, is found without Spark."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.pipelines.conftest import Describe, Mistakes

from tidelog.pipelines.failing_sql import failing_parts
from tidelog.pipelines.mistakes import PipelineTrouble
from tidelog.pipelines.partition_values import misfits
from tidelog.pipelines.spark_functions import FUNCTIONS
from tidelog.pipelines.sql_text import by_name

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


def test_functions_of_an_extension_are_not_unknown(describe: Describe) -> None:
    text = f"{TABLES}views: {{v: {{sql: SELECT their_own(id) AS x FROM a}}}}\n"
    assert describe(f"{text}spark: {{spark.sql.extensions: their.Extensions}}").views
    assert describe(text.replace("their_own", "system.session.their_own")).views


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
