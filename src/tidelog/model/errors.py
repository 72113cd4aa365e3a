"""The three kinds of wrong.

Refusal          an answer the protocol foresees; travels as a value, never as an exception.
TidelogError     the world let us down (disk, peer, configuration); the shell decides what to do.
InvariantBroken  our own reasoning let us down; nothing may catch it, the node stops.
"""

from __future__ import annotations

from dataclasses import dataclass

from kio.schema.errors import ErrorCode

__all__ = [
    "ConfigError",
    "DiskError",
    "ErrorCode",
    "InvariantBroken",
    "Refusal",
    "TidelogError",
    "invariant",
]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer the protocol foresees, with the code a client gets and the reason in words."""

    code: ErrorCode
    why: str


class TidelogError(Exception):
    """The world let us down: disk, peer, configuration."""


class DiskError(TidelogError):
    """A file operation failed; the directory it happened in can no longer be trusted."""


class ConfigError(TidelogError):
    """A setting is unknown or has a value that cannot work; the message names the fix."""


class InvariantBroken(BaseException):
    """Our own reasoning let us down. `except Exception` cannot swallow this."""


def invariant(condition: bool, message: str) -> None:
    """Stop the node when something we reasoned to be impossible has happened."""
    if not condition:
        raise InvariantBroken(message)
