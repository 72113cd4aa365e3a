"""What a command says and where: data on stdout, talk on stderr.

Invariant  Nothing but data goes to stdout, so a pipe behind a command never sees a message.
Invariant  Colour appears only on a terminal, and not there either when NO_COLOR is set.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def say(message: str, *, style: str | None = None) -> None:
    """One message to the person at the terminal."""
    if style is None or not sys.stderr.isatty():
        print(message, file=sys.stderr, flush=True)
        return
    from rich.text import Text

    _console(stderr=True).print(Text(message, style=style), soft_wrap=True)


def print_json(value: Mapping[str, Any]) -> None:
    """One object on one line."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def print_line(text: str) -> None:
    """One line of data."""
    sys.stdout.write(text + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table without borders; columns whose cells are all numbers are aligned to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    heads = [name.upper() for name in columns]
    numeric = [
        bool(cells) and all(isinstance(row[index], int) for row in cells)
        for index in range(len(heads))
    ]
    if sys.stdout.isatty():
        _print_for_people(heads, cells, numeric)
        return
    # Without a terminal there is no width to respect, and wrapping would cut data.
    lines = [heads, *([str(cell) for cell in row] for row in cells)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(heads))]
    for line in lines:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        print_line("  ".join(padded).rstrip())


def size_text(size: int | None) -> str:
    """Bytes in a unit that a person reads at a glance."""
    if size is None:
        return "unknown"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"


def counted(number: int, noun: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _print_for_people(
    heads: Sequence[str], cells: Sequence[Sequence[int | str]], numeric: Sequence[bool]
) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, right in zip(heads, numeric, strict=True):
        table.add_column(Text(name), justify="right" if right else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(str(cell)) for cell in row))
    _console(stderr=False).print(table)


def _cell(value: object) -> int | str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "-"
    return str(value)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)
