"""A node of a local cluster before its first start: description, configuration, formatting.

Invariant  A node's configuration agrees with its description, by which everyone finds the node:
           its id, its roles, its ports and its log directory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.model.errors import ConfigError
from tidelog.model.settings.properties import parse_properties, write_properties
from tidelog.testing.node_process import NodeTrouble
from tidelog.testing.ports import HOST, port_is_free

if TYPE_CHECKING:
    from tidelog.model.config import NodeConfig

FIRST_NODE_ID: Final = 100
CONTROLLER_PORT_DISTANCE: Final = 1000

_DEVELOPMENT: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "true",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
}


class NodeDescription(NamedTuple):
    """What `cluster.json` says about one node."""

    node_id: int
    roles: tuple[str, ...]
    listener: str
    controller_listener: str

    @property
    def port(self) -> int:
        return int(self.listener.rpartition(":")[2])

    @property
    def controller_port(self) -> int:
        return int(self.controller_listener.rpartition(":")[2])


def local_node(node_id: int, port: int, controller_port: int | None = None) -> NodeDescription:
    """A node that is broker and controller; its controller listens beside the broker's port."""
    if controller_port is None:
        step = CONTROLLER_PORT_DISTANCE
        controller_port = port + step if port + step < 65536 else port - step
    return NodeDescription(
        node_id, ("broker", "controller"), f"{HOST}:{port}", f"{HOST}:{controller_port}"
    )


def node_directory(directory: Path, node_id: int) -> Path:
    return directory / f"node-{node_id}"


def node_properties(data: Path, node: NodeDescription) -> dict[str, str]:
    """The configuration a node of a local cluster starts with."""
    return {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.node_id),
        "listeners": f"PLAINTEXT://{node.listener},CONTROLLER://{node.controller_listener}",
        "advertised.listeners": f"PLAINTEXT://{node.listener}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": node.controller_listener,
        "log.dirs": str(data),
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }


def set_up_node(
    directory: Path, node: NodeDescription, *, development: bool, settings: Mapping[str, str]
) -> str:
    """Check configuration and ports, format the data directory; the id of the new cluster."""
    from tidelog.broker.format import format_node

    home = node_directory(directory, node.node_id)
    properties = node_properties(home / "data", node)
    properties.update(_DEVELOPMENT if development else {})
    properties.update(settings)
    config = _checked(properties, home, node)
    # Not later: once it exists, a cluster keeps its ports.
    refuse_taken_ports(node, "free it, or choose another one (--port)")
    home.mkdir(parents=True, exist_ok=True)
    cluster_id = format_node(config)
    _write_properties(home / "node.properties", properties)
    return cluster_id


def change_settings(
    directory: Path, node: NodeDescription, settings: Mapping[str, str], *, development: bool
) -> None:
    """Add settings to a node's configuration file; a wrong one changes nothing."""
    home = node_directory(directory, node.node_id)
    path = home / "node.properties"
    properties = parse_properties(path.read_text(encoding="utf-8"))
    changed = properties | dict(_DEVELOPMENT if development else {}) | dict(settings)
    if changed != properties:
        _checked(changed, home, node)
        _write_properties(path, changed)


def refuse_taken_ports(node: NodeDescription, advice: str) -> None:
    """Say it before the node does, and in plainer words."""
    for port in (node.port, node.controller_port):
        if not port_is_free(port):
            raise NodeTrouble(
                f"port {port} is taken by another program, and node {node.node_id} needs it: "
                f"{advice}"
            )


def _checked(properties: Mapping[str, str], home: Path, node: NodeDescription) -> NodeConfig:
    from tidelog.model.config import NodeConfig

    own = node_properties(home / "data", node)
    for key in ("node.id", "process.roles", "log.dirs"):
        if properties[key] != own[key]:
            raise ConfigError(f"{key} is {own[key]} in a local cluster and cannot be set")
    config = NodeConfig.from_properties(properties)
    if {each.port for each in config.endpoints} != {node.port, node.controller_port}:
        raise ConfigError(
            f"listeners: this node has the ports {node.port} and {node.controller_port}; "
            "only a new cluster can have others (--port)"
        )
    return config


def _write_properties(path: Path, properties: Mapping[str, str]) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(write_properties(properties), encoding="utf-8")
    os.replace(temporary, path)
