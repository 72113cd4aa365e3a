"""`tidelog down` and `tidelog status`: the cluster on this machine as a whole."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tidelog.cli.exits import answering, refuse
from tidelog.cli.options import AsJson, DataDirectory, Yes, agreed, cluster_directory
from tidelog.cli.output import print_json, print_table, say


def down(
    data: DataDirectory = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Then delete the cluster, with all its topics.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Stop every node of the cluster cleanly; the data stays, unless it shall not."""
    with answering():
        from tidelog.local.local_cluster import LocalCluster
        from tidelog.local.view_process import ViewProcess

        cluster = LocalCluster.open(cluster_directory(data))
        what = f"the cluster in {cluster.directory}"
        if delete and not agreed(f"Delete {what}, with all its topics?", yes=yes):
            refuse("nothing was stopped, nothing deleted")
        ViewProcess(cluster.directory).stop()
        stopped = cluster.stop()
        if not stopped:
            say(f"no node of {what} is running")
        for node_id in stopped:
            say(f"node {node_id} stopped")
        if delete:
            rest = cluster.delete()
            say(f"deleted {what}" + (f"; {', '.join(rest)} is not of it and stays" if rest else ""))


def status(data: DataDirectory = None, as_json: AsJson = False) -> None:
    """Show the nodes of the cluster: state, process, listeners, files, and why one stopped."""
    with answering():
        from tidelog.local.local_cluster import LocalCluster

        cluster = LocalCluster.open(cluster_directory(data))
        found = cluster.status()
        if as_json:
            print_json(found)
            return
        say(f"cluster {found['cluster_id']}, controller {found['controller'] or 'none'}")
        if found["view"] is not None:
            say(f"view: {found['view']}")
        if (why := cluster.why_undecided()) is not None:
            say(f"nothing can be decided: {why}", style="red")
        print_table(
            ["node", "roles", "state", "pid", "listener", "controller listener", "data"],
            [
                (
                    node["id"],
                    node["roles"],
                    _state(node),
                    node["pid"],
                    node["listener"],
                    node["controller_listener"],
                    node["data"],
                )
                for node in found["nodes"]
            ],
        )
        for node in found["nodes"]:
            if node["ending"] is not None and node["ending"]["cause"] != "clean":
                say(_why(node), style="red")


def _state(node: dict[str, Any]) -> str:
    return (
        node["state"] if node["ending"] is None else f"{node['state']}: {node['ending']['cause']}"
    )


def _why(node: dict[str, Any]) -> str:
    """Why a node is not running, and where to read on."""
    ending = node["ending"]
    code = "" if ending["exit_code"] is None else f" (exit code {ending['exit_code']})"
    return f"node {node['id']} {ending['cause']}{code}: {ending['reason']}; see {node['log']}"
