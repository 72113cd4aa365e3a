"""Stories are run by processes of their own, once for all who ask."""

from __future__ import annotations

import asyncio

import pytest

from tidelog.view.stories import Stories, StoryFailed


def test_a_story_is_run_once_for_all_who_ask_and_nothing_runs_on() -> None:
    async def ask() -> tuple[bytes, bytes, bytes]:
        stories = Stories()
        one, other = await asyncio.gather(
            stories.story("leader-balance"), stories.story("leader-balance")
        )
        later = await stories.story("leader-balance")
        waits = asyncio.ensure_future(stories.story("zombie-leader"))
        await asyncio.sleep(0)
        await stories.end()
        with pytest.raises(asyncio.CancelledError):
            await waits
        return one, other, later

    one, other, later = asyncio.run(ask())

    assert one is other is later


def test_a_story_that_failed_is_run_again_when_somebody_asks_again() -> None:
    async def ask() -> None:
        stories = Stories()
        with pytest.raises(StoryFailed, match="there is no story 'nothing'") as first:
            await stories.story("nothing")
        with pytest.raises(StoryFailed) as second:
            await stories.story("nothing")
        assert second.value is not first.value

    asyncio.run(ask())
