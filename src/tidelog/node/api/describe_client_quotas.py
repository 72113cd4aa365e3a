"""DescribeClientQuotas (key 48, versions 0-1): the quotas that are set, by filters."""

from __future__ import annotations

from tidelog.controller.client_quotas import EntityFilter, describe_client_quotas
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.core.request import Request
from tidelog.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntityData,
    DescribeClientQuotasResponseEntryData,
    ValueData,
)


def handle(
    context: ClusterContext, request: Request[DescribeClientQuotasRequest]
) -> DescribeClientQuotasResponse:
    """Answered by every broker from its own image."""
    body = request.body
    filters = [
        EntityFilter(each.entity_type, each.match_type, each.match) for each in body.components
    ]
    found = describe_client_quotas(context.cluster.image.access, filters, strict=body.strict)
    if isinstance(found, Refusal):
        return refused(error_code=found.code, why=found.why)
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            DescribeClientQuotasResponseEntryData(
                entity=[
                    DescribeClientQuotasResponseEntityData(
                        entity_type=part.entity_type, entity_name=part.entity_name
                    )
                    for part in owner
                ],
                values=[ValueData(key=key, value=value) for key, value in sorted(quotas.items())],
            )
            for owner, quotas in found
        ],
    )


def refused(*, error_code: ErrorCode, why: str | None = None) -> DescribeClientQuotasResponse:
    """Nothing is told."""
    return DescribeClientQuotasResponse(error_code=error_code, error_message=why, entries=None)
