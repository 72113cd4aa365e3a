"""`tidelog link`: cut or slow what passes between two nodes of a cluster for development."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.completion import node_ids
from tidelog.cli.exits import answering, refuse
from tidelog.cli.options import AsJson, DataDirectory, cluster_directory
from tidelog.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.local.local_cluster import LocalCluster

app = typer.Typer(
    help="Cut, slow or heal links between nodes of a cluster that `tidelog up --dev` created.",
    no_args_is_help=True,
)

OneNode = Annotated[
    int, typer.Argument(metavar="ID", help="A node, e.g. 100.", autocompletion=node_ids)
]
OtherNode = Annotated[
    int, typer.Argument(metavar="ID", help="Another node, e.g. 101.", autocompletion=node_ids)
]


def _cluster(data: Path | None) -> LocalCluster:
    from tidelog.local.local_cluster import LocalCluster

    return LocalCluster.open(cluster_directory(data))


@app.command()
def cut(one: OneNode, other: OtherNode, data: DataDirectory = None) -> None:
    """Let nothing pass between two nodes; connections stay open and silent."""
    with answering():
        _cluster(data).link(one, other).cut(one, other)
        say(f"nothing passes between {one} and {other}")


@app.command()
def slow(
    one: OneNode,
    other: OtherNode,
    ms: Annotated[int, typer.Option("--ms", min=1, help="So many milliseconds longer.")],
    data: DataDirectory = None,
) -> None:
    """Let everything between two nodes take longer, in both directions."""
    with answering():
        _cluster(data).link(one, other).slow(one, other, ms)
        say(f"everything between {one} and {other} takes {ms} ms longer")


@app.command()
def heal(one: OneNode, other: OtherNode, data: DataDirectory = None) -> None:
    """Make a link whole again; what waited at it arrives now."""
    with answering():
        _cluster(data).link(one, other).heal(one, other)
        say(f"the link between {one} and {other} is whole")


@app.command(name="list")
def list_links(data: DataDirectory = None, as_json: AsJson = False) -> None:
    """Show the links between nodes, and which are cut or slow."""
    with answering():
        from tidelog.local.links import LinkFault

        cluster = _cluster(data)
        if not cluster.has_links:
            refuse("nodes of this cluster talk to each other directly; see `tidelog up --dev`")
        faults = cluster.links.faults
        found = [(pair, faults.get(pair)) for pair in combinations(sorted(cluster.nodes), 2)]
        for pair, fault in found if as_json else ():
            print_json({"between": list(pair), **(fault or LinkFault())._asdict()})
        if not as_json:
            print_table(
                ["node", "node", "link"],
                [(*pair, "whole" if fault is None else str(fault)) for pair, fault in found],
            )
