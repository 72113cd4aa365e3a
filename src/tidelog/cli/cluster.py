"""`tidelog cluster`: the cluster as its brokers and its metadata quorum."""

from __future__ import annotations

import typer

from tidelog.cli.exits import answering
from tidelog.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from tidelog.cli.output import print_json, print_table, say

app = typer.Typer(help="Look at the cluster behind a broker.", no_args_is_help=True)


@app.command()
def describe(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show the brokers and the state of the metadata quorum.

    Without an active controller the brokers are shown as they were last known.
    """
    with answering():
        from tidelog.client.admin import Admin
        from tidelog.client.blocking import Client
        from tidelog.client.errors import NoController

        quorum, problem = None, None
        with Client(bootstrap) as client:
            admin = Admin(client)
            cluster_id, _, brokers = admin.describe_cluster()
            try:
                quorum = admin.describe_quorum()
            except NoController as missing:
                problem = str(missing)
        voters = None if quorum is None else [member.node_id for member in quorum.voters]
        if as_json:
            print_json(
                {
                    "cluster_id": cluster_id,
                    "controller": quorum and quorum.leader,
                    "controller_epoch": quorum and quorum.epoch,
                    "metadata_high_watermark": quorum and quorum.high_watermark,
                    "voters": voters,
                    "brokers": [
                        {
                            "id": each.node_id,
                            "listener": f"{each.host}:{each.port}",
                            "rack": each.rack,
                            "fenced": each.fenced,
                        }
                        for each in brokers
                    ],
                    "problem": problem,
                }
            )
            return
        if quorum is None or voters is None:
            say(f"cluster {cluster_id}; {problem}", style="red")
            say("the brokers as they were last known:")
        else:
            say(
                f"cluster {cluster_id}, controller {quorum.leader} in epoch {quorum.epoch}, "
                f"voters {','.join(map(str, voters))}, "
                f"metadata committed to offset {quorum.high_watermark}"
            )
        print_table(
            ["broker", "listener", "rack", "state"],
            [
                (
                    each.node_id,
                    f"{each.host}:{each.port}",
                    each.rack,
                    "fenced" if each.fenced else "active",
                )
                for each in brokers
            ],
        )


@app.command()
def apis(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show which protocol versions the broker serves."""
    with answering():
        from tidelog.client.blocking import Client
        from tidelog.protocol.apis import ApiKey

        names = {int(key): key.name.lower() for key in ApiKey}
        with Client(bootstrap) as client:
            served = sorted(client.any_connection().session.served.items())
        if as_json:
            for key, (low, high) in served:
                print_json({"key": key, "api": names.get(key), "min": low, "max": high})
            return
        print_table(
            ["key", "api", "versions"],
            [(key, names.get(key, "unknown"), f"{low}-{high}") for key, (low, high) in served],
        )
