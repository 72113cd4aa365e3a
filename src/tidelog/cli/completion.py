"""`tidelog completion`: what a shell needs to complete commands, options, and names in the cluster.

Invariant  Whoever presses Tab never waits long and never sees a message: a cluster that does not
           answer at once has no names to offer.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli.options import bootstrap_of, cluster_directory, command_security
from tidelog.cli.output import print_line

if TYPE_CHECKING:
    from tidelog.client.blocking import Client

VARIABLE: Final = "_TIDELOG_COMPLETE"
"""Set by the script in the shell: then the command prints what could come next."""
_WITHIN_S: Final = 1.0


class Shell(StrEnum):
    """Shells that can be taught."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")],
) -> None:
    """Print a script that has your shell complete commands, options, topics and groups.

    Examples:

    tidelog completion bash > ~/.local/share/bash-completion/completions/tidelog

    tidelog completion zsh > ~/.zfunc/_tidelog

    tidelog completion fish > ~/.config/fish/completions/tidelog.fish

    For zsh, ~/.zshrc needs the lines `fpath+=~/.zfunc` and `autoload -Uz compinit && compinit`.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print_line(get_completion_script(prog_name="tidelog", complete_var=VARIABLE, shell=shell))


def topic_names(context: typer.Context, incomplete: str) -> list[str]:
    """Topics that begin so; the brokers' own only for who begins with their underscores."""
    from tidelog.client.admin import Admin

    return _names(
        context,
        incomplete,
        lambda client: [
            name
            for name, each in Admin(client).topics().topics.items()
            if not each.internal or incomplete.startswith("_")
        ],
    )


def group_names(context: typer.Context, incomplete: str) -> list[str]:
    """Groups that begin so."""
    from tidelog.client.groups import Groups

    return _names(
        context, incomplete, lambda client: [each.group for each in Groups(client).list([])]
    )


def node_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Nodes of the cluster on this machine."""
    from tidelog.local.local_cluster import LocalCluster
    from tidelog.model.errors import TidelogError

    try:
        cluster = LocalCluster.open(cluster_directory(context.params.get("data")))
    except (TidelogError, OSError):
        return []
    return [str(each) for each in sorted(cluster.nodes) if str(each).startswith(incomplete)]


def _names(
    context: typer.Context, incomplete: str, ask: Callable[[Client], list[str]]
) -> list[str]:
    from tidelog.client.blocking import Client
    from tidelog.model.errors import TidelogError

    try:
        where = bootstrap_of(context.params.get("bootstrap"), context.params.get("data"))
        with Client(
            where,
            timeout_s=_WITHIN_S,
            request_timeout_s=_WITHIN_S,
            security=command_security(),
        ) as client:
            return sorted(name for name in ask(client) if name.startswith(incomplete))
    except (TidelogError, OSError, typer.BadParameter):
        return []
