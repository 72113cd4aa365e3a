"""Waiting for a cluster to get somewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 300.0


def wait(condition: Callable[[], bool], what: str) -> float:
    """Seconds until something is so; `what` says what it means if it never is."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > PATIENCE_S:
            raise SystemExit(f"{PATIENCE_S:g} s went by and {what}")
        time.sleep(0.01)
    return time.monotonic() - began
