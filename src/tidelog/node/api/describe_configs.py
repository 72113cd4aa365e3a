"""DescribeConfigs (key 32, versions 1-4): every setting in force, where it comes from, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.controller.image import BROKER_CONFIG, GROUP_CONFIG, TOPIC_CONFIG
from tidelog.controller.topics import bad_name
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.settings.describe import (
    ConfigEntry,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from tidelog.model.settings.group import describe_group
from tidelog.node.api.config_permissions import denied_config
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.api.metadata import unknown_topic
from tidelog.node.core.request import Request
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tidelog.security.acls import AclOperation

NAMED_TWICE: Final = Refusal(ErrorCode.invalid_request, "named twice in one request")


def handle(
    context: ClusterContext, request: Request[DescribeConfigsRequest]
) -> DescribeConfigsResponse:
    """Describe each resource, or the keys of it that were named."""
    results = []
    described: set[tuple[int, str]] = set()
    for resource in request.body.resources:
        key = (resource.resource_type, resource.resource_name)
        # An answer is thousands of times as long as its question: once is enough.
        denied = denied_config(context.authorization, request, AclOperation.DESCRIBE_CONFIGS, *key)
        found: Sequence[ConfigEntry] | Refusal
        if denied is not None:
            found = denied
        else:
            found = NAMED_TWICE if key in described else _describe(context, *key)
        described.add(key)
        results.append(_result(request.body, resource, found))
    return DescribeConfigsResponse(results=results)


def _result(
    body: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    found: Sequence[ConfigEntry] | Refusal,
) -> DescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    if isinstance(found, Refusal):
        return DescribeConfigsResult(
            resource_type=kind,
            resource_name=name,
            error_code=found.code,
            error_message=found.why,
        )
    keys = frozenset(resource.configuration_keys or ())
    return DescribeConfigsResult(
        resource_type=kind,
        resource_name=name,
        error_message=None,
        configs=[_entry(body, entry) for entry in found if not keys or entry.name in keys],
    )


def _describe(context: ClusterContext, kind: int, name: str) -> Sequence[ConfigEntry] | Refusal:
    image = context.cluster.image
    cluster_dynamic = image.config(BROKER_CONFIG, "")
    own_dynamic = image.config(BROKER_CONFIG, str(context.cluster.node_id))
    if kind == TOPIC_CONFIG:
        if name not in image.topics_by_name:
            why = bad_name(name) or f"The topic '{name}' does not exist."
            return Refusal(unknown_topic(name), why)
        overrides = image.config(TOPIC_CONFIG, name)
        return describe_topic(overrides, cluster_dynamic, own_dynamic, context.cluster.config)
    if kind == BROKER_CONFIG:
        if name == "":
            return describe_cluster_default(cluster_dynamic)
        if name == str(context.cluster.node_id):
            return describe_broker(cluster_dynamic, own_dynamic, context.cluster.config)
        return Refusal(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {context.cluster.node_id} or empty string, "
            f"but received {name}",
        )
    if kind == GROUP_CONFIG and not name:
        return Refusal(ErrorCode.invalid_request, "Group name must not be empty")
    if kind == GROUP_CONFIG:
        return describe_group(image.config(GROUP_CONFIG, name), context.cluster.config)
    return Refusal(ErrorCode.invalid_request, f"resources of type {kind} have no settings here")


def _entry(body: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(
                name=synonym.name, value=synonym.value, source=int(synonym.source)
            )
            for synonym in entry.synonyms
        ]
        if body.include_synonyms
        else (),
        config_type=int(entry.type),
        documentation=entry.doc if body.include_documentation else None,
    )
