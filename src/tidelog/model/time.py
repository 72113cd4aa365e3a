"""Time as a value: every input carries it, nothing in pure code asks for it.

Invariant  Timeouts, sessions and lag use `monotonic_ms`; only timestamps that people or clients
           see use `wall_ms`, which may jump in either direction.
"""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """One moment on both clocks."""

    monotonic_ms: int
    wall_ms: int
