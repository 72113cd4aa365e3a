"""ApiVersions (key 18, versions 0-4): what this node serves; the first thing a client asks.

A version above ours is answered in version 0 with error 35 and our range, so that the client
can ask again; this is the only API where an unknown version is not a reason to hang up.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tidelog.controller.features import KRAFT_VERSION, NODE_FEATURES
from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.entity_messages import encode_response

SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def handle(context: ClusterContext, request: Request[Any]) -> Reply:
    """List the APIs of the listener that was asked, and the cluster's features."""
    ranges = SUPPORTED[ApiKey.API_VERSIONS]
    if request.api_version > ranges.max:
        fields = {
            "error_code": ErrorCode.unsupported_version,
            "api_keys": [_range(ApiKey.API_VERSIONS)],
        }
        return [encode_response(ApiKey.API_VERSIONS, 0, request.correlation_id, fields)]
    if request.api_version >= 3 and not (
        SOFTWARE_NAME.match(request.body.client_software_name)
        and SOFTWARE_NAME.match(request.body.client_software_version)
    ):
        return {"error_code": ErrorCode.invalid_request, "api_keys": []}
    scope = context.listeners.scope_of(request.connection.listener)
    finalized = {
        **context.cluster.image.features,
        KRAFT_VERSION: context.quorum.voters.kraft_version,
    }
    return {
        "error_code": ErrorCode.none,
        "api_keys": [_range(key) for key, served in SUPPORTED.items() if served.scope & scope],
        "supported_features": [
            {"name": name, "min_version": low, "max_version": high}
            for name, (low, high) in sorted(NODE_FEATURES.items())
            if low > 0 or request.api_version >= 4
        ],
        "finalized_features_epoch": context.cluster.image.end_offset - 1,
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in sorted(finalized.items())
            if level > 0
        ],
    }


def _range(key: ApiKey) -> Fields:
    served = SUPPORTED[key]
    return {"api_key": int(key), "min_version": served.min, "max_version": served.max}
