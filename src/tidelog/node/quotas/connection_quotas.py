"""How many connections a node takes, and how fast: from its settings and the quotas of addresses.

Invariant  A quota of something that is no address, or one that is no number above 0, which other
           controllers may have let in, counts for nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from math import inf

from tidelog.controller.image_delta import QuotaOwner
from tidelog.model.config import NodeConfig
from tidelog.model.quota_words import CONNECTION_CREATION_RATE, IP
from tidelog.model.settings.setting import MAX_INT
from tidelog.node.core.effects import LimitConnections


def connection_limits(
    config: NodeConfig, quotas: Mapping[QuotaOwner, Mapping[str, float]]
) -> LimitConnections:
    """What counts from now on."""
    rates: dict[str, int] = {}
    of_any = MAX_INT
    for owner, values in quotas.items():
        names = {part.entity_type: part.entity_name for part in owner}
        limit = values.get(CONNECTION_CREATION_RATE, inf)
        if names.keys() != {IP} or not 0 < limit < MAX_INT:
            continue
        name, rate = names[IP], int(limit)
        if name is None:
            of_any = rate
        elif (address := _address(name)) is not None:
            rates[address] = rate
    return LimitConnections(
        per_host=config.max_connections_per_ip,
        in_all=config.max_connections,
        of_hosts=config.connections_of_hosts,
        rate=config.max_connection_creation_rate,
        rate_per_host=of_any,
        rates_of_hosts=rates,
    )


def _address(name: str) -> str | None:
    try:
        return str(ip_address(name))
    except ValueError:
        return None
