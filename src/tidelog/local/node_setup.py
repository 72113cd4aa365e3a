"""A node of a local cluster before its first start: description, configuration, formatting.

Invariant  A node's configuration agrees with its description, by which everyone finds the node:
           its id, its roles, its ports and its log directory.

The settings of nodes (`NodeConfig`) are imported when one is written or changed, since commands
that only look need none of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.local.development_keys import MECHANISM, DevelopmentKeys
from tidelog.local.node_process import NodeTrouble
from tidelog.local.ports import HOST, port_is_free
from tidelog.model.errors import ConfigError
from tidelog.model.settings.properties import parse_properties, write_properties

if TYPE_CHECKING:
    from tidelog.model.config import NodeConfig

FIRST_NODE_ID: Final = 100
FIRST_CONTROLLER_ID: Final = 200
CONTROLLER_PORT_DISTANCE: Final = 1000
HTTP_PORT_DISTANCE: Final = 2000
LINK_PORT_DISTANCE: Final = 3000
_PORT_STEP: Final = 100
FREE_IT: Final = "free it first"
VOTERS: Final = 3
"""So many of the brokers are controllers as well, unless there are separate ones: enough that one
may fail, and no more than that needs."""

_DEVELOPMENT: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "true",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
}


class NodeLinks(NamedTuple):
    """Where the other nodes of a cluster for development find a node: at proxies."""

    replication: str | None
    """Where the broker listens for other brokers, behind its proxy."""
    replication_proxy: str | None
    controller_proxy: str | None


class NodeDescription(NamedTuple):
    """What `cluster.json` says about one node."""

    node_id: int
    roles: tuple[str, ...]
    listener: str | None
    """None on a node that is no broker."""
    controller_listener: str | None
    """None on a node that is no controller."""
    http_listener: str | None = None
    """None on a node that answers no questions over HTTP."""
    links: NodeLinks | None = None
    """None where nodes talk to each other directly."""

    @property
    def is_broker(self) -> bool:
        return self.listener is not None

    @property
    def is_controller(self) -> bool:
        return self.controller_listener is not None

    @property
    def port(self) -> int:
        """Where the node is asked whether it is ready: on its broker's port if it has one."""
        return self.ports[0]

    @property
    def ports(self) -> tuple[int, ...]:
        """Every port on which the node speaks Kafka."""
        return tuple(port for port, role in self.ports_by_role.items() if role != "HTTP listener")

    @property
    def ports_by_role(self) -> dict[int, str]:
        """Every port with what it is for, the broker's first."""
        listeners = {
            "broker": self.listener,
            "replication": None if self.links is None else self.links.replication,
            "controller": self.controller_listener,
            "HTTP listener": self.http_listener,
        }
        return {
            int(each.rpartition(":")[2]): role
            for role, each in listeners.items()
            if each is not None
        }

    @property
    def proxied(self) -> dict[str, str]:
        """Every proxy, and what is behind it."""
        if self.links is None:
            return {}
        pairs = (
            (self.links.replication_proxy, self.links.replication),
            (self.links.controller_proxy, self.controller_listener),
        )
        return {proxy: target for proxy, target in pairs if proxy and target}

    @property
    def proxy_ports(self) -> tuple[int, ...]:
        """Every port on which a proxy stands before the node."""
        return tuple(int(each.rpartition(":")[2]) for each in self.proxied)

    @property
    def quorum_address(self) -> str | None:
        """Where the others find its controller."""
        if self.links is not None and self.links.controller_proxy is not None:
            return self.links.controller_proxy
        return self.controller_listener


def local_nodes(
    ports: Sequence[int], controller_ports: Sequence[int] | None = None, *, controllers: int = 0
) -> list[NodeDescription]:
    """One broker per port, and so many separate controllers; without any, the first brokers are
    controllers as well. A controller listens beside its broker's port."""
    voters = controllers or (VOTERS if len(ports) >= VOTERS else 1)
    if controller_ports is None:
        controller_ports = _beside(ports[0], CONTROLLER_PORT_DISTANCE, voters)
    control = [f"{HOST}:{port}" for port in controller_ports[:voters]]
    if controllers:
        return [
            *(
                NodeDescription(node_id, ("broker",), f"{HOST}:{port}", None)
                for node_id, port in enumerate(ports, FIRST_NODE_ID)
            ),
            *(
                NodeDescription(node_id, ("controller",), None, listener)
                for node_id, listener in enumerate(control, FIRST_CONTROLLER_ID)
            ),
        ]
    combined = [
        NodeDescription(node_id, ("broker", "controller"), f"{HOST}:{port}", listener)
        for node_id, port, listener in zip(
            range(FIRST_NODE_ID, FIRST_NODE_ID + voters), ports, control, strict=False
        )
    ]
    brokers = [
        NodeDescription(node_id, ("broker",), f"{HOST}:{port}", None)
        for node_id, port in enumerate(ports[voters:], FIRST_NODE_ID + voters)
    ]
    return [*combined, *brokers]


