"""Broker settings of the node itself and of its network: identity, listeners, connections."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from tidelog.model.settings.security import SecurityProtocol
from tidelog.model.settings.setting import (
    MAX_INT,
    ConfigType,
    Limit,
    Scope,
    Setting,
    Settings,
    at_least,
    each_of,
    one_of,
)

PROTOCOLS: Final = tuple(protocol.name for protocol in SecurityProtocol)
_BUFFER = Limit("at least 1, or -1 for the operating system's choice", lambda v: v == -1 or v >= 1)


def _is_override(pair: str) -> bool:
    address, _, limit = pair.strip().rpartition(":")
    try:
        ip_address(address)
    except ValueError:
        return False
    return limit.isdecimal()


class NetworkSettings(Settings):
    """Who this node is and how it is reached."""

    advertised_listeners = Setting[tuple[str, ...] | None](
        ConfigType.LIST,
        None,
        "Addresses clients are told to use; unset, the listeners themselves.",
    )
    broker_id = Setting(
        ConfigType.INT,
        -1,
        "The older name of node.id.",
    )
    broker_rack = Setting[str | None](
        ConfigType.STRING,
        None,
        "Where this broker stands (rack, zone or host); replicas of a partition are spread over "
        "racks.",
    )
    connections_max_idle_ms = Setting(
        ConfigType.LONG,
        600_000,
        "A connection without a request for this long is closed.",
    )
    http_listener = Setting[str | None](
        ConfigType.STRING,
        None,
        "Where this node answers questions over HTTP (metrics, health, state, events), as "
        "host:port; unset or empty, nowhere.",
    )
    inter_broker_listener_name = Setting[str | None](
        ConfigType.STRING,
        None,
        "The listener brokers use among themselves; unset, the first one that is not the "
        "controllers'.",
    )
    listener_security_protocol_map = Setting[tuple[str, ...]](
        ConfigType.LIST,
        tuple(f"{protocol}:{protocol}" for protocol in PROTOCOLS),
        "Security protocol of each listener name, as NAME:PROTOCOL; unset, a name that is none is "
        "PLAINTEXT for controllers' listeners and unknown for others.",
        Limit(
            f"a list of NAME:PROTOCOL pairs, each protocol one of {', '.join(PROTOCOLS)}",
            lambda pairs: all(
                name and protocol in PROTOCOLS
                for name, _, protocol in (pair.partition(":") for pair in pairs)
            ),
        ),
    )
    listeners = Setting[tuple[str, ...]](
        ConfigType.LIST,
        ("PLAINTEXT://:9092",),
        "Addresses this node listens on, as NAME://host:port; an empty host is every address.",
    )
    max_connection_creation_rate = Setting(
        ConfigType.INT,
        MAX_INT,
        "Connections that may be made to this node in a second; more wait to be accepted. Those of "
        "controllers' listeners do not count, nor those among brokers on a listener of their own.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    max_connections = Setting(
        ConfigType.INT,
        MAX_INT,
        "Connections this node holds at a time, those of controllers' listeners apart.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    max_connections_per_ip = Setting(
        ConfigType.INT,
        MAX_INT,
        "Connections one address may hold at a time, those of controllers' listeners apart.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    security_inter_broker_protocol = Setting[str | None](
        ConfigType.STRING,
        None,
        "The name of the listener brokers use among themselves, where it is that of a protocol; "
        "not together with inter.broker.listener.name.",
        one_of(*PROTOCOLS),
    )
    max_connections_per_ip_overrides = Setting(
        ConfigType.STRING,
        "",
        "Addresses for which another limit counts than max.connections.per.ip, as address:limit.",
        Limit(
            "a list of address:limit pairs, addresses in digits",
            lambda text: all(map(_is_override, text.split(","))) or not text,
        ),
        scope=Scope.CLUSTER_WIDE,
    )
    node_id = Setting(
        ConfigType.INT,
        -1,
        "The number of this node, unique in the cluster. Must be given.",
        at_least(0),
    )
    process_roles = Setting[tuple[str, ...]](
        ConfigType.LIST,
        (),
        "What this node does: `broker` keeps data, `controller` keeps the cluster's metadata, or "
        "both. Must be given.",
        each_of("broker", "controller"),
    )
    request_timeout_ms = Setting(
        ConfigType.INT,
        30_000,
        "How long this node waits for the answer to a request of its own.",
        at_least(1),
    )
    queued_max_request_bytes = Setting(
        ConfigType.LONG,
        -1,
        "Bytes of requests that a node keeps while it asks another node about them; peers that "
        "sent them are not read while there are more. -1 is 256 MiB; one connection may have an "
        "eighth of it.",
        at_least(-1),
    )
    socket_listen_backlog_size = Setting(
        ConfigType.INT,
        50,
        "Connections the operating system may hold that are not accepted yet.",
        at_least(1),
    )
    socket_receive_buffer_bytes = Setting(
        ConfigType.INT,
        102_400,
        "Receive buffer of each connection; -1 is the operating system's choice.",
        _BUFFER,
    )
    socket_request_max_bytes = Setting(
        ConfigType.INT,
        104_857_600,
        "Largest request accepted; a connection that announces more is closed.",
        at_least(1),
    )
    socket_send_buffer_bytes = Setting(
        ConfigType.INT,
        102_400,
        "Send buffer of each connection; -1 is the operating system's choice.",
        _BUFFER,
    )
