"""A process registers with the controller: as a broker, or as a controller."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from tidelog.controller.brokers import RegisterBroker, RegisterController
from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_EPOCH, ZERO_UUID
from tidelog.model.time import Now
from tidelog.node.control.calls.controller_call import ControllerCall, refusal_in
from tidelog.node.control.decision_events import REGISTERED
from tidelog.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
    BrokerRegistrationResponse,
)
from tidelog.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationRequestFeature,
    ControllerRegistrationRequestListener,
    ControllerRegistrationResponse,
)
from tidelog.protocol.stored.metadata import (
    RegisteredEndpoint,
    RegisteredFeature,
)

Listener: TypeAlias = (
    BrokerRegistrationRequestListener | ControllerRegistrationRequestListener | RegisteredEndpoint
)
Feature: TypeAlias = (
    BrokerRegistrationRequestFeature | ControllerRegistrationRequestFeature | RegisteredFeature
)
ListenerT_co = TypeVar("ListenerT_co", bound=Listener, covariant=True)
FeatureT_co = TypeVar("FeatureT_co", bound=Feature, covariant=True)


class MakeListener(Protocol[ListenerT_co]):
    """The class of a listener in one of the requests, or in the records of both."""

    def __call__(
        self, *, name: str, host: str, port: int, security_protocol: int
    ) -> ListenerT_co: ...


class MakeFeature(Protocol[FeatureT_co]):
    """The same for a feature."""

    def __call__(
        self, *, name: str, min_supported_version: int, max_supported_version: int
    ) -> FeatureT_co: ...


@dataclass(frozen=True, slots=True)
class RegisterBrokerCall(ControllerCall[BrokerRegistrationResponse, int | Refusal]):
    """A broker process joins the cluster; the outcome is its epoch."""

    VERSION = 4
    IS_SIGN_OF_LIFE = True

    registration: RegisterBroker

    @property
    def cause(self) -> str:
        return REGISTERED

    def decide(
        self, controller: Controller, next_offset: int, now: Now
    ) -> ControllerResult[int | Refusal]:
        return controller.register_broker(self.registration, next_offset=next_offset, now=now)

    def request(self) -> BrokerRegistrationRequest:
        registration = self.registration
        return BrokerRegistrationRequest(
            broker_id=registration.broker_id,
            cluster_id=registration.cluster_id,
            incarnation_id=registration.incarnation_id,
            listeners=_listeners(BrokerRegistrationRequestListener, registration.endpoints),
            features=_features(BrokerRegistrationRequestFeature, registration.features),
            rack=registration.rack,
            is_migrating_zk_broker=registration.is_migrating_zk_broker,
            log_dirs=registration.log_dirs,
            previous_broker_epoch=registration.previous_broker_epoch,
        )

    @staticmethod
    def asked_in(request: BrokerRegistrationRequest) -> RegisterBrokerCall:
        """The call behind a request."""
        registration = RegisterBroker(
            broker_id=request.broker_id,
            cluster_id=request.cluster_id,
            incarnation_id=request.incarnation_id or ZERO_UUID,
            endpoints=tuple(_listeners(RegisteredEndpoint, request.listeners)),
            features=tuple(_features(RegisteredFeature, request.features)),
            rack=request.rack,
            log_dirs=tuple(request.log_dirs),
            previous_broker_epoch=request.previous_broker_epoch,
            is_migrating_zk_broker=request.is_migrating_zk_broker,
        )
        return RegisterBrokerCall(registration)

    def answer(self, outcome: int | Refusal) -> BrokerRegistrationResponse:
        if isinstance(outcome, Refusal):
            return BrokerRegistrationResponse(error_code=outcome.code, broker_epoch=NO_EPOCH)
        return BrokerRegistrationResponse(broker_epoch=outcome)

    def outcome(self, answer: BrokerRegistrationResponse) -> int | Refusal:
        return refusal_in(answer.error_code, "the registration") or answer.broker_epoch


@dataclass(frozen=True, slots=True)
class RegisterControllerCall(ControllerCall[ControllerRegistrationResponse, Refusal | None]):
    """A controller process says who it is."""

    VERSION = 0
    IS_OF_BROKER = False

    joining: RegisterController

    def decide(
        self, controller: Controller, next_offset: int, now: Now
    ) -> ControllerResult[Refusal | None]:
        return controller.register_controller(self.joining)

    def request(self) -> ControllerRegistrationRequest:
        joining = self.joining
        return ControllerRegistrationRequest(
            controller_id=joining.controller_id,
            incarnation_id=joining.incarnation_id,
            listeners=_listeners(ControllerRegistrationRequestListener, joining.endpoints),
            features=_features(ControllerRegistrationRequestFeature, joining.features),
        )

    @staticmethod
    def asked_in(request: ControllerRegistrationRequest) -> RegisterControllerCall:
        """The call behind a request."""
        joining = RegisterController(
            request.controller_id,
            request.incarnation_id or ZERO_UUID,
            tuple(_listeners(RegisteredEndpoint, request.listeners)),
            tuple(_features(RegisteredFeature, request.features)),
        )
        return RegisterControllerCall(joining)

    def answer(self, outcome: Refusal | None) -> ControllerRegistrationResponse:
        if outcome is None:
            return ControllerRegistrationResponse(error_message=None)
        return ControllerRegistrationResponse(error_code=outcome.code, error_message=outcome.why)

    def outcome(self, answer: ControllerRegistrationResponse) -> Refusal | None:
        if answer.error_code is ErrorCode.none:
            return None
        return Refusal(answer.error_code, answer.error_message or "")


def _listeners(
    make: MakeListener[ListenerT_co], listeners: Iterable[Listener]
) -> list[ListenerT_co]:
    return [
        make(
            name=each.name,
            host=each.host,
            port=each.port,
            security_protocol=each.security_protocol,
        )
        for each in listeners
    ]


def _features(make: MakeFeature[FeatureT_co], features: Iterable[Feature]) -> list[FeatureT_co]:
    return [
        make(
            name=each.name,
            min_supported_version=each.min_supported_version,
            max_supported_version=each.max_supported_version,
        )
        for each in features
    ]
