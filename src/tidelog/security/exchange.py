"""What all mechanisms of SASL have in common.

Invariant  No message of `AuthenticationFailed` holds what was to be proved with.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class AuthenticationFailed(Exception):
    """A peer has not proved who it is; `user` is whom it claimed to be, if there is such a user."""

    def __init__(self, why: str, user: str | None = None) -> None:
        super().__init__(why)
        self.user = user


class Proved(NamedTuple):
    """A client is who it says."""

    user: str
    token: bytes
    """The server's last message, which proves the server where the mechanism can."""


class SaslServer(Protocol):
    """One exchange, as the server sees it."""

    def respond(self, token: bytes) -> bytes | Proved:
        """The answer to a message of the client, or who it has proved to be."""
        ...


class SaslClient(Protocol):
    """One exchange, as the client sees it."""

    @property
    def is_complete(self) -> bool:
        """Whether the server has proved itself, where the mechanism wants it to."""
        ...

    def begin(self) -> bytes:
        """The first message."""
        ...

    def respond(self, token: bytes) -> bytes | None:
        """The answer to a message of the server; None when there is nothing more to say."""
        ...