def with_http(
    nodes: Sequence[NodeDescription], ports: Sequence[int] | None
) -> list[NodeDescription]:
    """The nodes with an HTTP listener each, as long as there are ports; None: beside the others."""
    if ports is None:
        ports = _beside(nodes[0].port, HTTP_PORT_DISTANCE, len(nodes))
    http = [f"{HOST}:{port}" for port in ports[: len(nodes)]]
    given = zip(nodes, http, strict=False)
    answering = [node._replace(http_listener=listener) for node, listener in given]
    return [*answering, *nodes[len(http) :]]


def with_links(nodes: Sequence[NodeDescription]) -> list[NodeDescription]:
    """The nodes, each behind proxies of its own; their ports are beside the others."""
    distances = [LINK_PORT_DISTANCE + step * len(nodes) for step in range(3)]
    ports = [_beside(nodes[0].port, distance, len(nodes)) for distance in distances]
    return [
        node._replace(
            links=NodeLinks(
                f"{HOST}:{replication}" if node.is_broker else None,
                f"{HOST}:{replication_proxy}" if node.is_broker else None,
                f"{HOST}:{controller_proxy}" if node.is_controller else None,
            )
        )
        for node, replication, replication_proxy, controller_proxy in zip(
            nodes, *ports, strict=True
        )
    ]


def _beside(port: int, distance: int, count: int) -> range:
    """So many ports at a distance from that one, above it if there is room."""
    first = port + distance if port + distance + count <= 65536 else port - distance
    return range(first, first + count)


class Neighbourhood(NamedTuple):
    """What a node must know of the cluster it belongs to."""

    controllers: tuple[str, ...]
    """Where its controllers listen."""
    brokers: int

    @property
    def replicas(self) -> int:
        """How many copies a partition has unless somebody says otherwise."""
        return min(3, self.brokers)

    @property
    def min_in_sync(self) -> int:
        """How many of them must have a record before it counts: one of three may be down."""
        return max(1, self.replicas - 1)


def node_directory(directory: Path, node_id: int) -> Path:
    return directory / f"node-{node_id}"


def node_properties(
    data: Path, node: NodeDescription, around: Neighbourhood, *, secure: bool = False
) -> dict[str, str]:
    """The configuration a node of a local cluster starts with."""
    return {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.node_id),
        **_listeners(node, "CLIENTS" if secure else "PLAINTEXT"),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": ",".join(around.controllers),
        "log.dirs": str(data),
        **({} if node.http_listener is None else {"http.listener": node.http_listener}),
        "default.replication.factor": str(around.replicas),
        "min.insync.replicas": str(around.min_in_sync),
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "offsets.topic.replication.factor": str(around.replicas),
        "transaction.state.log.replication.factor": str(around.replicas),
        "transaction.state.log.min.isr": str(around.min_in_sync),
    }


def _listeners(node: NodeDescription, of_clients: str) -> dict[str, str]:
    """Where a node listens, and what it tells others of that."""
    links = node.links or NodeLinks(None, None, None)
    listeners = {
        of_clients: (node.listener, node.listener),
        "REPLICATION": (links.replication, links.replication_proxy),
        "CONTROLLER": (node.controller_listener, links.controller_proxy),
    }
    found = {
        "listeners": ",".join(f"{name}://{own}" for name, (own, _) in listeners.items() if own)
    }
    told = [f"{name}://{other}" for name, (_, other) in listeners.items() if other]
    if told:
        found["advertised.listeners"] = ",".join(told)
    if links.replication is not None:
        found["inter.broker.listener.name"] = "REPLICATION"
        protocols = (f"{name}:PLAINTEXT" for name in listeners)
        found["listener.security.protocol.map"] = ",".join(protocols)
    return found


