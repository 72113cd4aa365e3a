"""From a frame to its handler and back: decode, handle, put the answer in its place.

Invariant  A frame that cannot be read closes its own connection and touches nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidelog.model.time import Now
from tidelog.node.core.connections import Connection
from tidelog.node.core.listeners import Listeners
from tidelog.node.core.request import Later, Reply, Request
from tidelog.node.core.request_meter import RequestMeter
from tidelog.node.core.routes import Routes
from tidelog.node.core.runtime import Runtime
from tidelog.observe.events import ConnectionDropped
from tidelog.protocol.apis import FORWARDED
from tidelog.protocol.frame import MalformedRequest, read_request_header

_NO_FRAME: Final = memoryview(b"")


class Requests:
    """Every request that arrives at a node."""

    def __init__(
        self,
        runtime: Runtime,
        listeners: Listeners,
        of_brokers: Routes,
        of_controllers: Routes,
    ) -> None:
        self._runtime = runtime
        self._listeners = listeners
        self._of_brokers = of_brokers
        self._of_controllers = of_controllers
        self.meter = RequestMeter(runtime, {**of_brokers, **of_controllers})

    def frame_arrived(self, now: Now, connection: Connection, frame: memoryview) -> None:
        """Work on one request."""
        is_controllers = connection.listener in self._listeners.controller_names
        routes = self._of_controllers if is_controllers else self._of_brokers
        try:
            request, handle = self._decode(routes, now, connection, frame)
        except MalformedRequest as error:
            self._runtime.announce(
                ConnectionDropped(
                    listener=connection.listener, peer_host=connection.peer_host, cause=str(error)
                )
            )
            connection.close(str(error))
            return
        reply = handle(request)
        request.frame = _NO_FRAME  # it lies in the shell's buffer
        if isinstance(reply, Later):
            if request.is_parked:
                request.meter = self.meter
                return
            if reply is Later.HANG_UP:
                connection.close("a request without acknowledgement failed")
        else:
            connection.answer_now(request.encode(reply))
        self.meter.times[request.api_key].at_once += 1

    def _decode(
        self, routes: Routes, now: Now, connection: Connection, frame: memoryview
    ) -> tuple[Request[Any], Callable[[Request[Any]], Reply]]:
        header = read_request_header(frame)
        key, version = header.api_key, header.api_version
        if key not in self._listeners.served_on(connection.listener):
            raise MalformedRequest(f"{key.name} is not served on listener {connection.listener}")
        route = routes[key]
        body = route.decode(frame[header.body_offset :], version)
        # What waits must not hold on to the shell's buffer, so the hot path goes without the frame.
        as_it_came = frame if key in FORWARDED else _NO_FRAME
        request = Request(
            now, connection, key, version, header.correlation_id, header.client_id, body, as_it_came
        )
        return request, route.handle
