"""Building tables anew.

Invariant  Table, quarantine, decisions, start and checkpoint go together. The marker is written
           first and removed last, so a refresh that was cut short is finished by the next run.
Invariant  Where a table is to start is found before anything is removed. The marker keeps it until
           it is pinned, so a refresh that was cut short builds from there on.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection

from tidelog.model.nearest import nearest
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import Pipeline, SparkOutput, TopicOutput, starting_from
from tidelog.pipelines.project.source_options import start_json, start_of
from tidelog.pipelines.run.backfill import forget_backfill
from tidelog.pipelines.tables.durable import replace_file


def request_refresh(pipeline: Pipeline, tables: Collection[str], start: str | None = None) -> None:
    """Mark tables; the next run begins by forgetting them, and builds them from `start` on."""
    for name in tables:
        if name not in pipeline.tables:
            raise PipelineTrouble(f"there is no table {name}; {nearest(name, pipeline.tables)}")
        output = pipeline.tables[name].output
        if isinstance(output, SparkOutput):
            raise PipelineTrouble(
                f"{name} is a table of Spark's {output.format}, which only you can drop: drop it "
                "and give it another name here"
            )
        if isinstance(output, TopicOutput):
            raise PipelineTrouble(
                f"{name} is a topic, whose records cannot be taken back: give it another topic"
            )
    starts = dict.fromkeys(tables, "")
    if start is not None:
        moved = starting_from(pipeline, tables, start)
        starts = {name: start_json(start_of(moved, name)) for name in tables}
    for name, text in starts.items():
        replace_file(pipeline.state.refresh_marker(name), text)


def finish_refreshes(pipeline: Pipeline) -> None:
    """Forget what is marked, and what a backfill had still to bring to it."""
    state = pipeline.state
    for marker in state.refresh_marker("any").parent.glob("[a-z]*"):
        name = marker.name
        forget_backfill(state, name)
        for directory in (
            state.checkpoints(name),
            state.decisions(name),
            state.table(name),
            state.quarantine(name),
        ):
            if directory.exists():
                shutil.rmtree(directory)
        if start := marker.read_text(encoding="utf-8"):
            replace_file(state.start_file(name), start)
        else:
            state.start_file(name).unlink(missing_ok=True)
        state.schema_file(name).unlink(missing_ok=True)
        marker.unlink()
