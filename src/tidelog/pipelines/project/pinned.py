"""Schemas that were inferred once and hold from then on.

Invariant  A pinned column keeps its name and its type for good; only new ones are added, behind.
"""

from __future__ import annotations

import json
from pathlib import Path

from tidelog.pipelines.description.spec import Column, Pipeline
from tidelog.pipelines.tables.durable import replace_file


def pinned_columns(pipeline: Pipeline, table: str) -> tuple[Column, ...] | None:
    """What is pinned for the table; None before its first run."""
    path = _path(pipeline, table)
    if not path.exists():
        return None
    stored = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Column(name, type_text) for name, type_text in stored.items())


def pin_columns(pipeline: Pipeline, table: str, found: tuple[Column, ...]) -> list[Column]:
    """Pin what is new in `found`; gives the new ones."""
    before = pinned_columns(pipeline, table) or ()
    known = {each.name.lower() for each in before}
    new = [each for each in found if each.name.lower() not in known]
    if new:
        columns = {each.name: each.type for each in (*before, *new)}
        replace_file(_path(pipeline, table), json.dumps(columns, indent=2) + "\n")
    return new


def _path(pipeline: Pipeline, table: str) -> Path:
    return pipeline.state.schema_file(table)
