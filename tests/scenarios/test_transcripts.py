"""Every transcript is replayed and must tell the same again.

After a change on purpose: `tidelog sim --scenario FILE --accept`, and look at the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.model.errors import ConfigError
from tidelog.simulator.transcript import is_transcript, replay

STORIES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)
def test_a_transcript_tells_the_same_again(story: Path) -> None:
    text = story.read_text(encoding="utf-8")

    assert is_transcript(text)
    assert replay(text).splitlines() == text.splitlines()


def test_the_worked_example_is_told() -> None:
    told = (Path(__file__).parent / "worked_example.txt").read_text(encoding="utf-8")

    for moment in (
        "101 leads epoch=1",
        "100 leads epoch=2 in-sync=100,102 start=0 mark=0 end=3",
        "refused: OFFSET_NOT_AVAILABLE",
        "102: orders-0 truncated from 5 to 3: epoch 1 ends at 3 in the log of leader 100",
        "101: orders-0 truncated from 5 to 3: epoch 1 ends at 3 in the log of leader 100",
        "101 leads epoch=3 in-sync=100,101,102",
    ):
        assert moment in told


def test_a_story_begins_with_its_cluster() -> None:
    with pytest.raises(ConfigError, match="line 1: > pass 5: the first command is: cluster"):
        replay("> pass 5\n")


def test_what_came_of_commands_is_not_read() -> None:
    story = "# A word.\n> cluster brokers=1\n"

    assert replay(story + "nonsense\n") == replay(story)
