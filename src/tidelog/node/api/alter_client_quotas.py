"""AlterClientQuotas (key 49, versions 0-1): quotas of users, client ids and addresses are set."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.controller.client_quotas import QuotaAlteration, QuotaEntity
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)


def handle(
    context: AdminContext, request: Request[AlterClientQuotasRequest]
) -> AlterClientQuotasResponse | Later:
    """Each entity is taken whole or not at all."""
    body = request.body
    alterations = [
        QuotaAlteration(
            tuple((part.entity_type, part.entity_name) for part in entry.entity),
            [(op.key, None if op.remove else op.value) for op in entry.ops],
        )
        for entry in body.entries
    ]
    return context.control.decide(
        request,
        lambda controller: controller.alter_client_quotas(
            alterations, validate_only=body.validate_only
        ),
        _answer,
        lambda refusal: _answer([(each.entity, refusal) for each in alterations]),
    )


def _answer(outcome: Sequence[tuple[QuotaEntity, Refusal | None]]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=ErrorCode.none if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.why,
                entity=[
                    AlterClientQuotasResponseEntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
            )
            for entity, refusal in outcome
        ]
    )
