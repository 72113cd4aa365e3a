"""The sentences of every story as text, one file each beside this one, in `told`.

After a change on purpose: `python -m tests.simulator.story.told_stories`, and look at the
difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidelog.simulator.story.catalogue import STORIES
from tidelog.simulator.story.document import story_document

TOLD = Path(__file__).parent / "told"


def told(document: dict[str, Any]) -> str:
    """Captions, steps and their sentences; a star stands before what matters."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    yield f"{document['title']}. {document['about']}"
    for act in document["acts"]:
        yield ""
        yield f"== {act['title'] or 'one act'}: {act['partition']}"
        chapter = None
        for number, step in enumerate(act["steps"], 1):
            if step["chapter"] != chapter:
                chapter = step["chapter"]
                yield f"# {act['captions'][chapter]}"
            message = step["message"]
            way = "" if message is None else f"[{message[0]} > {message[1]}: {message[3]}] "
            yield f"{number}{'*' if step['matters'] else ''} {way}{step['text']}"


if __name__ == "__main__":
    for each in STORIES:
        (TOLD / f"{each.name}.txt").write_text(told(story_document(each)), encoding="utf-8")
