"""Pages that commands write: where they go, and who opens them."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli.output import print_line, say

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        dir_okay=False,
        show_default="named after what it shows",
        help="Write the page here.",
    ),
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def write_page(document: Mapping[str, Any], file: Path, *, opened: bool) -> None:
    """One file that needs nothing else; its name is data, how big it is talk."""
    from tidelog.view.page import single_page

    page = single_page(str(document["title"]), document)
    file.write_text(page, encoding="utf-8")
    steps = sum(len(act["steps"]) for act in document["acts"])
    print_line(str(file))
    say(f"{steps} steps, {len(page.encode()) / 1000:.0f} kB, nothing else needed: open or mail it")
    if opened and not webbrowser.open(file.resolve().as_uri()):
        say(f"no browser could be started; open {file.resolve()}")
