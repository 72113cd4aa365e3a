"""The nodes of a simulated cluster before their first start: configuration and formatting.

Brokers are the nodes from 100 on. The first of them, one or several, are controllers as well; or
controllers are nodes of their own, from 200 on. Each is alone on its machine, reachable at an
address of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from tidelog.controller.features import default_features
from tidelog.controller.records import encode_record
from tidelog.model.config import NodeConfig
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.formatting import format_directory
from tidelog.simulator.world.dice import SeededEntropy, stream
from tidelog.storage.filesystem import FileSystem

FIRST_NODE: Final = 100
FIRST_CONTROLLER: Final = 200
"""Of the nodes that are controllers only."""
BROKER_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
DATA: Final = "/data"
"""The first log directory of a node, with its metadata log."""


def broker_ids(brokers: int) -> tuple[int, ...]:
    """The numbers of so many brokers."""
    return tuple(range(FIRST_NODE, FIRST_NODE + brokers))


def controller_ids(controllers: int, *, separate: bool = False) -> tuple[int, ...]:
    """The numbers of so many controllers, among the brokers or beside them."""
    first = FIRST_CONTROLLER if separate else FIRST_NODE
    return tuple(range(first, first + controllers))


def is_broker(node_id: int) -> bool:
    return node_id < FIRST_CONTROLLER


def log_directories(node_id: int, directories: int) -> tuple[str, ...]:
    """Where a node keeps its logs; one that is no broker has nothing but metadata."""
    more = range(1, directories if is_broker(node_id) else 1)
    return (DATA, *(f"/disk{number}" for number in more))


def machine_address(node_id: int) -> str:
    return f"10.0.{node_id >> 8}.{node_id & 255}"


def client_address(number: int) -> str:
    return f"10.1.{number >> 8}.{number & 255}"


def node_config(
    node_id: int,
    settings: Mapping[str, str],
    controllers: Sequence[int] = (FIRST_NODE,),
    directories: int = 1,
) -> NodeConfig:
    """A node's configuration, with the run's own settings on top."""
    address = machine_address(node_id)
    quorum = ",".join(f"{machine_address(each)}:{CONTROLLER_PORT}" for each in controllers)
    roles, listeners = [], []
    if is_broker(node_id):
        roles.append("broker")
        listeners.append(f"PLAINTEXT://{address}:{BROKER_PORT}")
    if node_id in controllers:
        roles.append("controller")
        listeners.append(f"CONTROLLER://{address}:{CONTROLLER_PORT}")
    return NodeConfig.from_properties(
        {
            "process.roles": ",".join(roles),
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": quorum,
            "log.dirs": ",".join(log_directories(node_id, directories)),
            **settings,
        }
    )


def format_log_directory(
    files: FileSystem,
    path: str,
    config: NodeConfig,
    cluster_id: str,
    directory_id: UUID,
    voters: tuple[Voter, ...],
    wall_ms: int,
) -> None:
    """Make a log directory of this node; `voters` are the first ones of the quorum."""
    files.make_directory(path)
    files.sync_directory("/")
    format_directory(
        files,
        path,
        cluster_id=cluster_id,
        node_id=config.node_id,
        directory_id=directory_id,
        bootstrap=[encode_record(record) for record in default_features()],
        voters=voters if config.is_controller and path == DATA else (),
        wall_ms=wall_ms,
    )


def first_directory(seed: int, node_id: int) -> UUID:
    """The identity of the directory in which a node begins its metadata log."""
    return SeededEntropy(stream(seed, "format", node_id, 1)).uuid()


def first_voters(seed: int, controllers: Sequence[int]) -> tuple[Voter, ...]:
    """The quorum a cluster begins with."""
    return tuple(
        Voter(
            voter_id=node_id,
            voter_directory_id=first_directory(seed, node_id),
            endpoints=(
                VoterEndpoint(
                    name="CONTROLLER", host=machine_address(node_id), port=CONTROLLER_PORT
                ),
            ),
        )
        for node_id in controllers
    )
