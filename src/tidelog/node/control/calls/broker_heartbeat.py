"""A broker tells the controller that it lives."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.controller.brokers import BrokerHeartbeat, BrokerHeartbeatReply
from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import Refusal
from tidelog.model.time import Now
from tidelog.node.control.calls.controller_call import ControllerCall, refusal_in
from tidelog.node.control.decision_events import heartbeat_words
from tidelog.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatCall(ControllerCall[BrokerHeartbeatResponse, BrokerHeartbeatReply | Refusal]):
    """A broker lives; the outcome is where the controller sees it."""

    VERSION = 1
    IS_SIGN_OF_LIFE = True

    heartbeat: BrokerHeartbeat

    @property
    def cause(self) -> str:
        return heartbeat_words(self.heartbeat)

    def decide(
        self, controller: Controller, next_offset: int, now: Now
    ) -> ControllerResult[BrokerHeartbeatReply | Refusal]:
        return controller.broker_heartbeat(self.heartbeat, next_offset=next_offset, now=now)

    def request(self) -> BrokerHeartbeatRequest:
        heartbeat = self.heartbeat
        return BrokerHeartbeatRequest(
            broker_id=heartbeat.broker_id,
            broker_epoch=heartbeat.broker_epoch,
            current_metadata_offset=heartbeat.metadata_offset,
            want_fence=heartbeat.want_fence,
            want_shut_down=heartbeat.want_shut_down,
            offline_log_dirs=heartbeat.offline_log_dirs,
            cordoned_log_dirs=heartbeat.cordoned_log_dirs,
        )

    @staticmethod
    def asked_in(request: BrokerHeartbeatRequest) -> BrokerHeartbeatCall:
        """The call behind a request."""
        cordoned = request.cordoned_log_dirs
        heartbeat = BrokerHeartbeat(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            metadata_offset=request.current_metadata_offset,
            want_fence=request.want_fence,
            want_shut_down=request.want_shut_down,
            offline_log_dirs=tuple(request.offline_log_dirs),
            cordoned_log_dirs=None if cordoned is None else tuple(cordoned),
        )
        return BrokerHeartbeatCall(heartbeat)

    def answer(self, outcome: BrokerHeartbeatReply | Refusal) -> BrokerHeartbeatResponse:
        if isinstance(outcome, Refusal):
            return BrokerHeartbeatResponse(error_code=outcome.code)
        return BrokerHeartbeatResponse(
            is_caught_up=outcome.is_caught_up,
            is_fenced=outcome.is_fenced,
            should_shut_down=outcome.should_shut_down,
        )

    def outcome(self, answer: BrokerHeartbeatResponse) -> BrokerHeartbeatReply | Refusal:
        return refusal_in(answer.error_code, "the heartbeat") or BrokerHeartbeatReply(
            is_caught_up=answer.is_caught_up,
            is_fenced=answer.is_fenced,
            should_shut_down=answer.should_shut_down,
        )
