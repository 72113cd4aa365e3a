"""A node of a local cluster before its first start: description, configuration, formatting."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.model.settings.properties import parse_properties, write_properties
from tidelog.testing.ports import HOST

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
    """Check the configuration, format the node's data directory; the id of the new cluster."""
    from tidelog.model.config import NodeConfig
    from tidelog.testing.formatting import format_node

    home = node_directory(directory, node.node_id)
    properties = node_properties(home / "data", node)
    properties.update(_DEVELOPMENT if development else {})
    properties.update(settings)
    config = NodeConfig.from_properties(properties)
    home.mkdir(parents=True, exist_ok=True)
    cluster_id = format_node(config)
    _write_properties(home / "node.properties", properties)
    return cluster_id


def change_settings(path: Path, settings: Mapping[str, str], *, development: bool) -> None:
    """Add settings to a node's configuration file; a wrong one changes nothing."""
    from tidelog.model.config import NodeConfig

    properties = parse_properties(path.read_text(encoding="utf-8"))
    changed = properties | dict(_DEVELOPMENT if development else {}) | dict(settings)
    if changed != properties:
        NodeConfig.from_properties(changed)
        _write_properties(path, changed)


def _write_properties(path: Path, properties: Mapping[str, str]) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(write_properties(properties), encoding="utf-8")
    os.replace(temporary, path)
