"""`tidelog support-bundle`: one archive for whoever helps from afar."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.exits import answering, refuse
from tidelog.cli.options import (
    BOOTSTRAP_VARIABLE,
    AsJson,
    Bootstrap,
    DataDirectory,
    bootstrap_of,
    cluster_directory,
    command_security,
    was_given,
)
from tidelog.cli.output import print_json, print_table, say, size_text

if TYPE_CHECKING:
    from tidelog.local.local_cluster import LocalCluster
    from tidelog.local.support_bundle import SupportBundle


def support_bundle(
    context: typer.Context,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", dir_okay=False, show_default="tidelog-support-TIME.tar.gz here"
        ),
    ] = None,
    data: DataDirectory = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Collect what somebody needs who helps from afar, in one archive, and say what is in it.

    Versions, settings without secrets, `tidelog status`, what the cluster says of its brokers,
    quorum, topics and groups, logs and events of the nodes on this machine, and the names and
    sizes of their files. No record of a topic is in it; names of topics, groups and hosts are. All
    of it is of one cluster: what is of another one is left out, and named.

    Examples:

    tidelog support-bundle

    tidelog support-bundle --bootstrap db1:9092 --output for-the-vendor.tar.gz
    """
    with answering():
        from tidelog.local.support_bundle import (
            add_cluster,
            add_local_cluster,
            add_versions,
            new_bundle,
        )

        moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        path = output or Path(f"tidelog-support-{moment}.tar.gz")
        if path.exists():
            refuse(f"{path} is there already")
        local = _local(data)
        by_brokers = bootstrap is not None or (data is None and BOOTSTRAP_VARIABLE in os.environ)
        where = bootstrap_of(bootstrap, None)
        with new_bundle(path) as bundle:
            add_versions(bundle)
            if local is None:
                add_cluster(bundle, where, security=command_security())
            elif by_brokers and not was_given(context, "data"):
                _add_named(bundle, where, local)
            else:
                add_local_cluster(bundle, local)
                at = where if bootstrap is not None else local.bootstrap
                add_cluster(bundle, at, local.cluster_id, command_security())
        _show(bundle, as_json, path)


def _local(data: Path | None) -> LocalCluster | None:
    """The cluster on this machine; none where nobody named one and there is none."""
    from tidelog.local.local_cluster import LocalCluster, NoCluster

    try:
        return LocalCluster.open(cluster_directory(data))
    except NoCluster:
        if data is not None:
            raise
        return None


def _add_named(bundle: SupportBundle, bootstrap: str, local: LocalCluster) -> None:
    """The cluster whose brokers were named, with nodes on this machine only if they are its own."""
    from tidelog.local.support_bundle import add_cluster, add_local_cluster

    cluster_id = add_cluster(bundle, bootstrap, security=command_security())
    if cluster_id == local.cluster_id:
        add_local_cluster(bundle, local)
        return
    whose = f"that is cluster {cluster_id}" if cluster_id else f"nobody at {bootstrap} says which"
    bundle.left_out[f"the nodes in {local.directory}"] = (
        f"they are of cluster {local.cluster_id}, and {whose}; --data takes them"
    )


def _show(bundle: SupportBundle, as_json: bool, path: Path) -> None:
    if as_json:
        contents = [each._asdict() for each in bundle.contents]
        print_json(
            {
                "archive": str(path),
                "contents": contents,
                "missing": bundle.missing,
                "left_out": bundle.left_out,
                "warnings": bundle.warnings,
            }
        )
    else:
        print_table(
            ["file", "size", "what"],
            [(each.name, size_text(each.size), each.what) for each in bundle.contents],
        )
    for each in bundle.warnings:
        say(f"warning: {each}", style="yellow")
    for what, why in bundle.missing.items():
        say(f"missing: {what}: {why}", style="yellow")
    for what, why in bundle.left_out.items():
        say(f"left out: {what}: {why}", style="yellow")
    say(
        f"wrote {path} ({size_text(path.stat().st_size)}): no records, no secrets; names of "
        "topics, groups and hosts are in it"
    )
