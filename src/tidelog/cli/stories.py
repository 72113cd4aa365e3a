"""`tidelog stories` and `tidelog story`: how replication works, one message at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.exits import answering
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_table
from tidelog.cli.pages import Open, Output, write_page


def stories(as_json: AsJson = False) -> None:
    """List the stories that `tidelog story` tells."""
    with answering():
        from tidelog.simulator.story.catalogue import STORIES

        if as_json:
            for each in STORIES:
                print_json({"name": each.name, "title": each.title, "about": each.about})
            return
        print_table(("name", "title"), [(each.name, each.title) for each in STORIES])


def story(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of `tidelog stories`.")],
    output: Output = None,
    opened: Open = False,
) -> None:
    """Run a story in the simulator and write it as one HTML file.

    Every step is a message, a fault or a decision, with a sentence and the state of all replicas.
    """
    with answering():
        from tidelog.simulator.story.catalogue import story as story_named
        from tidelog.simulator.story.document import story_document

        found = story_named(name)
        write_page(story_document(found), output or Path(f"{name}.html"), opened=opened)
