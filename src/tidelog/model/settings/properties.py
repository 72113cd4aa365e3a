"""Java's .properties text form, as Kafka's configuration and identity files use it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tidelog.model.errors import ConfigError

_WHITE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE = re.compile("[0-9a-fA-F]{4}")


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of a .properties text; a key given twice has its last value."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        found[_unescape(key)] = _unescape(value)
    return found


def write_properties(values: Mapping[str, str]) -> str:
    """A .properties text that `parse_properties` reads back, one key a line in the order given."""
    return "".join(
        f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}\n"
        for key, value in values.items()
    )


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with their continuations joined, without blank lines and comments."""
    pending: str | None = None
    for raw in re.split("\r\n|\r|\n", text):
        line = raw.lstrip(_WHITE)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        pending = None
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2 == 1:
            pending = line[:-1]
        else:
            yield line
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    """Cut at the first unescaped `=`, `:` or white space."""
    position = 0
    while position < len(line) and line[position] not in "=:" + _WHITE:
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(_WHITE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_WHITE)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            plain.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if not _UNICODE.fullmatch(digits):
                raise ConfigError(
                    f"\\u{digits} is not a character: four hex digits must follow \\u"
                )
            plain.append(chr(int(digits, 16)))
            position += 4
        else:
            plain.append(_ESCAPES.get(escaped, escaped))
    # Java writes characters beyond the basic plane as two escapes.
    return "".join(plain).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, *, is_key: bool) -> str:
    escaped = text.replace("\\", "\\\\")
    for letter, character in _ESCAPES.items():
        escaped = escaped.replace(character, f"\\{letter}")
    if is_key:
        return re.sub("([ =:#!])", r"\\\1", escaped)
    return re.sub("^ ", r"\\ ", escaped)
