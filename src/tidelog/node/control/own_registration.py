"""What a node says of itself when it registers: where it listens, which features it supports."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.controller.features import NODE_FEATURES
from tidelog.model.config import NodeConfig
from tidelog.model.settings.endpoints import Endpoint as Listener
from tidelog.protocol.stored.metadata import (
    RegisteredEndpoint,
    RegisteredFeature,
)
from tidelog.quorum.control_records import VoterEndpoint


def registered_endpoints(
    config: NodeConfig, endpoints: Iterable[Listener | VoterEndpoint]
) -> tuple[RegisteredEndpoint, ...]:
    """Where others find the listeners of this node."""
    return tuple(
        RegisteredEndpoint(
            name=endpoint.name,
            host=endpoint.host or "localhost",
            port=endpoint.port,
            security_protocol=config.security_protocol_of(endpoint.name),
        )
        for endpoint in endpoints
    )


def supported_features() -> tuple[RegisteredFeature, ...]:
    """What a node of this version can live with: the cluster's features, and the quorum's own."""
    return tuple(
        RegisteredFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in sorted(NODE_FEATURES.items())
    )
