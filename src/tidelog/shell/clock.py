"""The machine's clocks."""

from __future__ import annotations

import time

from tidelog.model.time import Now


def read_clock() -> Now:
    """This moment on both clocks."""
    return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)
