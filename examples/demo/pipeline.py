"""The pipeline of the demo: orders as JSON to bronze, to silver with a rule, to revenue."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from deltalake import DeltaTable

PIPELINE: Final = """\
name: shop
bootstrap: {bootstrap}
storage: tables
tables:
  bronze:
    topics: orders
    start: earliest
    format: delta
    decode:
      format: json
      schema:
        order_id: bigint not null
        customer: string
        amount: double
        country: string
  silver:
    from: bronze
    format: delta
    steps:
      - with:
          day: to_date(_timestamp)
          country: upper(country)
    rules:
      amount is positive: amount > 0
views:
  daily_revenue:
    sql: >
      SELECT day, country, count(*) AS orders, round(sum(amount), 2) AS revenue
      FROM silver GROUP BY day, country ORDER BY day, country
"""
TIDELOG: Final = str(Path(sys.executable).with_name("tidelog"))


class Pipeline:
    """Runs whenever high watermarks move, in a process of its own, while the block lasts."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        (directory / "pipeline.yaml").write_text(PIPELINE.format(bootstrap=bootstrap))
        self.log = directory / "watch.log"
        self._watching: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            command = [TIDELOG, "pipelines", "watch", str(self.directory)]
            self._watching = subprocess.Popen(command, stdout=log, stderr=log)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._watching is not None and self._watching.poll() is None:
            self._watching.terminate()
            try:
                self._watching.wait(60)
            except subprocess.TimeoutExpired:
                self._watching.kill()

    def audit(self) -> bool:
        """Let the pipeline's audit say what it finds; whether that is nothing."""
        return subprocess.run([TIDELOG, "pipelines", "audit", str(self.directory)]).returncode == 0

    def has_taken(self, count: int) -> bool:
        """Whether that many records have come to the end of the pipeline, its view included."""
        if self._watching is not None and self._watching.poll() is not None:
            raise SystemExit(f"the pipeline has ended:\n{self.log.read_text()[-2000:]}")
        refused = len(self._column("silver_quarantine", "_offset"))
        return bool(sum(self._column("daily_revenue", "orders")) + refused >= count)

    def revenue(self) -> list[dict[str, Any]]:
        """The rows of the view."""
        path = self.directory / "tables" / "daily_revenue"
        rows: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
        return rows

    def orders_in(self, table: str) -> Counter[int]:
        """How often each order is in a table."""
        return Counter(self._column(table, "order_id"))

    def orders_refused_by(self, table: str) -> Counter[int]:
        """How often each order is in the quarantine of a table, which keeps the record's bytes."""
        return Counter(
            json.loads(each)["order_id"] for each in self._column(f"{table}_quarantine", "_value")
        )

    def _column(self, table: str, name: str) -> list[Any]:
        path = self.directory / "tables" / table
        if not DeltaTable.is_deltatable(str(path)):
            return []
        column: list[Any] = DeltaTable(path).to_pyarrow_table(columns=[name])[name].to_pylist()
        return column
