"""Broker settings of the node itself and of its network: identity, listeners, connections."""

from __future__ import annotations

from tidelog.model.settings.setting import (
    MAX_INT,
    MAX_LONG,
    ConfigType,
    Limit,
    Setting,
    Settings,
    at_least,
    each_of,
)

_BUFFER = Limit("at least 1, or -1 for the operating system's choice", lambda v: v == -1 or v >= 1)


class NetworkSettings(Settings):
    """Who this node is and how it is reached."""

    advertised_listeners = Setting[tuple[str, ...] | None](
        ConfigType.LIST,
        None,
        "Addresses clients are told to use; unset, the listeners themselves.",
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
    inter_broker_listener_name = Setting[str | None](
        ConfigType.STRING,
        None,
        "The listener brokers use among themselves; unset, the first one that is not the "
        "controllers'.",
    )
    listener_security_protocol_map = Setting[tuple[str, ...]](
        ConfigType.LIST,
        ("PLAINTEXT:PLAINTEXT",),
        "Security protocol of each listener name, as NAME:PROTOCOL; PLAINTEXT is the protocol "
        "spoken.",
        Limit(
            "a list of NAME:PLAINTEXT pairs",
            lambda pairs: all(
                pair.count(":") == 1 and pair.endswith(":PLAINTEXT") for pair in pairs
            ),
        ),
    )
    listeners = Setting[tuple[str, ...]](
        ConfigType.LIST,
        ("PLAINTEXT://:9092",),
        "Addresses this node listens on, as NAME://host:port; an empty host is every address.",
    )
    max_connections = Setting(
        ConfigType.INT,
        MAX_INT,
        "Connections this node holds at a time.",
        at_least(0),
    )
    max_connections_per_ip = Setting(
        ConfigType.INT,
        MAX_INT,
        "Connections one address may hold at a time.",
        at_least(0),
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
    server_max_startup_time_ms = Setting(
        ConfigType.LONG,
        MAX_LONG,
        "A node that is not ready after this long stops.",
        at_least(0),
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
