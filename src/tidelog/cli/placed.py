"""`tidelog broker`, `tidelog format`, `tidelog random-uuid`: nodes placed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.exits import ExitCode, answering
from tidelog.cli.output import print_line, say

ConfigFile = Annotated[
    Path,
    typer.Option(
        "--config",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="The node's configuration, in Kafka's property names.",
    ),
]


def broker(config: ConfigFile) -> None:
    """Run one node in the foreground until SIGTERM or Ctrl-C."""
    with answering():
        from tidelog.shell.main import run

        raise typer.Exit(run(config))


def format_directories(
    config: ConfigFile,
    cluster_id: Annotated[
        str | None,
        typer.Option("--cluster-id", metavar="ID", help="The same for every node of a cluster."),
    ] = None,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            metavar="ID@HOST:PORT:DIRECTORY,…",
            help="The first voters of the quorum, the same for each of them.",
        ),
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="This controller is the first and only voter.")
    ] = False,
    no_initial_controllers: Annotated[
        bool,
        typer.Option("--no-initial-controllers", help="This controller joins the quorum later."),
    ] = False,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            metavar="SCRAM-SHA-512=[name=…,password=…]",
            help="A user who is there from the start; may be repeated. As kafka-storage takes it.",
        ),
    ] = None,
    any_cluster_id: Annotated[
        bool,
        typer.Option(
            "--any-cluster-id",
            help="Take a cluster id of any form, as Apache Kafka does.",
        ),
    ] = False,
) -> None:
    """Prepare a node's directories before its first start."""
    if cluster_id is None:
        say("--cluster-id is missing; for a new cluster, this one is free:")
        random_uuid()
        raise typer.Exit(ExitCode.USAGE)
    if (initial_controllers is not None) + standalone + no_initial_controllers > 1:
        say("--initial-controllers, --standalone and --no-initial-controllers exclude each other")
        raise typer.Exit(ExitCode.USAGE)
    with answering():
        from tidelog.model.settings.endpoints import InitialController, parse_initial_controllers
        from tidelog.security.scram_option import parse_add_scram
        from tidelog.shell.entropy import SystemEntropy
        from tidelog.shell.format import format_node
        from tidelog.shell.main import read_config

        parsed = read_config(config)
        initial: tuple[InitialController, ...] | None = () if no_initial_controllers else None
        if initial_controllers is not None:
            initial = parse_initial_controllers(initial_controllers)
        entropy = SystemEntropy()
        format_node(
            parsed,
            cluster_id,
            initial,
            standalone=standalone,
            any_cluster_id=any_cluster_id,
            first_users=[parse_add_scram(text, entropy) for text in add_scram or ()],
        )
        for directory in parsed.log_directories:
            say(f"formatted {directory} for node {parsed.node_id} of cluster {cluster_id}")


def random_uuid() -> None:
    """Print a new identity, e.g. for `tidelog format --cluster-id`."""
    from tidelog.model.ids import uuid_text
    from tidelog.shell.entropy import SystemEntropy

    print_line(uuid_text(SystemEntropy().uuid()))
