"""Addresses of peers: numbers at once, names by asking the system away from the loop.

A look-up may take as long as the name server is silent, so it has a thread of its own: neither the
loop nor the jobs that sync files wait for it, and not even the end of the process does.

Invariant  At most one look-up per name is under way, however many ask for it.
Invariant  Whoever asks for a name hears the result on the loop, never before `resolve` returns.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias


class SocketAddress(NamedTuple):
    """Where to connect, in the words of the socket calls."""

    family: int
    address: tuple[Any, ...]


Found: TypeAlias = Callable[[Sequence[SocketAddress] | OSError], None]


class HostNames:
    """The look-ups under way."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asked: dict[tuple[str, int], list[Found]] = {}

    def resolve(self, host: str, port: int, found: Found) -> None:
        """Find all addresses of a host, in the order in which they should be tried."""
        try:
            numeric = _look_up(host, port, socket.AI_NUMERICHOST)
        except (OSError, ValueError):
            self._ask_for_name(host, port, found)
            return
        self._loop.call_soon(found, numeric)

    def _ask_for_name(self, host: str, port: int, found: Found) -> None:
        waiting = self._asked.setdefault((host, port), [])
        waiting.append(found)
        if len(waiting) == 1:
            threading.Thread(
                target=self._work, args=(host, port), name=f"tidelog-name-{host}", daemon=True
            ).start()

    def _work(self, host: str, port: int) -> None:
        result: Sequence[SocketAddress] | OSError
        try:
            result = _look_up(host, port)
        except OSError as error:
            result = error
        except ValueError as error:
            result = OSError(f"{host!r} is not a host name: {error}")
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._report, (host, port), result)

    def _report(self, asked: tuple[str, int], result: Sequence[SocketAddress] | OSError) -> None:
        for found in self._asked.pop(asked):
            found(result)


def _look_up(host: str, port: int, flags: int = 0) -> list[SocketAddress]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [SocketAddress(int(family), address) for family, _, _, _, address in found]
