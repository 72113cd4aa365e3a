"""The driver's decision about a batch: which files it consists of, in table and quarantine.

Invariant  A batch has one decision. It is created exclusively, so of two drivers, or of two runs,
           the first one's holds; whoever comes later carries out what is written.
Invariant  What was carried out is noted, and from then on the files are the table's: its readers
           and its owner may merge and remove them.
Invariant  Decisions of a flow belong to one query: another checkpoint would give the same
           numbers to other batches. A backfill is a flow of its own.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.tables.durable import create_file, replace_file
from tidelog.pipelines.tables.table_files import FileWritten, file_from

BACKFILL: Final = "backfill"
_KEPT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What became of the records of a batch, or of all batches up to it."""

    rows: int = 0
    quarantined: int = 0
    dropped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            rows=self.rows + other.rows,
            quarantined=self.quarantined + other.quarantined,
            dropped=self.dropped + other.dropped,
        )

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            rows=self.rows - other.rows,
            quarantined=self.quarantined - other.quarantined,
            dropped=self.dropped - other.dropped,
        )

    @property
    def all(self) -> int:
        return self.rows + self.quarantined + self.dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """All that carrying out needs to know."""

    query: str
    batch: int
    table_schema: str
    table_files: tuple[FileWritten, ...]
    quarantine_files: tuple[FileWritten, ...]
    total: Counts

    @property
    def all_files(self) -> tuple[FileWritten, ...]:
        return (*self.table_files, *self.quarantine_files)

    def to_json(self) -> str:
        return json.dumps(
            {
                "query": self.query,
                "batch": self.batch,
                "table_schema": json.loads(self.table_schema),
                "table_files": [each._asdict() for each in self.table_files],
                "quarantine_files": [each._asdict() for each in self.quarantine_files],
                "total": asdict(self.total),
            }
        )

    @staticmethod
    def from_json(text: str) -> Decision:
        stored = json.loads(text)
        return Decision(
            query=stored["query"],
            batch=stored["batch"],
            table_schema=json.dumps(stored["table_schema"]),
            table_files=tuple(map(file_from, stored["table_files"])),
            quarantine_files=tuple(map(file_from, stored["quarantine_files"])),
            total=Counts(**stored["total"]),
        )


class Decisions:
    """The decisions of one flow of a table, in a directory of their own."""

    def __init__(self, directory: Path, *, backfill: bool = False) -> None:
        self._table = directory
        self._directory = directory / BACKFILL if backfill else directory

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Alone with the table: an old driver may still be alive."""
        self._table.mkdir(parents=True, exist_ok=True)
        with open(self._table / ".lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def of(self, batch: int) -> Decision | None:
        path = self._path(batch)
        return Decision.from_json(path.read_text(encoding="utf-8")) if path.exists() else None

    def last(self) -> Decision | None:
        batches = self._batches()
        return self.of(batches[-1]) if batches else None

    def decide(self, decision: Decision) -> Decision:
        """Make this the decision of its batch, unless there is one; gives the one that holds."""
        before = self.last()
        if before is not None and before.query != decision.query:
            raise PipelineTrouble(
                f"{self._table.name} was written by another checkpoint, which is gone: rows "
                "would be repeated. Run with --full-refresh to build the table anew"
            )
        create_file(self._path(decision.batch), decision.to_json())
        found = self.of(decision.batch)
        assert found is not None
        return found

    def carried_out(self, decision: Decision) -> bool:
        """Whether table and quarantine are known to have the batch."""
        path = self._carried_out
        return path.exists() and int(path.read_text(encoding="utf-8")) >= decision.batch

    def note_carried_out(self, decision: Decision) -> None:
        replace_file(self._carried_out, str(decision.batch))

    def forget_old(self) -> None:
        """Spark never goes back further than one batch."""
        for batch in self._batches()[:-_KEPT]:
            self._path(batch).unlink()

    @property
    def _carried_out(self) -> Path:
        return self._directory / "carried_out"

    def _batches(self) -> list[int]:
        return sorted(int(each.stem) for each in self._directory.glob("*.json"))

    def _path(self, batch: int) -> Path:
        return self._directory / f"{batch:09d}.json"
