"""Bytes of a record in JSON: text where they are text, base64 under another name where not."""

from __future__ import annotations

from base64 import b64encode


def text_or_base64(name: str, content: bytes | memoryview | None) -> dict[str, str | None]:
    """`{name: text}`, or `{name_base64: …}` for bytes that are not UTF-8."""
    if content is None:
        return {name: None}
    try:
        return {name: bytes(content).decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(content).decode("ascii")}
