"""From a frame to its handler and back: decode, handle, put the answer in its place.

Invariant  A frame that cannot be read closes its own connection and touches nothing else.
Invariant  Before a node knows who may do what, it serves those who may do everything; others are
           hung up on, as if it were not there yet, and come again.
"""

from __future__ import annotations

from tidelog.model.time import Now
from tidelog.node.core.authentication import Authentication, Failure
from tidelog.node.core.authorization import Authorization
from tidelog.node.core.connections import Connection
from tidelog.node.core.listeners import Listeners
from tidelog.node.core.permissions import OPEN_TO_ALL
from tidelog.node.core.request import Later, Request, encode_answer, throttled_answer
from tidelog.node.core.request_meter import RequestMeter
from tidelog.node.core.routes import BodyT, Routes
from tidelog.node.core.runtime import Runtime
from tidelog.observe.events import ConnectionDropped
from tidelog.protocol.frame import MalformedRequest, RequestHeader, read_request_header


class Requests:
    """Every request that arrives at a node."""

    def __init__(
        self,
        runtime: Runtime,
        listeners: Listeners,
        authorization: Authorization,
        of_brokers: Routes,
        of_controllers: Routes,
    ) -> None:
        self._runtime = runtime
        self._listeners = listeners
        self._authorization = authorization
        self._of_brokers = of_brokers
        self._of_controllers = of_controllers
        self.meter = RequestMeter(runtime, {**of_brokers, **of_controllers})

    def frame_arrived(self, now: Now, connection: Connection, frame: memoryview) -> None:
        """Work on one request."""
        authentication = connection.authentication
        if authentication is not None:
            if authentication.has_failed:
                return
            if authentication.takes_bare_tokens:
                self._take_bare_token(now, connection, authentication, bytes(frame))
                return
        is_controllers = connection.listener in self._listeners.controller_names
        routes = self._of_controllers if is_controllers else self._of_brokers
        try:
            header = self._read_header(now, connection, frame)
        except MalformedRequest as error:
            self._drop(connection, error)
            return
        if not self._authorization.is_loaded and not self._is_served_early(connection, header):
            return
        quota = self.meter.time_quota
        if authentication is not None and not authentication.has_proved:
            quota = None  # nobody pays for strangers
        if quota is not None:
            quota.begins(connection, header)
        reply = routes[header.api_key](self._request, now, connection, header, frame)
        if isinstance(reply, Later):
            if reply is Later.PARKED:
                return
            if reply is Later.HANG_UP:
                connection.close("a request without acknowledgement failed")
        elif isinstance(reply, MalformedRequest):
            self._drop(connection, reply)
            return
        else:
            if quota is not None:
                time_ms = quota.throttle(connection, header.api_key, header.client_id)
                if time_ms:
                    reply = throttled_answer(reply, header.api_key, header.api_version, time_ms)
            connection.answer_now(encode_answer(reply, header.api_version, header.correlation_id))
        self.meter.times[header.api_key].at_once += 1

    def _is_served_early(self, connection: Connection, header: RequestHeader) -> bool:
        if header.api_key in OPEN_TO_ALL or self._authorization.is_ready_for(connection.principal):
            return True
        cause = (
            f"{connection.principal} is no super user, and no metadata was read yet that says what "
            "others may do; the nodes of a cluster belong into super.users"
        )
        self._hang_up(connection, cause)
        return False

    def _request(
        self,
        now: Now,
        connection: Connection,
        header: RequestHeader,
        body: BodyT,
        frame: memoryview,
    ) -> Request[BodyT]:
        return Request(now, connection, header, body, frame, self.meter)

    def _take_bare_token(
        self, now: Now, connection: Connection, authentication: Authentication, token: bytes
    ) -> None:
        """A token as it was before there was a request for it; a failure has no answer."""
        answer = authentication.take(token, now)
        if isinstance(answer, Failure):
            authentication.close_later(now, lambda: None)
        else:
            connection.answer_now([answer.token])

    def _read_header(self, now: Now, connection: Connection, frame: memoryview) -> RequestHeader:
        header = read_request_header(frame)
        if (authentication := connection.authentication) is not None:
            refusal = authentication.refusal_of(header.api_key, now)
            if refusal is not None:
                raise MalformedRequest(refusal)
        if header.api_key not in self._listeners.served_on(connection.listener):
            raise MalformedRequest(
                f"{header.api_key.name} is not served on listener {connection.listener}"
            )
        return header

    def _drop(self, connection: Connection, error: MalformedRequest) -> None:
        self._hang_up(connection, str(error))

    def _hang_up(self, connection: Connection, cause: str) -> None:
        self._runtime.announce(
            ConnectionDropped(
                listener=connection.listener, peer_host=connection.peer_host, cause=cause
            )
        )
        connection.close(cause)
