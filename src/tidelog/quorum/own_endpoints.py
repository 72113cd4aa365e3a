"""Where the other members of the quorum find this one.

Invariant  An address that names no host (`0.0.0.0`, `::`, none at all) never gets into the voters:
           others would look for this node at home.
"""

from __future__ import annotations

from tidelog.model.errors import ConfigError
from tidelog.model.settings.endpoints import is_wildcard
from tidelog.quorum.control_records import Voter, VoterEndpoint


def own_endpoints(
    configured: tuple[VoterEndpoint, ...], known: Voter | None
) -> tuple[VoterEndpoint, ...]:
    """What the configuration says, or, where it names no host, what the voters say already."""
    known_by_name = {point.name: point for point in known.endpoints} if known is not None else {}
    return tuple(
        _reachable(known_by_name.get(point.name, point)) if is_wildcard(point.host) else point
        for point in configured
    )


def _reachable(point: VoterEndpoint) -> VoterEndpoint:
    if is_wildcard(point.host):
        raise ConfigError(
            f"the other controllers cannot find this one at {point.name}://{point.host}:"
            f"{point.port}: name its address in advertised.listeners, or a host in listeners"
        )
    return point
