"""`tidelog view`: look at a cluster in a browser."""

from __future__ import annotations

import os
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.exits import answering, refuse
from tidelog.cli.observing import HttpListeners, listeners_of, local_listeners
from tidelog.cli.options import (
    Bootstrap,
    DataDirectory,
    bootstrap_of,
    cluster_directory,
    command_security,
    was_given,
)
from tidelog.cli.output import say

if TYPE_CHECKING:
    from tidelog.client.security import ClientSecurity
    from tidelog.http.questions import NodeListener
    from tidelog.view.server import ViewedCluster


def view(
    context: typer.Context,
    data: DataDirectory = None,
    http: HttpListeners = None,
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
    listeners = listeners_of(http)
    if listeners and was_given(context, "data"):
        raise typer.BadParameter("--http and --data contradict each other", param_hint="--http")
    with answering():
        pipelines = tuple(path.absolute() for path in pipeline or [])
        viewed = (
            _elsewhere(listeners, bootstrap) if listeners else _on_this_machine(data, bootstrap)
        )
        _serve(viewed._replace(pipelines=pipelines), port, open_browser=open_browser)


def _elsewhere(listeners: tuple[NodeListener, ...], bootstrap: str | None) -> ViewedCluster:
    """Nodes and brokers that say, as far as they answer, that they are of one cluster."""
    from tidelog.monitor.node_survey import survey
    from tidelog.view.server import ViewedCluster

    where = bootstrap_of(bootstrap, None)
    found = survey(listeners)
    for why in found.silent.values():
        say(f"{why}; it is asked again and again", style="yellow")
    cluster_id = _refuse_other_brokers(where, found.cluster_id, command_security())
    return ViewedCluster(listeners, where, cluster_id=cluster_id, security=command_security())


def _refuse_other_brokers(
    bootstrap: str, cluster_id: str | None, security: ClientSecurity | None
) -> str | None:
    """The id of the cluster, unless brokers say that they are of another one."""
    from tidelog.client.admin import Admin
    from tidelog.client.blocking import Client
    from tidelog.client.errors import ClientError
    from tidelog.monitor.node_survey import PATIENCE_S, refuse_mixture

    try:
        with Client(
            bootstrap, timeout_s=PATIENCE_S, request_timeout_s=PATIENCE_S, security=security
        ) as client:
            told, _, _ = Admin(client).describe_cluster()
    except ClientError as error:
        say(f"{error}; topics and groups are shown once it answers", style="yellow")
        return cluster_id
    nodes = {} if cluster_id is None else {"the nodes' cluster": cluster_id}
    refuse_mixture({**nodes, f"the broker at {bootstrap}": told})
    return told


def _on_this_machine(data: Path | None, bootstrap: str | None) -> ViewedCluster:
    from tidelog.local.local_cluster import LocalCluster
    from tidelog.local.view_process import ViewProcess
    from tidelog.view.guard import new_token
    from tidelog.view.server import ViewedCluster

    cluster = LocalCluster.open(cluster_directory(data))
    listeners = local_listeners(cluster)
    if not listeners:
        refuse(f"no node of the cluster in {cluster.directory} has an http.listener")
    token = new_token() if ViewProcess(cluster.directory).may_act else None
    where, security = cluster.bootstrap, command_security() or cluster.security()
    if bootstrap is not None:
        where = bootstrap_of(bootstrap, None)
        _refuse_other_brokers(where, cluster.cluster_id, security)
    return ViewedCluster(
        listeners,
        where,
        cluster.directory,
        token,
        cluster_id=cluster.cluster_id,
        security=security,
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
        with _opened(url, viewed) if open_browser else nullcontext():
            asyncio.run(ViewServer(viewed, say).serve_until_stopped(listener))


@contextmanager
def _opened(url: str, viewed: ViewedCluster) -> Iterator[None]:
    """A browser at the view, for as long as it is served.

    What a process is started with can be read by every user of the machine: a browser is started
    with the name of a file that only its owner may read, and that file has the token.
    """
    from tidelog.view.server import redirect_page, write_secretly

    page = None
    if viewed.token is not None and viewed.directory is not None:
        page = viewed.directory / "view" / "open.html"
        page.parent.mkdir(exist_ok=True)
        write_secretly(page, redirect_page(url))
    where = url if page is None else page.as_uri()
    threading.Thread(target=_start_browser, args=(where,), daemon=True).start()
    try:
        yield
    finally:
        if page is not None:
            page.unlink(missing_ok=True)


def _start_browser(where: str) -> None:
    if not webbrowser.open(where):
        say("no browser could be started; open the address above in one", style="yellow")
