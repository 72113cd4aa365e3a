"""`tidelog node`: break one node of the local cluster on purpose, and mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.completion import node_ids
from tidelog.cli.exits import answering
from tidelog.cli.options import DataDirectory, cluster_directory
from tidelog.cli.output import say

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.local.local_cluster import LocalCluster

app = typer.Typer(help="Kill, stop, pause, resume or start one node.", no_args_is_help=True)

NodeId = Annotated[
    int, typer.Argument(metavar="ID", help="The node, e.g. 100.", autocompletion=node_ids)
]


def _cluster(data: Path | None) -> LocalCluster:
    from tidelog.local.local_cluster import LocalCluster

    return LocalCluster.open(cluster_directory(data))


@app.command()
def kill(node_id: NodeId, data: DataDirectory = None) -> None:
    """SIGKILL: the node ends at once and cleans nothing up."""
    with answering():
        _cluster(data).node(node_id).kill()
        say(f"node {node_id} killed")


@app.command()
def stop(node_id: NodeId, data: DataDirectory = None) -> None:
    """SIGTERM: the node ends cleanly."""
    with answering():
        _cluster(data).node(node_id).stop()
        say(f"node {node_id} stopped")


@app.command()
def pause(node_id: NodeId, data: DataDirectory = None) -> None:
    """SIGSTOP: the node is there but does nothing."""
    with answering():
        _cluster(data).node(node_id).pause()
        say(f"node {node_id} paused")


@app.command()
def resume(node_id: NodeId, data: DataDirectory = None) -> None:
    """SIGCONT: a paused node goes on."""
    with answering():
        _cluster(data).node(node_id).resume()
        say(f"node {node_id} goes on")


@app.command()
def start(node_id: NodeId, data: DataDirectory = None) -> None:
    """Start a stopped node with the configuration it had; returns when it is ready.

    While too few controllers run for that, it says so and leaves the node running.
    """
    with answering():
        from tidelog.local.local_cluster import TooFewControllers

        cluster = _cluster(data)
        try:
            cluster.start_node(node_id)
        except TooFewControllers as waiting:
            say(f"node {node_id} runs and waits: {waiting}")
            return
        node = cluster.descriptions[node_id]
        say(f"node {node_id} is ready at {node.listener or node.controller_listener}")
