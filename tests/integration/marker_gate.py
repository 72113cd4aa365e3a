"""A door in front of a broker that lets everything pass but the ends of transactions.

Invariant  A frame passes whole and in order; what is held back passes when the door is opened, even
           if its sender has given up by then.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from tidelog.local.ports import free_ports
from tidelog.protocol.apis import ApiKey

MANY = 1 << 30


class MarkerGate:
    """Listens on a port of its own and speaks to `target`, once that is set."""

    def __init__(self) -> None:
        [self.port] = free_ports(1)
        self.target = 0
        self._may_pass = threading.Event()
        self._may_pass.set()
        self._left_to_hold = 0
        self._holds = threading.Event()
        self._answered = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._sockets = [self._listener]

    def __enter__(self) -> Self:
        _in_background(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._may_pass.set()
        for each in self._sockets:
            _hang_up(each)
            each.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def open(self) -> None:
        """Let the ends of transactions pass, those first that were held back."""
        self._left_to_hold = 0
        self._answered.clear()
        self._may_pass.set()

    def close(self, only: int = MANY) -> None:
        """Hold back so many ends of transactions, from now on until the door is opened."""
        self._left_to_hold = only
        self._holds.clear()
        self._may_pass.clear()

    def wait_for_a_marker(self, within_s: float = 20.0) -> None:
        """Until one has come that is held back."""
        assert self._holds.wait(within_s), "no marker was sent"

    def wait_for_an_answer(self, within_s: float = 20.0) -> None:
        """Until the broker has answered something since the door was opened for what it held."""
        assert self._answered.wait(within_s), "what was held back is not answered"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            for each in (client, broker):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, broker]
            _in_background(self._requests, client, broker)
            _in_background(self._answers, broker, client)

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        has_held = False
        with suppress(OSError), client.makefile("rb") as incoming:
            while len(size := incoming.read(4)) == 4:
                frame = incoming.read(int.from_bytes(size, "big"))
                is_end = int.from_bytes(frame[:2], "big") == ApiKey.WRITE_TXN_MARKERS
                if is_end and self._left_to_hold:
                    self._left_to_hold -= 1
                    has_held = True
                    self._holds.set()
                    self._may_pass.wait()
                    self._answered.clear()
                broker.sendall(size + frame)
        if not has_held:  # else its sender may be gone for long, and the broker still answers
            _hang_up(broker)

    def _answers(self, broker: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while piece := broker.recv(65_536):
                self._answered.set()
                with suppress(OSError):
                    client.sendall(piece)
        _hang_up(client)


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def _in_background(work: object, *arguments: socket.socket) -> None:
    assert callable(work)
    threading.Thread(target=work, args=arguments, daemon=True).start()
