"""What a table is for good: columns in their types, and what it is partitioned by.

Invariant  A column keeps its name and its type, a table its partitioning; only new columns come.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from deltalake import Field, Schema

from tidelog.pipelines.description.mistakes import PipelineTrouble


def new_columns(table: str, there: Schema, wanted: Schema) -> list[Field]:
    """Those that the table lacks; one that it has otherwise is refused."""
    known = {each.name.lower(): each for each in there.fields}
    new = []
    for field in wanted.fields:
        before = known.get(field.name.lower())
        if before is None:
            new.append(Field(field.name, field.type, nullable=True))
        elif before.name != field.name:
            raise PipelineTrouble(
                f"{table} has a column {before.name}, and {field.name} differs from it in case "
                f"alone: write {before.name}, or run with --full-refresh"
            )
        elif before.type != field.type:
            raise PipelineTrouble(
                f"column {field.name} of {table} is {_words(before)} and would be "
                f"{_words(field)}: give it another name, or run with --full-refresh"
            )
    return new


def require_partitioning(table: str, there: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse to partition a table by something else."""
    if list(there) != list(wanted):
        raise PipelineTrouble(
            f"{table} is partitioned by {', '.join(there) or 'nothing'} and would be by "
            f"{', '.join(wanted) or 'nothing'}: run with --full-refresh"
        )


def _words(field: Field) -> str:
    kind = json.loads(field.to_json())["type"]
    return kind if isinstance(kind, str) else str(kind["type"])
