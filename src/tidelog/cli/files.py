"""Files that a user names."""

from __future__ import annotations

from pathlib import Path

from tidelog.cli.exits import refuse


def text_of(file: Path) -> str:
    """What is in it, or a refusal that says where it is no text."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        refuse(f"{file}:{line}: not UTF-8: save it as such")
