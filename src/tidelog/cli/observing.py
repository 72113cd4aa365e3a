"""The nodes that a command looks at: where they answer over HTTP, where they keep their events.

Invariant  What the options name is looked at and nothing else; without any, it is what the
           environment names, else the cluster in the user's data directory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tidelog.cli.options import (
    BOOTSTRAP_VARIABLE,
    DATA_VARIABLE,
    DEFAULT_BOOTSTRAP,
    bootstrap_of,
    cluster_directory,
    command_security,
)

if TYPE_CHECKING:
    from tidelog.client.security import ClientSecurity
    from tidelog.http.questions import NodeListener
    from tidelog.local.local_cluster import LocalCluster

HttpListeners = Annotated[
    list[str] | None,
    typer.Option(
        "--http",
        metavar="URL",
        help="Where a node answers over HTTP, e.g. http://10.0.0.1:8080; once for each node. "
        "Nodes of a cluster on this machine are found by themselves.",
    ),
]


class Observed(NamedTuple):
    """The cluster at hand."""

    bootstrap: str
    listeners: tuple[NodeListener, ...]
    local: LocalCluster | None
    security: ClientSecurity | None = None
    """How its brokers let us in."""


def observed(bootstrap: str | None, data: Path | None, http: list[str] | None) -> Observed:
    """For a command that asks brokers, and nodes over HTTP where they are known."""
    where = bootstrap_of(bootstrap, data)
    local = None
    if data is not None or (bootstrap is None and BOOTSTRAP_VARIABLE not in os.environ):
        local = _local(data, where)
    listeners = listeners_of(http)
    if not listeners and local is not None:
        listeners = local_listeners(local)
    return Observed(where, listeners, local, command_security())


def listeners_of(http: list[str] | None) -> tuple[NodeListener, ...]:
    """The nodes that --http names; their ids are to be learnt."""
    from tidelog.http.questions import parse_listener
    from tidelog.model.errors import ConfigError

    texts = [part.strip() for each in http or () for part in each.split(",")]
    try:
        return tuple(dict.fromkeys(parse_listener(each) for each in texts))
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--http") from error


def _local(data: Path | None, bootstrap: str) -> LocalCluster | None:
    """The cluster on this machine that has this bootstrap, if it is one."""
    from tidelog.local.local_cluster import LocalCluster, NoCluster

    named = data
    if named is None and (variable := os.environ.get(DATA_VARIABLE)):
        named = Path(variable)
    if named is not None:
        return LocalCluster.open(cluster_directory(named))
    try:
        found = LocalCluster.open(cluster_directory(None))
    except NoCluster:
        return None
    assert bootstrap == DEFAULT_BOOTSTRAP
    return found if bootstrap in found.bootstrap.split(",") else None


def local_listeners(cluster: LocalCluster) -> tuple[NodeListener, ...]:
    """Where the nodes of a cluster on this machine answer over HTTP."""
    from tidelog.http.questions import parse_listener

    return tuple(
        parse_listener(each.http_listener)._replace(node_id=each.node_id)
        for each in cluster.descriptions.values()
        if each.http_listener is not None
    )
