"""Each offset once, in the table or in quarantine, whichever step of a commit a driver dies at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from tests.pipelines.commit_rounds import (
    COLUMNS,
    FAILS,
    ROWS,
    RULES,
    STEPS,
    TASKS,
    MortalCommit,
    target_in,
    write_part,
)

from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.tables.decisions import Counts, Decisions
from tidelog.pipelines.tables.stored_tables import compact
from tidelog.pipelines.tables.table_commit import PartWritten, TableCommit, TableTarget
from tidelog.pipelines.tables.table_files import STAGING

ROOT = Path(__file__).parents[3]


def rows_of(path: Path) -> pa.Table:
    if (path / "_delta_log").exists():
        return DeltaTable(str(path)).to_pyarrow_table()
    return ds.dataset(path, format="parquet").to_table()  # other readers see no hidden directory


def offsets_of(path: Path) -> list[int]:
    found: list[int] = rows_of(path)["_offset"].to_pylist()
    return sorted(found)


every_third = RULES["third"]


def drive(target: TableTarget, *rounds: str) -> list[bool]:
    """Which of the rounds (batch:step:rule) died or failed."""
    directory, form = str(target.table.parent), str(target.format)
    command = [sys.executable, "-m", "tests.pipelines.commit_rounds", directory, form, *rounds]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line)["died"] for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_every_offset_is_there_once_whichever_step_a_driver_dies_at(
    tmp_path: Path, form: str
) -> None:
    target = target_in(tmp_path, form)
    rounds = [f"{batch}:{step}:third" for batch, step in enumerate(STEPS)]
    again = [f"{batch}::third" for batch in range(len(STEPS))]
    died = drive(target, *(each for pair in zip(rounds, again, strict=True) for each in pair))
    assert not any(died[1::2])
    every = range(len(STEPS) * TASKS * ROWS)
    assert target.quarantine is not None
    assert offsets_of(target.table) == [each for each in every if not every_third(each)]
    assert offsets_of(target.quarantine) == [each for each in every if every_third(each)]
    unreached = {step for step, dead in zip(STEPS, died[::2], strict=True) if not dead}
    assert unreached <= {"after first file"} if form == "delta" else not unreached
    last = Decisions(target.decisions).last()
    assert last is not None and last.total.all == len(every)


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_a_batch_that_fails_and_is_aborted_loses_nothing_that_was_decided(
    tmp_path: Path, form: str
) -> None:
    target = target_in(tmp_path, form)
    failed = drive(target, *(f"{at}:{FAILS}{step}:third" for at, step in enumerate(STEPS)))
    unreached = {step for step, did in zip(STEPS, failed, strict=True) if not did}
    assert unreached <= {"after first file"} if form == "delta" else not unreached
    every = range(len(STEPS) * TASKS * ROWS)
    assert target.quarantine is not None
    assert offsets_of(target.table) == [each for each in every if not every_third(each)]
    assert offsets_of(target.quarantine) == [each for each in every if every_third(each)]


@pytest.mark.parametrize("form", ["delta", "parquet"])
@pytest.mark.parametrize("step", ["after decide", "after quarantine"])
def test_a_rule_that_changes_between_two_runs_changes_no_batch_that_was_decided(
    tmp_path: Path, form: str, step: str
) -> None:
    target = target_in(tmp_path, form)
    assert drive(target, f"0:{step}:third", "0::even") == [True, False]
    assert target.quarantine is not None
    everywhere = offsets_of(target.table) + offsets_of(target.quarantine)
    assert sorted(everywhere) == list(range(TASKS * ROWS))
    assert offsets_of(target.quarantine) == [each for each in range(TASKS * ROWS) if each % 3 == 0]


def test_the_files_of_an_attempt_that_was_not_decided_are_removed(tmp_path: Path) -> None:
    target = target_in(tmp_path, "delta")
    assert drive(target, "0:after decide:third", "0::third") == [True, False]
    assert len(list(target.table.glob("*.parquet"))) == TASKS


def test_what_an_undecided_batch_left_in_a_parquet_table_is_cleared(tmp_path: Path) -> None:
    target = target_in(tmp_path, "parquet")
    assert drive(target, "0:before decide:third") == [True]
    assert list((target.table / STAGING).glob("*"))
    TableCommit(target).finish()
    assert not (target.table / STAGING).exists()


def test_a_driver_whose_files_were_cleared_away_decides_nothing(tmp_path: Path) -> None:
    target = target_in(tmp_path, "parquet")
    part = write_part(target, 0, 0, every_third)
    TableCommit(target).finish()  # another run has begun
    with pytest.raises(PipelineTrouble, match="another run has taken orders over"):
        TableCommit(target).commit(0, COLUMNS, [part])
    assert Decisions(target.decisions).last() is None


def test_files_that_a_user_removes_later_are_not_missed(tmp_path: Path) -> None:
    target = target_in(tmp_path, "parquet")
    assert drive(target, "0::third") == [False]
    for path in target.table.glob("*.parquet"):
        path.unlink()
    TableCommit(target).finish()
    assert drive(target, "1::third") == [False]
    assert min(offsets_of(target.table)) >= TASKS * ROWS


def test_a_failed_batch_leaves_no_files(tmp_path: Path) -> None:
    target = target_in(tmp_path, "delta")
    part = write_part(target, 0, 0, every_third)
    TableCommit(target).abort(0, [part])
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_file_that_is_gone_before_its_batch_was_whole_is_not_passed_over(tmp_path: Path) -> None:
    target = target_in(tmp_path, "parquet")
    assert drive(target, "0:before table:third") == [True]
    for path in (target.table / STAGING).glob("*.parquet"):
        path.unlink()
    with pytest.raises(PipelineTrouble, match="rows of orders are lost"):
        TableCommit(target).finish()


def test_another_checkpoint_may_not_write_the_same_table(tmp_path: Path) -> None:
    target = target_in(tmp_path, "delta")
    assert drive(target, "0::third") == [False]
    stranger = PartWritten(query="query-2")
    with pytest.raises(PipelineTrouble, match="--full-refresh"):
        TableCommit(target).commit(0, COLUMNS, [stranger])


def commit_rows(target: TableTarget, batch: int, rows: pa.Table) -> None:
    from tidelog.pipelines.tables.table_files import TableFiles

    staged = target.stores()[0].staged
    files = TableFiles(target.table, f"part-{batch}.parquet", target.partition_by, staged=staged)
    files.write(rows)
    part = PartWritten(query="q", table_files=tuple(files.close()), counts=Counts(rows=len(rows)))
    TableCommit(target).commit(batch, rows.schema, [part])


def test_a_new_column_is_taken_and_older_rows_have_null(tmp_path: Path) -> None:
    target = target_in(tmp_path, "delta")
    commit_rows(target, 0, pa.table({"a": [1]}))
    commit_rows(target, 1, pa.table({"a": [2], "b": ["new"]}))
    commit_rows(target, 2, pa.table({"b": ["only"]}))
    found = sorted(rows_of(target.table).to_pylist(), key=str)
    assert found == [{"a": 1, "b": None}, {"a": 2, "b": "new"}, {"a": None, "b": "only"}]


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_a_column_never_changes_its_type(tmp_path: Path, form: str) -> None:
    target = target_in(tmp_path, form)
    commit_rows(target, 0, pa.table({"a": [1]}))
    commit_rows(target, 1, pa.table({"a": [2], "b": [[1.5]]}))
    with pytest.raises(PipelineTrouble, match="column a of orders is long and would be string"):
        commit_rows(target, 2, pa.table({"a": ["x"]}))
    with pytest.raises(PipelineTrouble, match="column b of orders is array and would be string"):
        commit_rows(target, 2, pa.table({"a": [1], "b": ["x"]}))
    commit_rows(target, 2, pa.table({"a": [3]}))
    assert sorted(rows_of(target.table)["a"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_a_column_is_never_taken_for_another_that_is_written_otherwise(
    tmp_path: Path, form: str
) -> None:
    target = target_in(tmp_path, form)
    commit_rows(target, 0, pa.table({"amount": [1]}))
    with pytest.raises(PipelineTrouble, match="a column amount, and Amount differs"):
        commit_rows(target, 1, pa.table({"Amount": [2]}))
    assert rows_of(target.table).to_pylist() == [{"amount": 1}]


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_partitioning_never_changes(tmp_path: Path, form: str) -> None:
    commit_rows(target_in(tmp_path, form), 0, pa.table({"a": [1], "day": ["x"]}))
    with pytest.raises(PipelineTrouble, match="partitioned by nothing and would be by day"):
        commit_rows(target_in(tmp_path, form, ("day",)), 1, pa.table({"a": [1], "day": ["x"]}))


def test_a_table_never_changes_its_format(tmp_path: Path) -> None:
    for before, after in (("delta", "parquet"), ("parquet", "delta")):
        directory = tmp_path / before
        TableCommit(target_in(directory, before)).commit(0, COLUMNS, [PartWritten(query="q")])
        with pytest.raises(PipelineTrouble, match=f"is a {before} table and would be {after}"):
            TableCommit(target_in(directory, after)).commit(1, COLUMNS, [PartWritten(query="q")])


def test_partition_values_of_any_kind_come_back(tmp_path: Path) -> None:
    target = target_in(tmp_path, "delta", ("place", "flag"))
    rows = pa.table(
        {"a": [1, 2, 3, 4], "place": ["a/b:=%", "ü x", None, ""], "flag": [True, False, None, True]}
    )
    commit_rows(target, 0, rows)
    found = rows_of(target.table).select(["a", "place", "flag"]).sort_by("a").to_pylist()
    assert found == [*rows.to_pylist()[:3], {"a": 4, "place": None, "flag": True}]


def test_small_files_are_merged_and_the_batches_stay_known(tmp_path: Path) -> None:
    target = target_in(tmp_path, "delta")
    assert not compact(target.table, 1), "there is no table yet"
    for batch in range(5):
        commit_rows(target, batch, pa.table({"a": [batch]}))
    assert not compact(target.table, 5)
    assert compact(target.table, 4)
    assert len(DeltaTable(str(target.table)).file_uris()) == 1
    commit_rows(target, 4, pa.table({"a": [4]}))
    assert sorted(rows_of(target.table)["a"].to_pylist()) == [0, 1, 2, 3, 4]


def test_a_batch_without_tasks_changes_nothing(tmp_path: Path) -> None:
    target = target_in(tmp_path, "delta")
    MortalCommit(target, None).commit(0, COLUMNS, [])
    assert Decisions(target.decisions).last() is None
