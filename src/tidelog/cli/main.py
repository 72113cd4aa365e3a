"""The command `tidelog`: its groups, in the order of `tidelog --help`.

Invariant  Importing this module is cheap: whatever a single command needs is imported when that
           command runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidelog import __version__
from tidelog.cli import (
    acls,
    audit,
    cluster,
    completion,
    configs,
    consume,
    events,
    groups,
    link,
    local,
    log,
    node,
    partitions,
    pipelines,
    placed,
    produce,
    quotas,
    sim,
    stories,
    support_bundle,
    top,
    topics,
    transactions,
    up,
    view,
)
from tidelog.cli.exits import ExitCode
from tidelog.cli.options import (
    COMMAND_CONFIG,
    COMMAND_CONFIG_VARIABLE,
    command_config,
    with_command_config_first,
)
from tidelog.cli.output import print_line

_EXIT_CODES = (
    "Exit codes: 0 fine, 1 refused, 2 wrong usage, 3 cluster unreachable or without a controller. "
    "Data goes to stdout, messages go to stderr."
)

app = typer.Typer(
    name="tidelog",
    help="A replicated log that speaks Kafka.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_LOCAL = "A cluster on this machine"
_DATA = "Topics and records"
_LOOK = "What happens"
_PLACED = "Nodes placed by hand"
_TABLES = "Tables"
_DISK = "On disk"
_PROOF = "Proof"
_HELP = "Help"

app.command(rich_help_panel=_LOCAL)(up.up)
app.command(rich_help_panel=_LOCAL)(local.down)
app.command(rich_help_panel=_LOCAL)(local.status)
app.command(rich_help_panel=_LOCAL)(view.view)
app.add_typer(node.app, name="node", rich_help_panel=_LOCAL)
app.add_typer(link.app, name="link", rich_help_panel=_LOCAL)
app.add_typer(topics.app, name="topics", rich_help_panel=_DATA)
app.command(rich_help_panel=_DATA)(produce.produce)
app.command(rich_help_panel=_DATA)(consume.consume)
app.add_typer(groups.app, name="groups", rich_help_panel=_DATA)
app.add_typer(transactions.app, name="transactions", rich_help_panel=_DATA)
app.add_typer(partitions.app, name="partitions", rich_help_panel=_DATA)
app.add_typer(configs.app, name="configs", rich_help_panel=_DATA)
app.add_typer(acls.app, name="acls", rich_help_panel=_DATA)
app.add_typer(quotas.app, name="quotas", rich_help_panel=_DATA)
app.add_typer(cluster.app, name="cluster", rich_help_panel=_DATA)
app.command(rich_help_panel=_LOOK)(top.top)
app.command(rich_help_panel=_LOOK)(events.events)
app.command(rich_help_panel=_LOOK)(events.why)
app.add_typer(pipelines.app, name="pipelines", rich_help_panel=_TABLES)
app.command(rich_help_panel=_PLACED)(placed.broker)
app.command(name="format", rich_help_panel=_PLACED)(placed.format_directories)
app.command(name="random-uuid", rich_help_panel=_PLACED)(placed.random_uuid)
app.add_typer(log.app, name="log", rich_help_panel=_DISK)
app.add_typer(audit.app, name="audit", rich_help_panel=_DISK)
app.command(rich_help_panel=_PROOF)(sim.sim)
app.command(rich_help_panel=_PROOF)(stories.stories)
app.command(rich_help_panel=_PROOF)(stories.story)
app.command(rich_help_panel=_HELP)(completion.completion)
app.command(name="support-bundle", rich_help_panel=_HELP)(support_bundle.support_bundle)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"tidelog {__version__}")
        raise typer.Exit(ExitCode.FINE)


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            COMMAND_CONFIG,
            metavar="FILE",
            envvar=COMMAND_CONFIG_VARIABLE,
            help="Client properties (security.protocol, sasl.*, ssl.*) for a cluster that wants "
            "them. May stand anywhere in the command.",
        ),
    ] = None,
) -> None:
    """A replicated log that speaks Kafka."""
    command_config.set(config)


def main() -> None:
    """Entry point of the `tidelog` script."""
    if completion.VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    app(with_command_config_first(sys.argv[1:]))
