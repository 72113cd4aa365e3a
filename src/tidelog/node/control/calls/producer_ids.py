"""A broker asks the controller for producer ids."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.controller.controller import Controller
from tidelog.controller.producer_ids import ProducerIdBlock
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import Refusal
from tidelog.model.time import Now
from tidelog.node.control.calls.controller_call import ControllerCall, refusal_in
from tidelog.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsCall(
    ControllerCall[AllocateProducerIdsResponse, ProducerIdBlock | Refusal]
):
    """A broker needs producer ids; the outcome is a block of them."""

    VERSION = 0

    broker_id: int
    broker_epoch: int

    def decide(
        self, controller: Controller, next_offset: int, now: Now
    ) -> ControllerResult[ProducerIdBlock | Refusal]:
        return controller.allocate_producer_ids(self.broker_id, self.broker_epoch)

    def request(self) -> AllocateProducerIdsRequest:
        return AllocateProducerIdsRequest(broker_id=self.broker_id, broker_epoch=self.broker_epoch)

    @staticmethod
    def asked_in(request: AllocateProducerIdsRequest) -> AllocateProducerIdsCall:
        """The call behind a request."""
        return AllocateProducerIdsCall(request.broker_id, request.broker_epoch)

    def answer(self, outcome: ProducerIdBlock | Refusal) -> AllocateProducerIdsResponse:
        if isinstance(outcome, Refusal):
            return AllocateProducerIdsResponse(error_code=outcome.code)
        return AllocateProducerIdsResponse(
            producer_id_start=outcome.first, producer_id_len=outcome.length
        )

    def outcome(self, answer: AllocateProducerIdsResponse) -> ProducerIdBlock | Refusal:
        return refusal_in(answer.error_code, "producer ids") or ProducerIdBlock(
            answer.producer_id_start, answer.producer_id_len
        )
