"""`tidelog view`: look at a cluster in a browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.exits import answering, refuse
from tidelog.cli.options import (
    Bootstrap,
    DataDirectory,
    bootstrap_of,
    cluster_directory,
    command_security,
)
from tidelog.cli.output import say

if TYPE_CHECKING:
    from tidelog.view.server import ViewedCluster


def view(
    data: DataDirectory = None,
    http: Annotated[
        list[str] | None,
        typer.Option(
            "--http",
            metavar="URL",
            help="A node's http.listener; may be repeated. Not with --data.",
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port on 127.0.0.1.", show_default="8080, or the next free one"
        ),
    ] = None,
    pipeline: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="A pipeline to show; may be repeated."
        ),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Show a cluster live in a browser: problems, partitions, causes, messages, groups.

    It is a process of its own and only reads. On a cluster on this machine that was started with
    `tidelog up --dev` it may also act, for whoever opens the address that is printed.

    Examples: `tidelog view --open`, or for nodes elsewhere
    `tidelog view --http 10.0.0.1:8100 --http 10.0.0.2:8100 --bootstrap 10.0.0.1:9092`.
    """
    with answering():
        if http and data is not None:
            raise typer.BadParameter("--http and --data contradict each other", param_hint="--http")
        pipelines = tuple(path.absolute() for path in pipeline or [])
        viewed = _elsewhere(http, bootstrap) if http else _on_this_machine(data, bootstrap)
        _serve(viewed._replace(pipelines=pipelines), port, open_browser=open_browser)


def _elsewhere(urls: list[str], bootstrap: str | None) -> ViewedCluster:
    from tidelog.view.node_streams import NodeAddress
    from tidelog.view.server import ViewedCluster

    return ViewedCluster(
        tuple(map(NodeAddress.parse, urls)),
        bootstrap_of(bootstrap, None),
        security=command_security(),
    )


def _on_this_machine(data: Path | None, bootstrap: str | None) -> ViewedCluster:
    from tidelog.local.local_cluster import LocalCluster
    from tidelog.local.view_process import ViewProcess
    from tidelog.view.guard import new_token
    from tidelog.view.node_streams import NodeAddress
    from tidelog.view.server import ViewedCluster

    cluster = LocalCluster.open(cluster_directory(data))
    addresses = tuple(
        NodeAddress.parse(node.http_listener)._replace(node_id=node.node_id)
        for node in cluster.descriptions.values()
        if node.http_listener is not None
    )
    if not addresses:
        refuse(f"no node of the cluster in {cluster.directory} has an http.listener")
    token = new_token() if ViewProcess(cluster.directory).may_act else None
    where = bootstrap_of(bootstrap, None) if bootstrap else cluster.bootstrap
    return ViewedCluster(
        addresses,
        where,
        cluster.directory,
        token,
        security=command_security() or cluster.security(),
    )


def _serve(viewed: ViewedCluster, port: int | None, *, open_browser: bool) -> None:
    import asyncio

    from tidelog.local.view_process import DEFAULT_VIEW_PORT, URL_FILE_VARIABLE
    from tidelog.view.server import ViewServer, listening_socket, url_of, write_secretly

    chosen = DEFAULT_VIEW_PORT if port is None else port
    with listening_socket(chosen, or_next_free=port is None) as listener:
        url = url_of(listener, viewed.token)
        if url_file := os.environ.get(URL_FILE_VARIABLE):
            write_secretly(Path(url_file), url)
        else:
            say(f"view: {url}")
        if open_browser:
            typer.launch(url)
        asyncio.run(ViewServer(viewed, say).serve_until_stopped(listener))