def set_up_nodes(
    directory: Path,
    nodes: Sequence[NodeDescription],
    *,
    development: bool,
    settings: Mapping[str, str],
    secure: bool = False,
) -> str:
    """Check configurations and ports, format the data directories; the id of the new cluster."""
    from tidelog.model.settings.endpoints import InitialController
    from tidelog.security.scram_option import parse_add_scram
    from tidelog.shell.entropy import SystemEntropy
    from tidelog.shell.format import format_node

    entropy = SystemEntropy()
    keys = DevelopmentKeys.of(directory)
    passwords = keys.make(node.node_id for node in nodes) if secure else {}
    users = [
        parse_add_scram(f"{MECHANISM}=[name={user},password={password}]", entropy)
        for user, password in passwords.items()
    ]
    controllers = {node.node_id: node.quorum_address for node in nodes if node.quorum_address}
    initial = tuple(
        InitialController(node_id, HOST, int(listener.rpartition(":")[2]), entropy.uuid())
        for node_id, listener in controllers.items()
    )
    around = Neighbourhood(tuple(controllers.values()), sum(node.is_broker for node in nodes))
    checked = []
    for node in nodes:
        home = node_directory(directory, node.node_id)
        properties = node_properties(home / "data", node, around, secure=secure)
        if secure:
            properties |= keys.node_settings(node.node_id, passwords)
        properties.update(_DEVELOPMENT if development else {})
        properties.update(settings)
        checked.append((home, properties, _checked(properties, home, node), node.is_controller))
    # Not later: once it exists, a cluster keeps its ports.
    if not all(map(port_is_free, _all_ports(nodes))):
        advice = _other_ports(nodes)
        for node in nodes:
            refuse_taken_ports(node, advice)
        refuse_taken_proxies(nodes, advice)
    cluster_id: str | None = None
    for home, properties, config, is_controller in checked:
        home.mkdir(parents=True, exist_ok=True)
        cluster_id = format_node(
            config, cluster_id, initial if is_controller else None, first_users=users
        )
        _write_properties(home / "node.properties", properties)
    return cluster_id or ""


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


def refuse_taken_ports(node: NodeDescription, advice: str = FREE_IT) -> None:
    """Say it before the node does, and in plainer words."""
    for port, role in node.ports_by_role.items():
        if not port_is_free(port):
            raise NodeTrouble(taken_port(port, f"node {node.node_id}", f" for its {role}", advice))


def refuse_taken_proxies(nodes: Iterable[NodeDescription], advice: str = FREE_IT) -> None:
    """The same for the ports of the links between nodes."""
    for port in (port for node in nodes for port in node.proxy_ports):
        if not port_is_free(port):
            raise NodeTrouble(taken_port(port, "links between nodes", advice=advice))


def taken_port(port: int, who: str, what_for: str = "", advice: str = FREE_IT) -> str:
    """What to say of a port that somebody else has."""
    verb = "needs" if who.startswith("node ") else "need"
    return f"port {port} is taken by another program, and {who} {verb} it{what_for}: {advice}"


def _all_ports(nodes: Sequence[NodeDescription]) -> list[int]:
    return [port for node in nodes for port in (*node.ports_by_role, *node.proxy_ports)]


def _other_ports(nodes: Sequence[NodeDescription]) -> str:
    """How to choose ports for a new cluster that are free, as far as anybody can say now."""
    taken = _all_ports(nodes)
    first = nodes[0].port
    links = f", and links {LINK_PORT_DISTANCE}" if nodes[0].links is not None else ""
    for shift in range(_PORT_STEP, 2**16 - max(taken), _PORT_STEP):
        if all(port_is_free(port + shift) for port in taken):
            return (
                f"free it, or move all ports of the cluster: --port {first + shift} (controllers "
                f"listen {CONTROLLER_PORT_DISTANCE} ports away from brokers, HTTP listeners "
                f"{HTTP_PORT_DISTANCE}{links})"
            )
    return "free it, or choose a lower port for the first broker (--port)"


def _checked(properties: Mapping[str, str], home: Path, node: NodeDescription) -> NodeConfig:
    from tidelog.model.config import NodeConfig

    own = {
        "node.id": str(node.node_id),
        "process.roles": ",".join(node.roles),
        "log.dirs": str(home / "data"),
    }
    if node.http_listener is not None:
        own["http.listener"] = node.http_listener
    for key, value in own.items():
        if properties[key] != value:
            raise ConfigError(f"{key} is {value} in a local cluster and cannot be set")
    config = NodeConfig.from_properties(properties)
    if {each.port for each in config.endpoints} != set(node.ports):
        ports = " and ".join(map(str, node.ports))
        raise ConfigError(
            f"listeners: node {node.node_id} listens on {ports}; only a new cluster can have "
            "other ports (--port)"
        )
    return config


def _write_properties(path: Path, properties: Mapping[str, str]) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.touch(mode=0o600)  # it may hold a password
    temporary.write_text(write_properties(properties), encoding="utf-8")
    os.replace(temporary, path)
