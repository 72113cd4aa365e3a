"""The text form of every checkpoint file: version, number of entries, one entry a line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

VERSION: Final = "0"


def encode_checkpoint(entries: Iterable[Iterable[object]]) -> bytes:
    """Entries as lines of fields with one space between them."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    return "\n".join((VERSION, str(len(lines)), *lines, "")).encode("ascii")


def decode_checkpoint(content: bytes, fields: int) -> list[list[str]]:
    """The fields of every entry; ValueError for anything that is not such a file in full.

    An empty file has no entries: it is what a broker finds that never wrote one.
    """
    if not content:
        return []
    version, *rest = content.decode("ascii").split("\n")
    if version.strip() != VERSION:
        raise ValueError(f"version {version!r} of a checkpoint file is not known")
    if len(rest) < 2 or rest.pop():
        raise ValueError("the last line has no end")
    count, *lines = rest
    entries = [line.split() for line in lines]
    if len(entries) != number(count.strip()):
        raise ValueError(f"{count} entries announced, {len(entries)} found")
    if any(len(entry) != fields for entry in entries):
        raise ValueError(f"an entry does not have {fields} fields")
    return entries


def number(field: str) -> int:
    """An epoch, partition or offset: digits and nothing else, ValueError otherwise."""
    if not (field.isascii() and field.isdigit()):
        raise ValueError(f"{field!r} is not a number from 0 up")
    return int(field)
