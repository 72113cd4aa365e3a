"""Batches on their way into a table, with processes that die: driven as Spark drives the sink.

A round is one batch. Its driver is a process of its own that kills itself with SIGKILL before or
after a step; then a new run finishes what was decided, and gets the same batch again, as from
Spark's checkpoint, until its commit has returned. A driver that only fails at the step aborts the
batch and tries it again itself, as Spark does.

    python -m tests.pipelines.commit_rounds DIRECTORY FORMAT BATCH:STEP:RULE ...
    python -m tests.pipelines.commit_rounds DIRECTORY FORMAT "BATCH:fails STEP:RULE" ...

This process itself opens no table: what deltalake starts in it would not survive a fork.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import Schema

from tidelog.pipelines.description.spec import TableFormat
from tidelog.pipelines.tables.decisions import Counts, Decision
from tidelog.pipelines.tables.stored_tables import StoredTable
from tidelog.pipelines.tables.table_commit import (
    QUARANTINE_SCHEMA,
    PartWritten,
    TableCommit,
    TableTarget,
)
from tidelog.pipelines.tables.table_files import FileWritten, TableFiles

QUERY = "query-1"
COLUMNS = pa.schema([("number", pa.int64()), ("_topic", pa.string()), ("_offset", pa.int64())])
TASKS = 2
ROWS = 10
RULES: dict[str, Callable[[int], bool]] = {
    "third": lambda offset: offset % 3 == 0,
    "even": lambda offset: offset % 2 == 0,
}
STEPS = [f"{when} {step}"
         for step in ("prepare", "decide", "discard", "quarantine", "table")
         for when in ("before", "after")] + ["after first file"]  # fmt: skip
FAILS = "fails "
_FAILED = 3


class DriverFailed(Exception):
    """What a full disk would be."""


class MortalStore:
    """A table whose driver dies around its commit."""

    def __init__(self, store: StoredTable, step: str, doomed: str | None) -> None:
        self.path, self.staged = store.path, store.staged
        self._store, self._step, self._doomed = store, step, doomed

    def prepare(self, schema: Schema) -> None:
        self._store.prepare(schema)

    def add(self, query: str, batch: int, files: Sequence[FileWritten]) -> None:
        reach(f"before {self._step}", self._doomed)
        if self.staged and files and (self._doomed or "").endswith("after first file"):
            self._store.add(query, batch, files[:1])
            reach("after first file", self._doomed)
        self._store.add(query, batch, files)
        reach(f"after {self._step}", self._doomed)


class MortalCommit(TableCommit):
    """A driver that dies at the chosen moment."""

    def __init__(self, target: TableTarget, doomed: str | None) -> None:
        super().__init__(target)
        self._doomed = doomed
        self._table = MortalStore(self._table, "table", doomed)
        self._quarantine = MortalStore(self._quarantine, "quarantine", doomed)

    def prepare(self, columns: Schema) -> None:
        reach("before prepare", self._doomed)
        super().prepare(columns)
        reach("after prepare", self._doomed)

    def decide(self, batch: int, columns: Schema, parts: Sequence[PartWritten]) -> Decision:
        reach("before decide", self._doomed)
        decision = super().decide(batch, columns, parts)
        reach("after decide", self._doomed)
        return decision

    def _discard_others(self, decision: Decision | None, parts: Sequence[PartWritten]) -> None:
        reach("before discard", self._doomed)
        super()._discard_others(decision, parts)
        reach("after discard", self._doomed)


def reach(moment: str, doomed: str | None) -> None:
    if moment == doomed:
        os.kill(os.getpid(), signal.SIGKILL)
    if f"{FAILS}{moment}" == doomed:
        raise DriverFailed


def write_part(
    target: TableTarget, batch: int, task: int, bad: Callable[[int], bool]
) -> PartWritten:
    """What one task writes: its share of the offsets, the bad ones to quarantine."""
    table, quarantine = target.stores()
    name = f"part-{batch}-{task}-{os.urandom(4).hex()}.parquet"
    good_files = TableFiles(table.path, name, target.partition_by, staged=table.staged)
    bad_files = TableFiles(quarantine.path, name, (), staged=quarantine.staged)
    offsets = [(batch * TASKS + task) * ROWS + index for index in range(ROWS)]
    good = [each for each in offsets if not bad(each)]
    refused = [each for each in offsets if bad(each)]
    good_files.write(
        pa.table({"number": good, "_topic": ["orders"] * len(good), "_offset": good}, COLUMNS)
    )
    rows = [{"_reason": "bad", "_topic": "orders", "_offset": each} for each in refused]
    bad_files.write(pa.Table.from_pylist(rows, QUARANTINE_SCHEMA))
    return PartWritten(
        query=QUERY,
        table_files=tuple(good_files.close()),
        quarantine_files=tuple(bad_files.close()),
        counts=Counts(rows=len(good), quarantined=len(refused)),
    )


def drive(target: TableTarget, batch: int, doomed: str | None, bad: Callable[[int], bool]) -> bool:
    """One run: repair, the tasks of the batch, its commit; False when the driver died or failed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            TableCommit(target).finish()
            code = attempts(target, batch, doomed, bad)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, _FAILED), "a driver failed on its own account"
    return code == 0


def attempts(
    target: TableTarget, batch: int, doomed: str | None, bad: Callable[[int], bool]
) -> int:
    """The batch, once more if it fails."""
    parts = [write_part(target, batch, task, bad) for task in range(TASKS)]
    try:
        MortalCommit(target, doomed).commit(batch, COLUMNS, parts)
    except DriverFailed:
        TableCommit(target).abort(batch, parts)
        attempts(target, batch, None, bad)
        return _FAILED
    return 0


def target_in(directory: Path, form: str, partition_by: tuple[str, ...] = ()) -> TableTarget:
    return TableTarget(
        table=directory / "orders",
        quarantine=directory / "orders_quarantine",
        decisions=directory / "decisions" / "orders",
        format=TableFormat(form),
        partition_by=partition_by,
    )


def main(directory: str, form: str, rounds: Sequence[str]) -> None:
    """Drive each round; tell which ones died."""
    target = target_in(Path(directory), form)
    for each in rounds:
        batch, step, rule = each.split(":")
        survived = drive(target, int(batch), step or None, RULES[rule])
        print(json.dumps({"round": each, "died": not survived}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
