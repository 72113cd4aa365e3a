"""Stories of the simulator as JSON on standard output: a process of its own for whoever must not
wait, or be held up, while the simulator runs.

    python -m tidelog.view.story_process                   the stories that there are
    python -m tidelog.view.story_process worked-example    one of them, run now
"""

from __future__ import annotations

import sys
from typing import Any

from tidelog.http.messages import json_text
from tidelog.model.errors import TidelogError
from tidelog.simulator.story.catalogue import STORIES, story
from tidelog.simulator.story.document import story_document


def main(arguments: list[str]) -> int:
    try:
        told: Any = story_document(story(arguments[0])) if arguments else _catalogue()
    except TidelogError as error:
        print(error, file=sys.stderr)
        return 1
    print(json_text(told))
    return 0


def _catalogue() -> list[dict[str, Any]]:
    return [
        {"name": each.name, "title": each.title, "about": each.about, "acts": len(each.acts)}
        for each in STORIES
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
