"""Values that no partition can have keep their rows out of the table, and out of nobody's way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipelines.commit_rounds import target_in

from tidelog.pipelines.description.spec import OUTCOME
from tidelog.pipelines.project.steps import DROPPED
from tidelog.pipelines.tables.partition_values import directory_of, misfits, partition_texts
from tidelog.pipelines.tables.table_commit import QUARANTINE_SCHEMA, TableCommit
from tidelog.pipelines.tables.table_writing import write_part

REASON = "x cannot be a partition value of the table"
DAY_US = 86_400_000_000
FIRST, LAST = -719_162, 2_932_896


def raw_texts(*values: bytes | None) -> pa.Array:
    """Texts as Spark hands them over: nobody has looked at their bytes."""
    found = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(found), found.buffers())


@pytest.mark.parametrize(
    ("column", "fits"),
    [
        (raw_texts(b"ok", b"", None, b"\xff", b"a" * 200, b"a" * 201, b"\xc3\xbc" * 34),
         [True, True, True, False, True, False, False]),
        (pa.array([b"ok", b"\xff", None], pa.binary()), [True, False, True]),
        (pa.array([FIRST - 1, FIRST, LAST, LAST + 1, None], pa.int32()).cast(pa.date32()),
         [False, True, True, False, True]),
        (pa.array([FIRST * DAY_US - 1, FIRST * DAY_US, (LAST + 1) * DAY_US - 1,
                   (LAST + 1) * DAY_US, None]).cast(pa.timestamp("us", "UTC")),
         [False, True, True, False, True]),
        (pa.array([1.5, None]), [True, True]),
        (pa.array([True, None]), [True, True]),
    ],
)  # fmt: skip
def test_a_value_fits_or_its_row_has_a_reason(column: pa.Array, fits: list[bool]) -> None:
    rows = pa.table({"x": column})
    assert misfits(rows, ["x"]).to_pylist() == [None if each else REASON for each in fits]
    assert misfits(rows, []).null_count == len(column)


@given(st.lists(st.text(max_size=300) | st.none(), min_size=1))
def test_every_value_that_fits_names_a_directory(values: list[str | None]) -> None:
    rows = pa.table({"x": pa.array(values, pa.string())})
    texts = partition_texts(rows["x"]).to_pylist()
    for text, reason in zip(texts, misfits(rows, ["x"]).to_pylist(), strict=True):
        if reason is None:
            name = directory_of({"x": text})
            assert text != "" and "/" not in name and len(name.encode()) < 255


class OneTask:
    """What Spark tells the first task of the first batch."""

    def getLocalProperty(self, key: str) -> str:  # noqa: N802
        return {"sql.streaming.queryId": "q", "streaming.sql.batchId": "0"}[key]

    def partitionId(self) -> int:  # noqa: N802
        return 0


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_rows_without_a_partition_go_to_quarantine(tmp_path: Path, form: str) -> None:
    target = target_in(tmp_path, form, ("x",))
    columns = pa.schema([("x", pa.string()), ("_offset", pa.int64())])
    kinds = {each.name: each.type for each in QUARANTINE_SCHEMA if each.name != "_reason"}
    given: dict[str, Any] = {name: pa.nulls(4, kind) for name, kind in kinds.items()}
    given["x"] = raw_texts(b"ok", b"\xff", b"", b"\xff")
    given["_offset"] = pa.array([0, 1, 2, 3])
    given[OUTCOME] = pa.array([None, None, None, DROPPED])
    batches = pa.table(given).to_batches()
    part = write_part(target, columns, iter(batches), OneTask())
    assert (part.counts.rows, part.counts.quarantined, part.counts.dropped) == (2, 1, 1)
    TableCommit(target).commit(0, columns, [part])
    assert target.quarantine is not None
    (refused,) = part.quarantine_files
    assert pq.read_table(target.quarantine / refused.path)["_reason"].to_pylist() == [REASON]
    values = [each.partition_values for each in part.table_files]
    assert sorted(values, key=str) == [{"x": "ok"}, {"x": None}]
