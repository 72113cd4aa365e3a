"""UpdateFeatures (key 57, versions 0-2): finalize features at other levels, all or none."""

from __future__ import annotations

from typing import Any

from tidelog.controller.features import FeatureUpdate, UpgradeType
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field


def handle(context: AdminContext, request: Request[Any]) -> Reply:
    """Validate or carry out; one error stands for all, since nothing is changed then."""
    updates = [
        FeatureUpdate(update.feature, update.max_version_level, _upgrade_type(update))
        for update in request.body.feature_updates
    ]
    validate_only = field(request.body, "validate_only", False)
    return context.control.decide(
        request,
        lambda controller: controller.update_features(updates, validate_only=validate_only),
        _answer,
        lambda refusal: {"error_code": refusal.code, "error_message": refusal.why},
    )


def _upgrade_type(update: object) -> int:
    older = field(update, "allow_downgrade", False)
    return int(field(update, "upgrade_type", UpgradeType.SAFE_DOWNGRADE if older else 1))


def _answer(outcome: dict[str, Refusal | None]) -> Fields:
    first = next((refusal for refusal in outcome.values() if refusal is not None), None)
    if first is not None:
        return {"error_code": first.code, "error_message": first.why, "results": []}
    results = [
        {"feature": name, "error_code": ErrorCode.none, "error_message": None} for name in outcome
    ]
    return {"error_code": ErrorCode.none, "error_message": None, "results": results}
