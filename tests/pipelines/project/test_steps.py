"""What becomes of each record: decoded, changed, dropped, or on its way to quarantine."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tidelog.pipelines.description.spec import OUTCOME, POSITION, Column
from tidelog.pipelines.project import avro, row_functions, steps

pytestmark = pytest.mark.usefixtures("spark")

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
SOURCE = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "leaderEpoch int, timestamp timestamp"
)
ORDER = [Column("id", "bigint", required=True), Column("amount", "double"), Column("to", "string")]

Records = Callable[[Sequence[bytes | None]], DataFrame]


@pytest.fixture
def records(session: SparkSession) -> Records:
    """Records with these values, as a pipeline gets them."""

    def make(values: Sequence[bytes | None]) -> DataFrame:
        rows = [(b"k", value, "t", 0, offset, 3, NOW) for offset, value in enumerate(values)]
        return steps.records(session.createDataFrame(rows, SOURCE))

    return make


def outcomes(rows: DataFrame) -> list[str | None]:
    return [each[OUTCOME] for each in rows.orderBy("_offset").collect()]


def test_json_is_decoded_or_refused_with_the_reason(records: Records) -> None:
    values = [
        b'{"id": 1, "amount": 2, "to": "me", "more": true}',
        b'{"id": "one", "amount": "much"}',
        b'{"amount": 1.5}',
        b"not json",
        b"[1]",
        None,
        b'{"id": 1, "to": "\xff"}',
        b"{}",
    ]
    rows = steps.decode_json(records(values), ORDER)
    found = rows.orderBy("_offset").collect()
    assert (found[0].id, found[0].amount, found[0].to) == (1, 2.0, "me")
    assert (found[0]._topic, found[0]._partition, found[0]._leader_epoch) == ("t", 0, 3)
    assert [each[OUTCOME] for each in found] == [
        None,
        "the value does not fit the schema: id is not bigint, amount is not double",
        "id is missing",
        "the value is not JSON",
        "the value is not a JSON object",
        "the value is null",
        "the value is not UTF-8",
        "id is missing",
    ]


def test_nothing_behind_a_json_object_is_lost(records: Records) -> None:
    alone = [b'\n\t {"id": 1} \r\n', b'{"id": 1, "amount": NaN}', b"{'id': 1, 'to': ']}'}"]
    more = [
        b'{"id": 1}{"id": 2}',
        b'{"id": 1} garbage',
        b'{"id": 1}, {"id": 2}',
        b'{"id": 1}, "x": 2',
        b'{"id": 1}]',
        b'{"id": 1}] {"id": 2}',
        b'{"id": 1}, ""] {"id": 2}',
    ]
    lists = [b'[{"id": 1}]', b'[{"id": 1}, {"id": 2}]', b"null", b'"{"', b"7", b"", b" "]
    found = outcomes(steps.decode_json(records([*alone, *more, *lists]), ORDER))
    assert found[:3] == [None] * 3
    told = set(found[3:])
    assert told <= {
        "the value goes on behind a JSON object",
        "the value is not JSON",
        "the value is not a JSON object",
    }, found
    assert found[3] != "the value is not a JSON object"
    assert found[10] == found[11] == "the value is not a JSON object"


def test_a_second_line_of_csv_is_not_lost(records: Records) -> None:
    columns = [Column("id", "bigint"), Column("name", "string")]
    values = [b"1,x\n", b"1,x\r\n", b'2,"a\nb"', b"3,", b"1,x\n2,y", b"1,x\r2,y", b"1,x,3"]
    found = steps.decode_csv(records(values), columns).orderBy("_offset").collect()
    assert [(each.id, each.name) for each in found[:4]] == [
        (1, "x"), (1, "x"), (2, "a\nb"), (3, None),
    ]  # fmt: skip
    refused = "the value is not a line of id bigint, name string"
    assert [each[OUTCOME] for each in found] == [None] * 4 + [refused] * 3
    (only,) = steps.decode_csv(records([b"a\nb"]), [Column("name", "string")]).collect()
    assert only[OUTCOME] == "the value is not a line of name string"


def test_lines_of_csv_are_decoded_or_refused(records: Records) -> None:
    columns = [Column("id", "bigint"), Column("name", "string")]
    rows = steps.decode_csv(records([b"1;x", b"a;x", b"1", b'2;"a;b"']), columns, ";")
    found = rows.orderBy("_offset").collect()
    assert [(each.id, each.name) for each in (found[0], found[3])] == [(1, "x"), (2, "a;b")]
    refused = "the value is not a line of id bigint, name string"
    assert [each[OUTCOME] for each in found] == [None, refused, refused, None]


def test_text_is_utf8_and_raw_is_anything(records: Records) -> None:
    text = steps.decode_text(records([b"hello", b"\xff", None]))
    assert outcomes(text) == [None, "the value is not UTF-8", None]
    assert text.orderBy("_offset").collect()[0].value == "hello"
    raw = steps.decode_raw(records([b"\xff", None])).orderBy("_offset").collect()
    assert [(bytes(each.key), each.value, each[OUTCOME]) for each in raw] == [
        (b"k", b"\xff", None),
        (b"k", None, None),
    ]


def test_avro_is_decoded_or_refused(records: Records, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ]}  # fmt: skip
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(schema))
    datum = io.BytesIO()
    fastavro.schemaless_writer(datum, schema, {"id": 7, "at": NOW, "tags": ["a"]})
    good = datum.getvalue()
    columns = [Column("id", "bigint"), Column("at", "timestamp"), Column("tags", "array<string>")]
    rows = avro.decode_avro(records([good, good[:-3], good + b"x", None]), path, columns, False)
    first, *others = rows.orderBy("_offset").collect()
    assert (first.id, first.tags, first[OUTCOME]) == (7, ["a"], None)
    assert all("avro failed" in each[OUTCOME] for each in others)
    framed = avro.decode_avro(records([b"\0\0\0\0\1" + good, good]), path, columns, True)
    assert framed.orderBy("_offset").collect()[0].id == 7
    assert outcomes(framed)[1] is not None


def test_a_row_that_failed_goes_through_all_steps_to_quarantine(records: Records) -> None:
    rows = steps.decode_json(records([b'{"id": 1, "amount": 5}', b"bad", b'{"id": 2}']), ORDER)
    rows = steps.with_columns(rows, {"half": "amount / 2", "amount": "amount + 1"})
    rows = steps.where(rows, "amount is not null")
    rows = steps.select(rows, {"id": "id", "half": "half"})
    rows = steps.rule(rows, "half is large", "half > 100")
    assert outcomes(rows) == ["rule broken: half is large", "the value is not JSON", steps.DROPPED]
    assert rows.columns[:2] == ["id", "half"]
    goes_on = steps.rows_of_the_table(rows)
    assert outcomes(goes_on) == [steps.DROPPED] * 3


def test_a_rule_that_gives_null_is_broken(records: Records) -> None:
    rows = steps.decode_json(records([b'{"id": 1}', b'{"id": 2, "amount": 3}']), ORDER)
    rows = steps.rule(rows, "amount is positive", "amount > 0")
    assert outcomes(rows) == ["rule broken: amount is positive", None]


def test_a_python_step_sets_drops_or_fails_each_row_alone(records: Records, tmp_path: Path) -> None:
    path = tmp_path / "steps.py"
    path.write_text(
        "FACTOR = 2\n"
        "def double(row):\n"
        "    assert '_outcome' not in row\n"
        "    if row['id'] == 2:\n"
        "        return None\n"
        "    if row['id'] == 4:\n"
        "        return {'twice': 'many'}\n"
        "    return {'twice': FACTOR * 6 // (row['id'] - 3)}\n"
    )
    values = [f'{{"id": {number}}}'.encode() for number in (1, 2, 3, 4, 5)] + [b"bad"]
    rows = steps.decode_json(records(values), ORDER)
    rows = row_functions.python_step(rows, path, "double", [Column("twice", "bigint")])
    found = rows.orderBy("_offset").collect()
    assert [each.twice for each in found] == [-6, None, None, None, 6, None]
    reasons = [each[OUTCOME] for each in found]
    assert reasons[:3] == [
        None,
        steps.DROPPED,
        "double failed: ZeroDivisionError: integer division or modulo by zero",
    ]
    assert reasons[3] is not None and reasons[3].startswith("what double returns does not fit")
    assert reasons[4:] == [None, "the value is not JSON"]


def test_good_rows_become_records_of_a_topic(records: Records) -> None:
    rows = steps.decode_json(records([b'{"id": 1, "amount": 5}', b"bad"]), ORDER)
    (out,) = steps.as_topic_rows(rows, "clean", "id", "to_json(struct(id, amount))").collect()
    assert (bytes(out.key), json.loads(out.value), out.topic) == (
        b"1", {"id": 1, "amount": 5.0}, "clean",
    )  # fmt: skip
    (refused,) = steps.quarantined_rows(rows).collect()
    assert (refused._reason, bytes(refused._value)) == ("the value is not JSON", b"bad")


def test_good_rows_become_rows_of_a_table_that_is_not_ours(records: Records) -> None:
    rows = steps.decode_json(records([b'{"id": 1, "amount": 5}', b"bad"]), ORDER)
    table = steps.table_rows(rows)
    assert table.columns == ["id", "amount", "to", *POSITION]
    assert [each.id for each in table.collect()] == [1]


X = Column("x", "bigint")


def test_a_function_that_returns_no_dict_is_said_so() -> None:
    def wrong(row: dict[str, Any]) -> Any:
        return 5

    target = pa.struct([("x", pa.int64()), (OUTCOME, pa.string())])
    rows = pa.array([{"a": 1, OUTCOME: None}])
    (found,) = row_functions.computed_rows(wrong, [X], rows, target).to_pylist()
    assert found[OUTCOME] == "wrong returned int, not a dict"


def test_a_row_that_python_has_no_values_for_fails_alone() -> None:
    def same(row: dict[str, Any]) -> dict[str, Any]:
        return {"x": row["id"]}

    moments = pa.array([0, 2**62, 2**62]).cast(pa.timestamp("us", "UTC"))
    outcomes = pa.array([None, None, "bad before"], pa.string())
    rows = pa.StructArray.from_arrays(
        [pa.array([1, 2, 3]), moments, outcomes], ["id", "at", OUTCOME]
    )
    target = pa.struct([("x", pa.int64()), (OUTCOME, pa.string())])
    first, second, third = row_functions.computed_rows(same, [X], rows, target).to_pylist()
    assert first == {"x": 1, OUTCOME: None}
    assert second["x"] is None and second[OUTCOME].startswith("the row has no values in Python")
    assert third == {"x": None, OUTCOME: None}


def test_a_column_that_a_function_must_set_and_does_not_is_the_reason_of_the_row() -> None:
    def half(row: dict[str, Any]) -> dict[str, Any]:
        return {"x": row["id"] if row["id"] > 1 else None}

    rows = pa.array([{"id": 1, OUTCOME: None}, {"id": 2, OUTCOME: None}])
    target = pa.struct([("x", pa.int64()), (OUTCOME, pa.string())])
    required = Column("x", "bigint", required=True)
    first, second = row_functions.computed_rows(half, [required], rows, target).to_pylist()
    assert first == {"x": None, OUTCOME: "x is missing"}
    assert second == {"x": 2, OUTCOME: None}
