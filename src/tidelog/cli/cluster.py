"""`tidelog cluster`: the cluster as its brokers and its metadata quorum."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tidelog.cli.connecting import connected, deciding
from tidelog.cli.exits import answering, refuse
from tidelog.cli.health import health
from tidelog.cli.options import AsJson, Bootstrap, OfLocalCluster, bootstrap_of, command_security
from tidelog.cli.output import counted, print_json, print_table, say
from tidelog.cli.quorum_voters import add_controller, remove_controller

app = typer.Typer(help="Look at the cluster, and change who belongs to it.", no_args_is_help=True)

_SHOWN: Final = 5


@app.command()
def describe(
    bootstrap: Bootstrap = None, data: OfLocalCluster = None, as_json: AsJson = False
) -> None:
    """Show the brokers and the state of the metadata quorum.

    Without an active controller the brokers are shown as they were last known.
    """
    with answering():
        from tidelog.client.admin import Admin
        from tidelog.client.blocking import Client
        from tidelog.client.errors import NoController

        quorum, problem = None, None
        with Client(bootstrap_of(bootstrap, data), security=command_security()) as client:
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


app.command()(health)


@app.command()
def apis(bootstrap: Bootstrap = None, data: OfLocalCluster = None, as_json: AsJson = False) -> None:
    """Show which protocol versions the broker serves."""
    with answering():
        from tidelog.protocol.apis import ApiKey

        names = {int(key): key.name.lower() for key in ApiKey}
        with connected(bootstrap, data) as client:
            served = sorted(client.any_connection().session.served.items())
        if as_json:
            for key, (low, high) in served:
                print_json({"key": key, "api": names.get(key), "min": low, "max": high})
            return
        print_table(
            ["key", "api", "versions"],
            [(key, names.get(key, "unknown"), f"{low}-{high}") for key, (low, high) in served],
        )


@app.command()
def unregister(
    broker: Annotated[int, typer.Argument(metavar="ID", help="The broker, e.g. 103.")],
    force: Annotated[
        bool,
        typer.Option("--force", help="Although it lives, or although partitions count on it."),
    ] = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
) -> None:
    """Have the cluster forget a broker that will not come back.

    First move its replicas to others with `tidelog partitions reassign`, then stop it. With
    --force it is forgotten as it is: partitions stay short of its replicas, and a broker that
    lives registers again when it is started anew.

    Examples:

    tidelog cluster unregister 103

    tidelog cluster unregister 103 --force
    """
    with answering():
        from tidelog.client.admin import Admin

        with deciding(bootstrap, data) as client:
            admin = Admin(client)
            _, _, brokers = admin.describe_cluster()
            known = {each.node_id: each for each in brokers}
            if broker not in known:
                refuse(
                    f"there is no broker {broker}; this cluster has {', '.join(map(str, known))}"
                )
            held = [
                f"{topic.name}-{each.partition}"
                for topic in admin.topics().topics.values()
                for each in topic.partitions
                if broker in each.replicas
            ]
            objections = [] if known[broker].fenced else ["it lives: stop it first"]
            if held:
                names = ", ".join(held[:_SHOWN]) + (", …" if len(held) > _SHOWN else "")
                objections.append(
                    f"it has replicas of {counted(len(held), 'partition')} ({names}): move them "
                    "with `tidelog partitions reassign`"
                )
            for objection in objections:
                say(f"broker {broker}: {objection}", style="yellow" if force else "red")
            if objections and not force:
                refuse("nothing was changed; --force goes on")
            admin.unregister_broker(broker)
            say(f"broker {broker} is forgotten")
            quorum = admin.describe_quorum()
            if broker in [member.node_id for member in quorum.voters]:
                say(
                    f"node {broker} still votes as a controller: `tidelog cluster "
                    f"remove-controller {broker}` ends that",
                    style="yellow",
                )


app.command(name="add-controller")(add_controller)
app.command(name="remove-controller")(remove_controller)
