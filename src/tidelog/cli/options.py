"""Options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tidelog.client.security import ClientSecurity

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "TIDELOG_BOOTSTRAP"
DATA_VARIABLE = "TIDELOG_DATA"
COMMAND_CONFIG = "--command-config"
COMMAND_CONFIG_VARIABLE = "TIDELOG_COMMAND_CONFIG"
command_config: ContextVar[Path | None] = ContextVar("command_config", default=None)
"""What --command-config says, for the command that runs."""


Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "--bootstrap-server",
        metavar="HOST:PORT",
        help=f"A broker to start from; several with commas. {BOOTSTRAP_VARIABLE} says it too.",
        show_default=DEFAULT_BOOTSTRAP,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether this is meant.")]
OfLocalCluster = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Not --bootstrap, but the directory of a cluster on this machine. "
        f"{DATA_VARIABLE} says it too.",
        file_okay=False,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per line instead of a table.")
]
DataDirectory = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar=DATA_VARIABLE,
        help="The cluster's directory. Default: tidelog/ in the user's data directory.",
        file_okay=False,
    ),
]


def was_given(context: typer.Context, option: str) -> bool:
    """Whether an option stands in the command, and not in the environment."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def check_bootstrap(text: str) -> str:
    """A bootstrap that can be one, or a usage error."""
    from tidelog.client.blocking import parse_bootstrap
    from tidelog.model.errors import ConfigError

    try:
        parse_bootstrap(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error
    return text


def bootstrap_of(given: str | None, data: Path | None) -> str:
    """Where a command finds its cluster: as its options say, else as the environment does."""
    if (found := given_bootstrap(given, data)) is not None:
        return found
    if variable := os.environ.get(BOOTSTRAP_VARIABLE):
        return check_bootstrap(variable)
    if directory := os.environ.get(DATA_VARIABLE):
        return _bootstrap_in(Path(directory))
    return DEFAULT_BOOTSTRAP


def with_command_config_first(arguments: list[str]) -> list[str]:
    """Arguments with --command-config before the command, wherever somebody wrote it."""
    for position, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument == COMMAND_CONFIG or argument.startswith(f"{COMMAND_CONFIG}="):
            end = position + (1 if "=" in argument else 2)
            return [*arguments[position:end], *arguments[:position], *arguments[end:]]
    return arguments


def command_security() -> ClientSecurity | None:
    """How commands are let in by the cluster, as --command-config says; None for as it is."""
    # Nobody has parsed the options yet when a shell asks for completions.
    path = command_config.get() or os.environ.get(COMMAND_CONFIG_VARIABLE)
    if not path:
        return None
    from tidelog.client.security import ClientSecurity

    return ClientSecurity.of_file(Path(path))


def given_bootstrap(given: str | None, data: Path | None) -> str | None:
    """What the options of a command say of its cluster, if anything."""
    if given is not None and data is not None:
        raise typer.BadParameter("--bootstrap and --data contradict each other")
    if given is not None:
        return check_bootstrap(given)
    return None if data is None else _bootstrap_in(data)


def _bootstrap_in(directory: Path) -> str:
    from tidelog.local.local_cluster import LocalCluster

    return LocalCluster.open(cluster_directory(directory)).bootstrap


def cluster_directory(given: Path | None) -> Path:
    """The directory a command about the local cluster works on, as an absolute path."""
    if given is not None:
        return given.expanduser().absolute()
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "tidelog"


def key_values(pairs: list[str], option: str) -> dict[str, str]:
    """`key=value` arguments as a mapping; anything else is a usage error."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"{pair!r} is not key=value", param_hint=option)
        found[key.strip()] = value.strip()
    return found


def chosen_partitions(topics: Iterable[str], option: str) -> dict[str, list[int] | None]:
    """From `orders` or `orders:0,2` to the partitions that are meant, None for all."""
    found: dict[str, list[int] | None] = {}
    for text in topics:
        name, colon, numbers = text.partition(":")
        indexes = numbers.split(",")
        if not name or (colon and not all(each.isascii() and each.isdigit() for each in indexes)):
            raise typer.BadParameter(
                f"{text!r} is neither a topic nor one with partitions such as orders:0,2",
                param_hint=option,
            )
        known = found.setdefault(name, [])
        if not colon or known is None:
            found[name] = None
        else:
            known += [int(each) for each in indexes if int(each) not in known]
    return found


def agreed(question: str, *, yes: bool, must: bool = False) -> bool:
    """Whether to go on with what cannot be taken back easily: asked of a person at a terminal.

    Elsewhere the command itself says enough, unless it `must` be confirmed with --yes.
    """
    if yes:
        return True
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return not must
    return typer.confirm(question, err=True)
