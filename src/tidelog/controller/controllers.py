"""Controllers that join: each tells the active one where it listens and what it supports."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from tidelog.controller.decision import Decision
from tidelog.controller.features import unsupported_by
from tidelog.controller.image import ClusterImage
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import (
    RegisterControllerRecord,
    RegisteredEndpoint,
    RegisteredFeature,
)


class ControllerJoining(NamedTuple):
    """What a controller says about itself when it starts."""

    controller_id: int
    incarnation_id: UUID
    endpoints: tuple[RegisteredEndpoint, ...]
    features: tuple[RegisteredFeature, ...]


def register_controller(
    image: ClusterImage, joining: ControllerJoining
) -> Decision[Refusal | None]:
    """Note a controller, unless it could not live with the cluster's features."""
    unsupported = unsupported_by(image, joining.features)
    if unsupported is not None:
        why = f"Controller {joining.controller_id} cannot join: {unsupported}."
        return Decision((), Refusal(ErrorCode.unsupported_version, why))
    record = RegisterControllerRecord(
        controller_id=joining.controller_id,
        incarnation_id=joining.incarnation_id,
        end_points=joining.endpoints,
        features=joining.features,
    )
    return Decision((record,), None)
