"""Where a pipeline keeps what: tables for everybody, the rest in a hidden directory of its own.

tables/orders               a table
tables/orders_quarantine    what could not become a row of it
tables/_tidelog/            checkpoints, decisions, pinned schemas, starts, the project
tables/_tidelog/backfill/   those of a backfill: its request, checkpoints, starts, ends, project
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class State(NamedTuple):
    """The paths below a pipeline's `storage`."""

    storage: Path
    backfill: bool = False
    """Whether the flows are those of a backfill."""

    @property
    def root(self) -> Path:
        return self.storage / "_tidelog"

    @property
    def flows(self) -> Path:
        """What each set of flows has for itself."""
        return self.root / "backfill" if self.backfill else self.root

    @property
    def project(self) -> Path:
        return self.flows / "project"

    @property
    def backfill_request(self) -> Path:
        return self.root / "backfill" / "request.json"

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"

    @property
    def warehouse(self) -> Path:
        """Where Spark computes views; nobody else reads here."""
        return self.root / "warehouse"

    @property
    def log(self) -> Path:
        return self.root / "spark.log"

    def table(self, name: str) -> Path:
        return self.storage / name

    def quarantine(self, name: str) -> Path:
        return self.storage / f"{name}_quarantine"

    def schema_file(self, table: str) -> Path:
        return self.root / "schemas" / f"{table}.json"

    def start_file(self, table: str) -> Path:
        return self.flows / "starts" / f"{table}.json"

    def end_file(self, table: str) -> Path:
        """Where the flow of a backfill ends."""
        return self.flows / "ends" / f"{table}.json"

    def decisions(self, table: str) -> Path:
        """Those of all flows, which share a lock."""
        return self.root / "decisions" / table

    def is_backfilled(self, table: str) -> bool:
        """Whether a backfill of the table was asked for and is not done."""
        older = self._replace(backfill=True)
        return self.backfill_request.exists() and older.end_file(table).exists()

    def refresh_marker(self, table: str) -> Path:
        return self.root / "refresh" / table

    def checkpoints(self, table: str) -> Path:
        """Spark's: one directory per sink, flow and generation."""
        return self.flows / "_checkpoints" / f"{table}_sink"
