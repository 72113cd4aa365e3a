"""The HTTP listener of a node: who asks over it is answered, and can do no harm."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator

from tidelog.http.server import HttpServer
from tidelog.observe.events import Event
from tidelog.observe.metrics import Metric, one
from tidelog.shell.clock import read_clock
from tidelog.shell.effects import NodeDriver
from tidelog.shell.event_history import EventHistory
from tidelog.shell.event_journal import EventJournal
from tidelog.shell.listener import Listener
from tidelog.shell.node_routes import InspectedNode, NodeRoutes
from tidelog.shell.process_metrics import HTTP_CONNECTIONS, LoopDelay, process_metrics


class NodeHttp:
    """Opened when the loop runs, closed before the loop is."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        node: InspectedNode,
        driver: NodeDriver,
        journal: EventJournal,
        journal_path: str | None,
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._node = node
        self._driver = driver
        self._journal = journal
        self._history = None if journal_path is None else EventHistory(journal, journal_path)
        self._started_s = time.time()
        self._delay = LoopDelay(loop)
        self._server: HttpServer | None = None
        self._routes: NodeRoutes | None = None

    @property
    def url(self) -> str:
        _, host, port = self._listener.endpoint
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def open(self, announce: Callable[[Event], None]) -> None:
        """Answer from now on; the node has started."""
        self._routes = NodeRoutes(
            self._loop, self._node, self._process_metrics, self._history, self._report
        )
        self._server = HttpServer(self._loop, self._routes.routes, self._report)
        self._delay.start()
        self._listener.open(self._loop, self._accepted, announce)

    async def close(self) -> None:
        """Hang up on everybody."""
        self._delay.stop()
        self._listener.close(self._loop)
        if self._server is not None:
            await self._server.close()
        if self._routes is not None:
            await self._routes.close()

    def _accepted(self, _name: str, peer: socket.socket, _host: str) -> int:
        if self._server is not None:
            self._server.take(peer)
        return 0

    def _report(self, problem: str) -> None:
        self._journal.say(f"a question over HTTP failed: {problem}", read_clock())

    def _process_metrics(self) -> Iterator[Metric]:
        connections = self._driver.connections_by_listener()
        kinds = self._journal.written_by_kind
        yield from process_metrics(self._delay, connections, kinds, self._started_s)
        yield one(HTTP_CONNECTIONS, 0 if self._server is None else len(self._server))
