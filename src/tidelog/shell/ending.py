"""How a node's process ended: a file that it leaves behind for whoever asks later.

Whoever starts a node without staying to wait for it learns its exit code from nobody.

Invariant  The room for the last word is taken at the start: a disk that is full when a node ends
           does not keep it from telling so.
Invariant  A file that says nothing is left by a process that had no time to write: SIGKILL, the
           out-of-memory killer, a crash of the interpreter, a power cut.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

_ROOM: Final = 4096
_LONGEST: Final = 600
"""Characters of a reason; six bytes each still fit."""


class Cause(StrEnum):
    """Why a process is no more."""

    CLEAN = "clean"
    FAILED = "failed"
    """It could not start or go on, found that out itself and said so."""
    CRASHED = "crashed"
    """An invariant did not hold, or something else that must not happen did."""
    KILLED = "killed"
    UNKNOWN = "unknown"


class Ending(NamedTuple):
    """What is known of an end."""

    cause: Cause
    exit_code: int | None
    reason: str


def reserve(path: Path) -> None:
    """Make room for the last word of a process that starts now; older words go."""
    path.write_bytes(b" " * _ROOM)


def leave(path: Path, ending: Ending) -> None:
    """Write the last word, in place; a disk that refuses even that is not waited for."""
    told = ending._replace(reason=ending.reason[:_LONGEST])
    text = json.dumps(told._asdict(), ensure_ascii=False)
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(file, text.encode().ljust(_ROOM), 0)
        finally:
            os.close(file)


def read(path: Path) -> Ending | None:
    """The last word; None when there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Ending(Cause(found["cause"]), found["exit_code"], str(found["reason"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
