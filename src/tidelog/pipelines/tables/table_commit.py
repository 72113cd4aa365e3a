"""A batch on its way into a table: decide once, carry out until done.

Every step may be the last one of this process. The next run starts with `finish`, and Spark hands
in the same batch again; both do what is missing and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import Schema

from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import TableFormat
from tidelog.pipelines.tables.decisions import Counts, Decision, Decisions
from tidelog.pipelines.tables.stored_tables import (
    StoredTable,
    clear_staging,
    discard,
    stored_table,
    written_path,
)
from tidelog.pipelines.tables.table_files import FileWritten

QUARANTINE_SCHEMA: Final = pa.schema(
    [
        ("_reason", pa.string()),
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_leader_epoch", pa.int32()),
        ("_timestamp", pa.timestamp("us", "UTC")),
        ("_key", pa.binary()),
        ("_value", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget:
    """Where a table, its quarantine and its decisions are."""

    table: Path
    quarantine: Path | None
    """None: every row is a row of the table."""
    decisions: Path
    format: TableFormat
    partition_by: tuple[str, ...] = ()
    backfill: bool = False
    """Whether the batches are those of a backfill."""

    def stores(self) -> tuple[StoredTable, StoredTable]:
        table = stored_table(self.table, self.format, self.partition_by)
        if self.quarantine is None:
            return table, table
        return table, stored_table(self.quarantine, self.format, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWritten:
    """What one task reports."""

    query: str
    table_files: tuple[FileWritten, ...] = ()
    quarantine_files: tuple[FileWritten, ...] = ()
    counts: Counts = field(default_factory=Counts)


class TableCommit:
    """The batches of one table."""

    def __init__(self, target: TableTarget) -> None:
        self._target = target
        self._decisions = Decisions(target.decisions, backfill=target.backfill)
        self._table, self._quarantine = target.stores()

    def commit(self, batch: int, schema: pa.Schema, parts: Sequence[PartWritten]) -> None:
        """Make the batch part of table and quarantine."""
        if not parts:
            return
        with self._decisions.locked():
            columns = Schema.from_arrow(schema)
            self.prepare(columns)
            decision = self.decide(batch, columns, parts)
            self._discard_others(decision, parts)
            self.carry_out(decision)
            self._decisions.forget_old()

    def abort(self, batch: int, parts: Sequence[PartWritten]) -> None:
        """The batch failed; a later attempt writes its own files, unless these are decided."""
        with self._decisions.locked():
            self._discard_others(self._decisions.of(batch), parts)

    def finish(self) -> None:
        """Carry out what a run that died had decided, in any flow, and clear what it had not."""
        with self._decisions.locked():
            for backfill in (False, True):
                TableCommit(replace(self._target, backfill=backfill)).carry_out_last()
            clear_staging(self._table)
            clear_staging(self._quarantine)

    def carry_out_last(self) -> None:
        decision = self._decisions.last()
        if decision is not None:
            self.prepare(Schema.from_json(decision.table_schema))
            self.carry_out(decision)

    def prepare(self, columns: Schema) -> None:
        self._table.prepare(columns)
        if self._quarantine is not self._table:
            self._quarantine.prepare(Schema.from_arrow(QUARANTINE_SCHEMA))

    def decide(self, batch: int, columns: Schema, parts: Sequence[PartWritten]) -> Decision:
        if (decided := self._decisions.of(batch)) is not None and decided.query == parts[0].query:
            return decided
        self._require_files(parts)
        before = self._decisions.last()
        total = Counts() if before is None else before.total
        for part in parts:
            total += part.counts
        return self._decisions.decide(
            Decision(
                query=parts[0].query,
                batch=batch,
                table_schema=columns.to_json(),
                table_files=tuple(each for part in parts for each in part.table_files),
                quarantine_files=tuple(each for part in parts for each in part.quarantine_files),
                total=total,
            )
        )

    def carry_out(self, decision: Decision) -> None:
        if self._decisions.carried_out(decision):
            return
        self._quarantine.add(decision.query, decision.batch, decision.quarantine_files)
        self._table.add(decision.query, decision.batch, decision.table_files)
        self._decisions.note_carried_out(decision)

    def _require_files(self, parts: Sequence[PartWritten]) -> None:
        """A run that came after us may have cleared them away; then the batch is its own."""
        for part in parts:
            for table, files in (
                (self._table, part.table_files),
                (self._quarantine, part.quarantine_files),
            ):
                if not all(written_path(table, each).exists() for each in files):
                    raise PipelineTrouble(f"another run has taken {table.path.name} over")

    def _discard_others(self, decision: Decision | None, parts: Sequence[PartWritten]) -> None:
        decided = {each.path for each in (() if decision is None else decision.all_files)}
        for part in parts:
            discard(self._table, [each for each in part.table_files if each.path not in decided])
            discard(
                self._quarantine,
                [each for each in part.quarantine_files if each.path not in decided],
            )
