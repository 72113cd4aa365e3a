"""PLAIN (RFC 4616): the password itself, in one message; for encrypted connections only.

Invariant  Passwords are compared in a time that does not depend on them, also for a user that does
           not exist.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from tidelog.security.exchange import AuthenticationFailed, Proved


class PlainServer:
    """One exchange, as the server sees it."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def respond(self, token: bytes) -> Proved:
        """Who the client has proved to be."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError as error:
            raise AuthenticationFailed("the message is not text") from error
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise AuthenticationFailed("the message cannot be read")
        acting_for, user, password = parts
        expected = self._users.get(user)
        is_right = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None:
            raise AuthenticationFailed("no user of this name has this password")
        if not is_right:
            raise AuthenticationFailed("the password is wrong", user)
        if acting_for not in ("", user):
            raise AuthenticationFailed("a user cannot act for another one", user)
        return Proved(user, b"")


class PlainClient:
    """The same, as the client sees it."""

    def __init__(self, user: str, password: str) -> None:
        self._message = f"\0{user}\0{password}".encode()
        self.is_complete = False

    def begin(self) -> bytes:
        """The only message."""
        return self._message

    def respond(self, token: bytes) -> None:
        """The server has nothing to prove."""
        if token:
            raise AuthenticationFailed("the server's answer cannot be read")
        self.is_complete = True
