"""Ports for whole clusters."""

from __future__ import annotations

from tidelog.local.node_setup import local_nodes, with_http, with_links
from tidelog.local.ports import free_ports, port_is_free


def free_port_of_a_cluster(brokers: int) -> int:
    """A port for the first broker, beside which all others are free, too."""
    while True:
        (first,) = free_ports(1)
        if first > 60_000:
            continue
        nodes = with_links(with_http(local_nodes(range(first, first + brokers)), None))
        proxies = (int(each.rpartition(":")[2]) for node in nodes for each in node.proxied)
        ports = (port for node in nodes for port in node.ports_by_role)
        if all(map(port_is_free, (*ports, *proxies))):
            return first
