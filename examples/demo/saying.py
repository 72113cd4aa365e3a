"""What the demo says, with the time since it began."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rich.console import Console

console: Final = Console(highlight=False, soft_wrap=True)
_began: Final = time.monotonic()


def elapsed_s() -> float:
    return time.monotonic() - _began


def say(text: str) -> None:
    console.print(f"[dim]{elapsed_s():7.3f} s[/dim]  {text}")


def wait(
    condition: Callable[[], bool], what: str, patience_s: float = 30, every_s: float = 0.02
) -> None:
    """Go on once something is so; `what` says what it means if it never is."""
    until = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > until:
            raise SystemExit(f"{patience_s:g} s went by and {what}")
        time.sleep(every_s)
