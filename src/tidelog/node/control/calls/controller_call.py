"""What nodes ask of the active controller: both ends of each call, in one place.

A call is a value. Whoever asks makes it from what it wants; if the controller is another node, the
call travels as its `request`, is read there from that message (`asked_in`), and what comes of it
is written to the answer and read from it here. On the way to a controller in the same node nothing
is written or read: only `decide` is left.

    RegisterBrokerCall(registration)        ask → decide → outcome
                                            ask → request ⇒ asked_in → decide → answer ⇒ outcome

Invariant  The same question has the same outcome on both ways, but for the words of a refusal where
           the answer has no room for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.protocol.message import RequestMessage, ResponseMessage

ResponseT = TypeVar("ResponseT", bound=ResponseMessage)
OutcomeT = TypeVar("OutcomeT")


class ControllerCall(ABC, Generic[ResponseT, OutcomeT]):
    """One question to the active controller."""

    __slots__ = ()

    VERSION: ClassVar[int]
    """In which it is asked of another node."""
    IS_SIGN_OF_LIFE: ClassVar[bool] = False
    """Whether the connection it is asked on stands for the node that asks."""
    IS_OF_BROKER: ClassVar[bool] = True
    """Whether the broker of a node asks: it turns to the next controller as soon as one leads."""

    @property
    def cause(self) -> str:
        """Told as the reason of what the decision does to brokers."""
        return ""

    @abstractmethod
    def decide(
        self, controller: Controller, next_offset: int, now: Now
    ) -> ControllerResult[OutcomeT]:
        """What the controller makes of it; its first record will stand at `next_offset`."""

    @abstractmethod
    def request(self) -> RequestMessage[ResponseT]:
        """The question as a message."""

    @abstractmethod
    def answer(self, outcome: OutcomeT | Refusal) -> ResponseT:
        """What came of it as a message."""

    @abstractmethod
    def outcome(self, answer: ResponseT) -> OutcomeT | Refusal:
        """What came of it, as the message says."""


def refusal_in(code: ErrorCode, what: str) -> Refusal | None:
    """Why there is nothing better in an answer; None when there is."""
    if code is ErrorCode.none:
        return None
    return Refusal(code, f"the controller refused {what}: {code.name}")
