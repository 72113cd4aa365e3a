"""Passing on to the controller what clients ask a broker (Envelope, KIP-590).

The request travels as it came, header and all; so does its answer, which is sent to the client as
it is. Whoever may have asked is told to the controller, not decided here.

Invariant  A request is passed on until the controller has answered, or until its time is up.
           Who asks for the quorum itself (DescribeQuorum) wants to know that there is no
           controller, and hears it as soon as this node does.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.core.links import LinkLost
from tidelog.node.core.request import Later, Request
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.controller_locator import ControllerLocator
from tidelog.node.metadata.controller_watch import ControllerWatch
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.forwarded_principal import principal_bytes
from tidelog.protocol.message import ResponseMessage
from tidelog.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.protocol.throttle_time import read_throttle_time

ENVELOPE_VERSION: Final = 0
PURPOSE: Final = "forward"
PURPOSE_OF_DESCRIPTIONS: Final = "describe"
DESCRIBED_WITHIN_MS: Final = 1_000
RETRY_MS: Final = 20


class Forwarding:
    """Requests on their way to the controller and back."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        controller_watch: ControllerWatch,
        locator: ControllerLocator,
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._controller_watch = controller_watch
        self._locator = locator

    def forward(
        self, request: Request[object], refused: Callable[[Refusal], ResponseMessage]
    ) -> Later:
        """Pass a request on; `refused` says to the client that it could not be."""
        later = request.park()
        self.keep(request, refused).send(request.now)
        return later

    def keep(
        self, request: Request[object], refused: Callable[[Refusal], ResponseMessage]
    ) -> Forwarded:
        """Keep what is needed to pass a request on later, should that be necessary."""
        request.queue_bytes(len(request.frame))
        envelope = EnvelopeRequest(
            request_data=bytes(request.frame),
            request_principal=principal_bytes(request.principal),
            client_host_address=_address_bytes(request.client_host),
        )
        due_ms = request.now.monotonic_ms + self._cluster.config.request_timeout_ms
        return Forwarded(
            self._runtime,
            self._controller_watch,
            self._locator,
            request,
            refused,
            envelope,
            due_ms,
        )


class Forwarded:
    """One request that waits for the controller."""

    def __init__(
        self,
        runtime: Runtime,
        controller_watch: ControllerWatch,
        locator: ControllerLocator,
        request: Request[object],
        refused: Callable[[Refusal], ResponseMessage],
        envelope: EnvelopeRequest,
        due_ms: int,
    ) -> None:
        self._runtime = runtime
        self._controller_watch = controller_watch
        self._locator = locator
        self._request = request
        self._refused = refused
        self._envelope = envelope
        self._due_ms = due_ms

    def send(self, now: Now) -> None:
        """Ask whoever is the controller; again and again, if need be."""
        remaining_ms = self._due_ms - now.monotonic_ms
        if remaining_ms <= 0:
            why = "the controller did not answer in time"
            self._refuse(Refusal(ErrorCode.request_timed_out, why))
            return
        asks_for_quorum = self._request.api_key == ApiKey.DESCRIBE_QUORUM
        missing = self._controller_watch.missing
        if asks_for_quorum and missing is not None:
            self._refuse(Refusal(ErrorCode.not_controller, f"there is no controller: {missing}"))
            return
        address = self._locator.address
        if address is None:
            self._runtime.deadlines.at(now.monotonic_ms + RETRY_MS, self.send)
            return
        # It has a link of its own, since its impatience costs whatever else waits on the link.
        purpose = PURPOSE_OF_DESCRIPTIONS if asks_for_quorum else PURPOSE
        self._runtime.links.to_controller(address, purpose).ask(
            now,
            self._envelope,
            ENVELOPE_VERSION,
            self._answered,
            timeout_ms=min(remaining_ms, DESCRIBED_WITHIN_MS) if asks_for_quorum else remaining_ms,
        )

    def _answered(self, answer: EnvelopeResponse | LinkLost, now: Now) -> None:
        if self._request.connection.closed:
            self._request.release_bytes()
            return
        if isinstance(answer, LinkLost) or answer.error_code is ErrorCode.not_controller:
            self._runtime.deadlines.at(now.monotonic_ms + RETRY_MS, self.send)
        elif answer.error_code is ErrorCode.unsupported_version:
            self._request.release_bytes()
            self._request.connection.close("the controller does not know this version")
        elif answer.error_code or answer.response_data is None:
            why = f"the controller answered {answer.error_code.name}"
            self._refuse(Refusal(ErrorCode.unknown_server_error, why))
        else:
            request, passed_on = self._request, answer.response_data
            time_ms = read_throttle_time(request.api_key, request.api_version, passed_on)
            if time_ms > 0:
                request.throttle(now, time_ms, self._runtime.deadlines)
            request.answer([passed_on])

    def _refuse(self, refusal: Refusal) -> None:
        self._request.answer(self._refused(refusal))


def _address_bytes(host: str) -> bytes:
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return ip_address("0.0.0.0").packed
