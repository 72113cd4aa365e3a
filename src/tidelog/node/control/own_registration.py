"""What a node says of itself when it registers: where it listens, which features it supports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.controller.features import NODE_FEATURES
from tidelog.controller.records import Endpoint, FeatureRange
from tidelog.model.settings.endpoints import Endpoint as Listener
from tidelog.quorum.control_records import VoterEndpoint

PLAINTEXT: Final = 0


def registered_endpoints(endpoints: Iterable[Listener | VoterEndpoint]) -> tuple[Endpoint, ...]:
    """Where others find the listeners of this node."""
    return tuple(
        Endpoint(
            name=endpoint.name,
            host=endpoint.host or "localhost",
            port=endpoint.port,
            security_protocol=PLAINTEXT,
        )
        for endpoint in endpoints
    )


def supported_features() -> tuple[FeatureRange, ...]:
    """What a node of this version can live with: the cluster's features, and the quorum's own."""
    return tuple(
        FeatureRange(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in sorted(NODE_FEATURES.items())
    )
