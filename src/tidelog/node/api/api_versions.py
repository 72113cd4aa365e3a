"""ApiVersions (key 18, versions 0-5): what this node serves; the first thing a client asks.

A version above ours is answered in version 0 with error 35 and our range, so that the client
can ask again; this is the only API where an unknown version is not a reason to hang up.

From version 5 on a client may say which node of which cluster it means to speak to (KIP-1242). If
that is not this one, its connection was led astray: it is told to begin again with its bootstrap
servers.
"""

from __future__ import annotations

import re
from typing import Final

from tidelog.controller.features import KRAFT_VERSION, NODE_FEATURES
from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.core.request import Request
from tidelog.protocol import codec
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tidelog.protocol.parts import Part

NEWEST: Final = SUPPORTED[ApiKey.API_VERSIONS].max
NO_NODE: Final = -1
SOFTWARE_NAME_SINCE: Final = 3
FEATURES_FROM_0_SINCE: Final = 4
SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def decode(body: memoryview, version: int) -> ApiVersionsRequest:
    """Nothing is read of a version that is not known yet: whatever it says, the answer is one."""
    if version > NEWEST:
        return ApiVersionsRequest()
    return codec.decode_body(ApiVersionsRequest, version, body)


def handle(
    context: ClusterContext, request: Request[ApiVersionsRequest]
) -> ApiVersionsResponse | list[Part]:
    """List the APIs of the listener that was asked, and the cluster's features."""
    version = request.api_version
    if version > NEWEST:
        refused = ApiVersionsResponse(
            error_code=ErrorCode.unsupported_version, api_keys=[_range(ApiKey.API_VERSIONS)]
        )
        return [codec.encode_response(refused, 0, request.correlation_id)]
    error = _refuse(context, request.body, version)
    if error is not None:
        return ApiVersionsResponse(error_code=error)
    scope = context.listeners.scope_of(request.connection.listener)
    finalized = {
        **context.cluster.image.features,
        KRAFT_VERSION: context.quorum.voters.kraft_version,
    }
    return ApiVersionsResponse(
        api_keys=[_range(key) for key, served in SUPPORTED.items() if served.scope & scope],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in sorted(NODE_FEATURES.items())
            if low > 0 or version >= FEATURES_FROM_0_SINCE
        ],
        finalized_features_epoch=context.cluster.image.end_offset - 1,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(finalized.items())
            if level > 0
        ],
    )


def _refuse(context: ClusterContext, body: ApiVersionsRequest, version: int) -> ErrorCode | None:
    if (body.cluster_id is None) != (body.node_id == NO_NODE):
        return ErrorCode.invalid_request
    if version >= SOFTWARE_NAME_SINCE and not (
        SOFTWARE_NAME.match(body.client_software_name)
        and SOFTWARE_NAME.match(body.client_software_version)
    ):
        return ErrorCode.invalid_request
    meant = (body.cluster_id, body.node_id)
    if body.cluster_id is not None and meant != (
        context.cluster.cluster_id,
        context.cluster.node_id,
    ):
        return ErrorCode.rebootstrap_required
    return None


def _range(key: ApiKey) -> ApiVersion:
    served = SUPPORTED[key]
    return ApiVersion(api_key=int(key), min_version=served.min, max_version=served.max)
