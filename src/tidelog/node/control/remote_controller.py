"""The way to a controller in another node: Kafka's own requests, over links.

Heartbeats have a link of their own, so that its end tells the controller about ours and nothing
waits behind them; so have requests that clients want passed on, which may take long. One that is
given up stays open until the next has been heard, so that its end tells nobody that we are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.control.calls.controller_call import ControllerCall
from tidelog.node.control.forwarding import Forwarding
from tidelog.node.core.links import LinkLost
from tidelog.node.core.request import Later, Request
from tidelog.node.core.runtime import Runtime
from tidelog.node.core.signal import Signal
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.controller_locator import ControllerLocator
from tidelog.protocol.message import RequestMessage, ResponseMessage
from tidelog.quorum.messages import Address

OutcomeT = TypeVar("OutcomeT")
ResponseT = TypeVar("ResponseT", bound=ResponseMessage)

HEARTBEAT: Final = "heartbeat"
CONTROL: Final = "control"
RETRY_MS: Final = 20
NOBODY_LEADS: Final = Refusal(ErrorCode.network_exception, "nobody is known to lead the quorum")


class RemoteController:
    """A `ControllerTransport` to wherever the quorum's leader is."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        locator: ControllerLocator,
        forwarding: Forwarding,
        hung_up: Signal[[Now]],
    ) -> None:
        """`hung_up` tells that the connection of our heartbeats is gone."""
        self._runtime = runtime
        self._hung_up = hung_up
        self._locator = locator
        self.forwarding = forwarding
        self._heartbeat_timeout_ms = cluster.config.heartbeat_timeout_ms
        self._timeout_ms = cluster.config.request_timeout_ms
        self._address: Address | None = None
        """Whom the broker of this node asked last."""

    @property
    def leader_id(self) -> int:
        return self._locator.leader_id

    def ask(
        self,
        now: Now,
        call: ControllerCall[ResponseT, OutcomeT],
        then: Callable[[OutcomeT | Refusal, Now], None],
    ) -> None:
        address = self._locator.address
        if address is None:
            self._runtime.deadlines.at(
                now.monotonic_ms + RETRY_MS, lambda later: then(NOBODY_LEADS, later)
            )
            return

        def answered(answer: ResponseT | LinkLost, later: Now) -> None:
            if isinstance(answer, LinkLost):
                then(Refusal(ErrorCode.network_exception, answer.reason), later)
            else:
                then(call.outcome(answer), later)

        if call.IS_OF_BROKER:
            self._address = address
        link = self._runtime.links.to_controller(
            address, HEARTBEAT if call.IS_SIGN_OF_LIFE else CONTROL
        )
        timeout_ms = self._timeout_ms
        if call.IS_SIGN_OF_LIFE:
            link.on_lost = self._hung_up.tell
            link.speaks_for_us = True
            timeout_ms = self._heartbeat_timeout_ms
        link.ask(now, call.request(), call.VERSION, answered, timeout_ms=timeout_ms)

    def decide(
        self,
        request: Request[RequestMessage[ResponseT]],
        decide: Callable[[Controller], ControllerResult[OutcomeT]],
        answer: Callable[[OutcomeT], ResponseT],
        refused: Callable[[Refusal], ResponseT],
        why: str = "",
    ) -> Later:
        return self.forwarding.forward(request, refused)

    def leader_changed(self, now: Now) -> None:
        """Somebody else is to be asked: what the broker asked the one before is given up."""
        before, address = self._address, self._locator.address
        if before is not None and address is not None and before != address:
            self._address = address
            for purpose in (HEARTBEAT, CONTROL):
                self._runtime.links.to_controller(before, purpose).close(
                    now, "another controller leads"
                )
