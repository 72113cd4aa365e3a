"""The cluster that a command speaks to, and what the command may expect while nobody decides.

Invariant  What needs no decision is done without an active controller as well, and whoever asks
           for it hears first that there is none: brokers tell what they knew last.
Invariant  Whoever wants something decided hears within seconds that nobody can, why, and the
           remedy; nothing was asked for then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import bootstrap_of, command_security
from tidelog.cli.output import say

if TYPE_CHECKING:
    from tidelog.client.blocking import Client
    from tidelog.local.local_cluster import LocalCluster

_PATIENCE_S: Final = 2.0
"""So long a broker may take that nobody would replace; others are not waited for any longer."""


@contextmanager
def connected(
    bootstrap: str | None,
    data: Path | None,
    *,
    request_timeout_s: float = 10.0,
    patient: bool = False,
) -> Iterator[Client]:
    """A client for a command that needs no decision of the controller; one that is not `patient`
    gives brokers up soon that nobody would replace."""
    from tidelog.client.admin import Admin
    from tidelog.client.blocking import Client
    from tidelog.client.errors import NoController

    where = bootstrap_of(bootstrap, data)
    with Client(where, request_timeout_s=request_timeout_s, security=command_security()) as client:
        try:
            Admin(client).require_controller()
        except NoController as missing:
            say(f"warning: {missing}; brokers tell what they knew last", style="yellow")
            if not patient:
                client.timeout_s = client.request_timeout_s = _PATIENCE_S
        yield client


@contextmanager
def deciding(bootstrap: str | None, data: Path | None) -> Iterator[Client]:
    """A client for a command that does need one."""
    from tidelog.client.admin import Admin
    from tidelog.client.blocking import Client

    with Client(bootstrap_of(bootstrap, data), security=command_security()) as client:
        Admin(client).require_controller()
        yield client


def warn_undecided(cluster: LocalCluster) -> None:
    """The same news for a command that reads files of a cluster on this machine."""
    if (why := cluster.why_undecided()) is not None:
        say(f"warning: nothing can be decided: {why}", style="yellow")


def say_missed(what: str, brokers: Iterable[int]) -> None:
    """That a list is not whole, since some brokers did not answer."""
    for broker in brokers:
        say(f"broker {broker} does not answer: {what} that it coordinates are missing here")
