"""Building tables anew.

Invariant  Table, quarantine, decisions, start and checkpoint go together. The marker is written
           first and removed last, so a refresh that was cut short is finished by the next run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from tidelog.pipelines.durable import replace_file
from tidelog.pipelines.mistakes import PipelineTrouble, nearest
from tidelog.pipelines.spec import Pipeline, TableOutput
from tidelog.pipelines.state import State


def request_refresh(pipeline: Pipeline, tables: Iterable[str]) -> None:
    """Mark tables; the next run begins by forgetting them."""
    for name in tables:
        if name not in pipeline.tables:
            raise PipelineTrouble(f"there is no table {name}; {nearest(name, pipeline.tables)}")
        if not isinstance(pipeline.tables[name].output, TableOutput):
            raise PipelineTrouble(
                f"{name} is a topic, whose records cannot be taken back: give it another topic"
            )
        replace_file(State(pipeline.storage).refresh_marker(name), "")


def finish_refreshes(pipeline: Pipeline) -> None:
    """Forget what is marked."""
    state = State(pipeline.storage)
    for marker in state.refresh_marker("any").parent.glob("[a-z]*"):
        name = marker.name
        for directory in (
            state.checkpoints(name),
            state.decisions(name),
            state.table(name),
            state.quarantine(name),
        ):
            if directory.exists():
                shutil.rmtree(directory)
        state.start_file(name).unlink(missing_ok=True)
        state.schema_file(name).unlink(missing_ok=True)
        marker.unlink()
