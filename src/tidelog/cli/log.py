"""`tidelog log`: read the files of a log directory, running broker or not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.exits import answering, refuse
from tidelog.cli.names import no_such
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_line

if TYPE_CHECKING:
    from tidelog.cli.dump import Row

app = typer.Typer(help="Read the files that brokers write.", no_args_is_help=True)


def _must_exist(files: list[Path]) -> list[Path]:
    """A path that leads nowhere is refused with the name that is nearest to where it ends."""
    for path in files:
        at = path.absolute()
        while not at.parent.exists():
            at = at.parent
        if not at.exists():
            there = [each.name for each in at.parent.glob("*")]
            raise typer.BadParameter(f"{path}: {no_such('file', at.name, there)}")
    return files


@app.command()
def dump(
    file: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", dir_okay=False, readable=True, callback=_must_exist),
    ],
    deep: Annotated[bool, typer.Option("--deep", help="Also the records in each batch.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print what a file holds and check it.

    Segments (.log) and snapshots (.checkpoint): batches and records, checksums verified, with the
    records of __cluster_metadata decoded. Also .index, .timeindex, .txnindex, .snapshot,
    checkpoint files, partition.metadata, meta.properties and quorum-state. Where the file is
    damaged, the position and the reason are the last thing printed, and the exit code is 1.
    """
    with answering():
        from tidelog.cli.dump import rows_of

        damaged = []
        for path in file:
            if len(file) > 1:
                _print_rows([{"type": "file", "path": str(path)}], as_json)
            if _print_rows(rows_of(path, deep=deep), as_json):
                damaged.append(path)
        if damaged:
            refuse("damaged: " + ", ".join(map(str, damaged)))


def _print_rows(rows: Iterable[Row], as_json: bool) -> bool:
    """Print them one by one; whether one of them tells of damage."""
    damaged = False
    for row in rows:
        damaged = damaged or row["type"] == "damage"
        if as_json:
            print_json(row)
        else:
            print_line(" ".join([str(row["type"]), *_words(row)]))
    return damaged


def _words(row: Row) -> Iterable[str]:
    for name, value in row.items():
        if name == "type" or value is None or value is False:
            continue
        if value is True:
            yield name
        elif isinstance(value, int) or _is_plain_word(value):
            yield f"{name}={value}"
        else:
            yield f"{name}={json.dumps(value, ensure_ascii=False)}"


def _is_plain_word(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[A-Za-z0-9_./:-]+", value) is not None
