"""The table of a run: one row a figure, one column a server."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks.workloads import Figure


def show(title: str, columns: dict[str, list[Figure]]) -> None:
    """With two servers, also how ours relates to the other."""
    table = Table(title=title)
    table.add_column("figure")
    for name in columns:
        table.add_column(name, justify="right")
    if len(columns) == 2:
        table.add_column("ratio", justify="right")
    rows = zip(*columns.values(), strict=True)
    for row in rows:
        cells = [f"{figure.value:,.2f} {figure.unit}" for figure in row]
        if len(row) == 2:
            cells.append(f"{row[0].value / row[1].value:.2f}")
        table.add_row(row[0].name, *cells)
    Console().print(table)
