"""`tidelog cluster health`: what is wrong with a cluster, and what to do about it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import typer

from tidelog.cli.exits import ExitCode, answering
from tidelog.cli.observing import HttpListeners, observed
from tidelog.cli.options import AsJson, Bootstrap, OfLocalCluster
from tidelog.cli.output import counted, print_json, print_line, say

if TYPE_CHECKING:
    from tidelog.cli.observing import Observed
    from tidelog.monitor.problems import Problem
    from tidelog.monitor.snapshot import ClusterSnapshot

COLOURS: Final = {"CRITICAL": "bold red", "SERIOUS": "red", "DEGRADED": "yellow", "NOTICE": "cyan"}


def health(
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    http: HttpListeners = None,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with the cluster, the worst first, one line each with its remedy.

    Ends with 0 when all is well and with 1 when something is wrong. Kafka's own requests are
    enough, so it works with any cluster; nodes that answer over HTTP tell more: unclean elections
    and what they may have lost, why a directory is offline, clocks that are far off.

    Examples:

    tidelog cluster health

    tidelog cluster health --bootstrap kafka-1:9092

    tidelog cluster health --bootstrap 10.0.0.1:9092 --http 10.0.0.1:8080 --http 10.0.0.2:8080
    """
    with answering():
        from tidelog.monitor.problems import all_is_well, as_object, problems

        seen = look(observed(bootstrap, data, http))
        found = problems(seen)
        if as_json:
            print_json(
                {
                    "healthy": not found,
                    "cluster_id": seen.cluster_id,
                    "brokers": len(seen.brokers),
                    "partitions": len(seen.partitions),
                    "voters": None if seen.quorum is None else len(seen.quorum.voters),
                    "problems": [as_object(each) for each in found],
                    "not_told": list(seen.not_told),
                }
            )
        else:
            for problem in found:
                _print_problem(problem)
            if not found:
                print_line(all_is_well(seen))
            for each in seen.not_told:
                say(f"not looked at, since the cluster does not tell: {each}")
            if found:
                say(f"{counted(len(found), 'problem')} in cluster {seen.cluster_id}")
        if found:
            raise typer.Exit(ExitCode.REFUSED)


def look(cluster: Observed) -> ClusterSnapshot:
    """One look; who does not answer within seconds counts as silent."""
    from tidelog.client.blocking import Client
    from tidelog.monitor.looking import Onlooker
    from tidelog.monitor.node_survey import PATIENCE_S

    with Client(
        cluster.bootstrap,
        timeout_s=PATIENCE_S,
        request_timeout_s=PATIENCE_S,
        security=cluster.security,
    ) as client:
        return Onlooker(client, cluster.listeners, cluster.local).look()


def _print_problem(problem: Problem) -> None:
    level = problem.severity.name.lower()
    text = f"{problem.what}; {problem.remedy}"
    if not sys.stdout.isatty():
        print_line(f"{level:<8}  {text}")
        return
    from rich.console import Console
    from rich.text import Text

    line = Text(f"{level:<8}", style=COLOURS[problem.severity.name]).append(f"  {text}", style="")
    Console(highlight=False).print(line, soft_wrap=True)
