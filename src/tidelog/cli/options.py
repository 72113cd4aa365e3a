"""Options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


BOOTSTRAP_VARIABLE = "TIDELOG_BOOTSTRAP"


def check_bootstrap(text: str) -> str:
    """A bootstrap that can be one, or a usage error."""
    from tidelog.client.blocking import parse_bootstrap
    from tidelog.model.errors import ConfigError

    try:
        parse_bootstrap(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error
    return text


Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar=BOOTSTRAP_VARIABLE,
        callback=check_bootstrap,
        help="A broker to start from; several with commas.",
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
        envvar="TIDELOG_DATA",
        help="The cluster's directory. Default: tidelog/ in the user's data directory.",
        file_okay=False,
    ),
]


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
