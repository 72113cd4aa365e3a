"""The simulator's stories, for pages: each is run once, by a process of its own, and kept.

Invariant  A story that runs holds up nothing: neither the view's loop nor its threads wait for it.
Invariant  Whoever asks for a story that runs already waits for that run.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from tidelog.model.errors import TidelogError

_MODULE: Final = "tidelog.view.story_process"
_LONGEST_S: Final = 120.0


class StoryFailed(TidelogError):
    """A story could not be told; the message says why."""


class Stories:
    """What was told so far."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, ...], asyncio.Task[bytes]] = {}

    async def catalogue(self) -> bytes:
        """Names, titles and what each is about, as JSON."""
        return await self._told()

    async def story(self, name: str) -> bytes:
        """One of them, as JSON; `StoryFailed` when there is none of that name."""
        return await self._told(name)

    async def end(self) -> None:
        """Let nothing run on."""
        for run in self._runs.values():
            run.cancel()
        await asyncio.gather(*self._runs.values(), return_exceptions=True)

    async def _told(self, *arguments: str) -> bytes:
        run = self._runs.get(arguments)
        if run is None:
            run = self._runs[arguments] = asyncio.ensure_future(_output_of(*arguments))
        try:
            return await asyncio.shield(run)
        finally:
            if run.done() and (run.cancelled() or run.exception() is not None):
                self._runs.pop(arguments, None)  # the next one may fare better


async def _output_of(*arguments: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", _MODULE, *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_LONGEST_S):
            output, complaint = await process.communicate()
    except TimeoutError as error:
        raise StoryFailed(f"the simulator was not done within {_LONGEST_S:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = complaint.decode("utf-8", "replace").strip().splitlines()
        raise StoryFailed(lines[-1] if lines else f"the simulator ended with {process.returncode}")
    return output
