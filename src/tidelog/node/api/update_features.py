"""UpdateFeatures (key 57, versions 0-2): finalize features at other levels, all or none."""

from __future__ import annotations

from tidelog.controller.features import FeatureUpdate, UpgradeType
from tidelog.model.errors import Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


def handle(
    context: AdminContext, request: Request[UpdateFeaturesRequest]
) -> UpdateFeaturesResponse | Later:
    """Validate or carry out; one error stands for all, since nothing is changed then."""
    validate_only = request.body.validate_only
    updates = [
        FeatureUpdate(update.feature, update.max_version_level, _upgrade_type(update))
        for update in request.body.feature_updates
    ]
    return context.control.decide(
        request,
        lambda controller: controller.update_features(updates, validate_only=validate_only),
        _answer,
        _refused,
    )


def _upgrade_type(update: FeatureUpdateKey) -> int:
    """Version 0 only knows whether the level may fall."""
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type


def _answer(outcome: dict[str, Refusal | None]) -> UpdateFeaturesResponse:
    first = next((refusal for refusal in outcome.values() if refusal is not None), None)
    if first is not None:
        return _refused(first)
    results = [UpdatableFeatureResult(feature=name, error_message=None) for name in outcome]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _refused(refusal: Refusal) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.why)
