"""`tidelog support-bundle`: one archive for whoever helps from afar."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.exits import answering, refuse
from tidelog.cli.options import (
    AsJson,
    Bootstrap,
    DataDirectory,
    bootstrap_of,
    cluster_directory,
    command_security,
)
from tidelog.cli.output import print_json, print_table, say, size_text


def support_bundle(
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
    sizes of their files. No record of a topic is in it; names of topics, groups and hosts are.

    Examples:

    tidelog support-bundle

    tidelog support-bundle --bootstrap db1:9092 --output for-the-vendor.tar.gz
    """
    with answering():
        from tidelog.local.local_cluster import LocalCluster, NoCluster
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
        cluster = None
        try:
            cluster = LocalCluster.open(cluster_directory(data))
        except NoCluster:
            if data is not None:
                raise
        where = bootstrap_of(bootstrap, None)
        if cluster is not None and bootstrap is None:
            where = cluster.bootstrap
        with new_bundle(path) as bundle:
            add_versions(bundle)
            if cluster is not None:
                add_local_cluster(bundle, cluster)
            add_cluster(bundle, where, command_security())
        if as_json:
            contents = [each._asdict() for each in bundle.contents]
            print_json({"archive": str(path), "contents": contents, "missing": bundle.missing})
        else:
            print_table(
                ["file", "size", "what"],
                [(each.name, size_text(each.size), each.what) for each in bundle.contents],
            )
        for what, why in bundle.missing.items():
            say(f"missing: {what}: {why}", style="yellow")
        say(
            f"wrote {path} ({size_text(path.stat().st_size)}): no records, no secrets; names of "
            "topics, groups and hosts are in it"
        )
