"""How far a run is, from what was decided so far; Spark's own events come too early or too late."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from tidelog.pipelines.description.mistakes import Tell
from tidelog.pipelines.description.spec import Pipeline, Table, TableOutput
from tidelog.pipelines.tables.decisions import Counts, Decisions

_EVERY_S: Final = 1.0


def totals(pipeline: Pipeline) -> dict[str, Counts]:
    """What became of all records of each table so far."""
    return {each.name: _total(pipeline, each) for each in pipeline.filled}


@contextmanager
def progress(pipeline: Pipeline, before: Mapping[str, Counts], tell: Tell) -> Iterator[None]:
    """Say of each table how many records it has taken, whenever that has changed."""
    over = threading.Event()

    def watch() -> None:
        said: dict[str, Counts] = dict(before)
        while not over.wait(_EVERY_S):
            for name, total in totals(pipeline).items():
                if total != said[name]:
                    said[name] = total
                    done = total - before[name]
                    tell(f"{name}: {done.all} records, {done.quarantined} to quarantine")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _total(pipeline: Pipeline, table: Table) -> Counts:
    stored = isinstance(table.output, TableOutput)
    directory = pipeline.state.decisions(table.name if stored else f"{table.name}_quarantine")
    last = Decisions(directory, backfill=pipeline.state.backfill).last()
    return Counts() if last is None else last.total
