"""Names of topics: which are allowed, and which cannot stand beside each other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_NAME_LENGTH: Final = 249
_INVALID: Final = "Topic name is invalid"
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def bad_name(name: str) -> str | None:
    """Why a topic cannot have this name; None when it can."""
    if not name:
        return f"{_INVALID}: the empty string is not allowed"
    if name in (".", ".."):
        return f"{_INVALID}: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return (
            f"{_INVALID}: the length of '{name}' is longer than the max allowed length "
            f"{MAX_NAME_LENGTH}"
        )
    if _LEGAL.fullmatch(name) is None:
        return (
            f"{_INVALID}: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def colliding(name: str, others: Iterable[str]) -> str | None:
    """Another name that differs only in '.' and '_', which metrics cannot tell apart."""
    if "." not in name and "_" not in name:
        return None
    folded = name.replace(".", "_")
    return next(
        (other for other in others if other != name and other.replace(".", "_") == folded), None
    )
