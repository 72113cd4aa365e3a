"""`tidelog top`: a cluster at work, on a terminal.

Invariant  However it ends, the terminal is left as it was.
Invariant  Looking costs nodes little: with many partitions it is done less often.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from tidelog.cli.exits import answering
from tidelog.cli.observing import HttpListeners, observed
from tidelog.cli.options import Bootstrap, OfLocalCluster

if TYPE_CHECKING:
    from tidelog.cli.observing import Observed
    from tidelog.cli.top_picture import Picture
    from tidelog.client.blocking import Client
    from tidelog.model.ids import TopicPartition
    from tidelog.monitor.activity import PartitionEnd
    from tidelog.monitor.snapshot import ClusterSnapshot, NodeTold

_HEALTH_EVERY_S: Final = 2.0
_GROUPS_MAX: Final = 20
_SHARE_OF_TIME: Final = 20
"""Between two looks at all partitions passes at least so many times what one takes."""


def top(
    once: Annotated[
        bool, typer.Option("--once", help="Print one picture, of one interval, and end.")
    ] = False,
    every: Annotated[
        float, typer.Option(min=0.2, max=60, metavar="SECONDS", help="How often to look.")
    ] = 1.0,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    http: HttpListeners = None,
) -> None:
    """Show the cluster at work: problems, brokers with their rates, busiest partitions, lag.

    Rates come from nodes that answer over HTTP; those of a cluster on this machine are found by
    themselves. `q` or Ctrl-C leaves. Where there is no terminal, it prints one picture.

    Examples:

    tidelog top

    tidelog top --once --bootstrap 10.0.0.1:9092 --http 10.0.0.1:8080 --http 10.0.0.2:8080
    """
    with answering():
        cluster = observed(bootstrap, data, http)
        if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            _print_once(cluster, every)
        else:
            _live(cluster, every)


class Health(NamedTuple):
    """What brokers told last."""

    seen: ClusterSnapshot | None
    committed: dict[str, dict[TopicPartition, int]]
    trouble: str | None = None


class HealthWatch:
    """Asks brokers again and again, in a thread of its own: a silent one holds up no picture."""

    def __init__(self, cluster: Observed) -> None:
        self._cluster = cluster
        self._ended = threading.Event()
        self.latest = ask_brokers(cluster)
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        from tidelog.model.errors import TidelogError

        while not self._ended.wait(_HEALTH_EVERY_S):
            try:
                self.latest = ask_brokers(self._cluster)
            except TidelogError as error:
                self.latest = Health(None, {}, str(error))


def ask_brokers(cluster: Observed) -> Health:
    """One look at what brokers tell."""
    from tidelog.client.blocking import Client
    from tidelog.monitor.looking import Onlooker
    from tidelog.monitor.node_survey import PATIENCE_S

    with Client(
        cluster.bootstrap,
        timeout_s=PATIENCE_S,
        request_timeout_s=PATIENCE_S,
        security=cluster.security,
    ) as client:
        seen = Onlooker(client, (), cluster.local).look()
        return Health(seen, _committed(client))


def _committed(client: Client) -> dict[str, dict[TopicPartition, int]]:
    """The offsets of the first groups; whoever does not tell them is left out."""
    from tidelog.client.errors import ClientError
    from tidelog.client.groups import Groups

    groups = Groups(client)
    found = {}
    try:
        for each in groups.list([])[:_GROUPS_MAX]:
            found[each.group] = groups.offsets(each.group)
    except ClientError:
        pass
    return found


class ActivityWatch:
    """Looks at nodes over HTTP, and remembers the look before."""

    def __init__(self, cluster: Observed) -> None:
        self._cluster = cluster
        self._nodes: dict[str, NodeTold] = {}
        self._at_s = 0.0
        self._ends: dict[TopicPartition, PartitionEnd] = {}
        self._ends_before: dict[TopicPartition, PartitionEnd] = {}
        self._ends_at_s = self._ends_before_at_s = 0.0
        self._ends_cost_s = 0.0

    def picture(self, health: Health) -> Picture:
        """What there is to see now."""
        from tidelog.cli.top_picture import Picture
        from tidelog.monitor.activity import busiest, group_lags, led_partitions, node_activity
        from tidelog.monitor.looking import look_at_nodes
        from tidelog.monitor.problems import problems

        began_s = time.monotonic()
        with_partitions = began_s - self._ends_at_s > self._ends_cost_s * _SHARE_OF_TIME
        wanted = "hosted" if with_partitions else "none"
        nodes = look_at_nodes(self._cluster.listeners, partitions=wanted)
        elapsed_s = began_s - self._at_s
        told = [node_activity(self._nodes.get(each.listener), each, elapsed_s) for each in nodes]
        if with_partitions:
            self._ends_before, self._ends_before_at_s = self._ends, self._ends_at_s
            self._ends, self._ends_at_s = led_partitions(nodes), began_s
            self._ends_cost_s = time.monotonic() - began_s
        self._nodes, self._at_s = {each.listener: each for each in nodes}, began_s
        seen = None if health.seen is None else health.seen._replace(nodes=nodes)
        return Picture(
            seen=seen,
            trouble=health.trouble,
            problems=[] if seen is None else problems(seen),
            nodes=told,
            partitions=busiest(
                self._ends_before, self._ends, self._ends_at_s - self._ends_before_at_s
            ),
            lags=group_lags(health.committed, self._ends),
        )


def _print_once(cluster: Observed, every_s: float) -> None:
    from rich.console import Console

    health, activity = ask_brokers(cluster), ActivityWatch(cluster)
    activity.picture(health)
    time.sleep(every_s)
    console = Console(highlight=False)
    console.print(activity.picture(health).drawn(console.width, None))


def _live(cluster: Observed, every_s: float) -> None:
    from rich.console import Console
    from rich.live import Live

    health, activity = HealthWatch(cluster), ActivityWatch(cluster)
    console = Console(highlight=False)
    try:
        with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                began_s = time.monotonic()
                picture = activity.picture(health.latest)
                live.update(picture.drawn(console.width, console.height), refresh=True)
                if _asked_to_leave(keys, began_s + every_s):
                    return
    except KeyboardInterrupt:
        return
    finally:
        health.stop()


@contextmanager
def _keys() -> Iterator[int]:
    """The keyboard, key by key and unseen."""
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        yield keyboard
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _asked_to_leave(keyboard: int, until_s: float) -> bool:
    """Whether somebody presses q before the next picture is due."""
    while (left_s := until_s - time.monotonic()) > 0:
        ready, _, _ = select.select([keyboard], [], [], left_s)
        if ready:
            pressed = os.read(keyboard, 64)
            if not pressed or pressed.lower() in (b"q", b"\x1b", b"\x04"):
                return True
    return False
