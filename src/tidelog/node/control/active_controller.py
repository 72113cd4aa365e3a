"""The way to the active controller for a node that may have it itself.

Invariant  Whoever leads at the moment of a question is asked. What was asked of somebody who lost
           the lead meanwhile is asked again of the next, if a client asked it, or else is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import Refusal
from tidelog.model.time import Now
from tidelog.node.control.calls.controller_call import ControllerCall
from tidelog.node.control.control_plane import ControlPlane
from tidelog.node.control.remote_controller import RemoteController
from tidelog.node.core.request import Later, Request
from tidelog.protocol.message import RequestMessage, ResponseMessage

OutcomeT = TypeVar("OutcomeT")
ResponseT = TypeVar("ResponseT", bound=ResponseMessage)


class ActiveController:
    """A `ControllerTransport` to this node's own controller or to another's."""

    def __init__(
        self, plane: ControlPlane, remote: RemoteController, controller_names: frozenset[str]
    ) -> None:
        """`controller_names` are the listeners on which this very controller is meant."""
        self._plane = plane
        self._remote = remote
        self._controller_names = controller_names

    @property
    def leader_id(self) -> int:
        return self._plane.leader_id

    def ask(
        self,
        now: Now,
        call: ControllerCall[ResponseT, OutcomeT],
        then: Callable[[OutcomeT | Refusal, Now], None],
    ) -> None:
        if self._plane.is_active:
            self._plane.ask(now, call, then)
        else:
            self._remote.ask(now, call, then)

    def decide(
        self,
        request: Request[RequestMessage[ResponseT]],
        decide: Callable[[Controller], ControllerResult[OutcomeT]],
        answer: Callable[[OutcomeT], ResponseT],
        refused: Callable[[Refusal], ResponseT],
        why: str = "",
    ) -> ResponseT | Later:
        if request.connection.listener in self._controller_names:
            # Who asks on a controller's listener wants this very controller.
            return self._plane.decide(request, decide, answer, refused, why)
        if not self._plane.is_active:
            return self._remote.decide(request, decide, answer, refused, why)
        kept = self._remote.forwarding.keep(request, refused)
        reply = self._plane.decide(request, decide, answer, refused, why, kept.send)
        if not isinstance(reply, Later):
            request.release_bytes()
        return reply
