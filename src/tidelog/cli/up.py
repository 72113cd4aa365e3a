"""`tidelog up`: create a cluster on this machine or start the one that is there.

Invariant  In the foreground nothing that the command started outlives it: however it ends, those
           nodes are stopped.
Invariant  Nodes that ran before are left running, whatever becomes of those it starts.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.exits import answering, refuse
from tidelog.cli.options import DataDirectory, cluster_directory, key_values
from tidelog.cli.output import say

if TYPE_CHECKING:
    from tidelog.local.local_cluster import LocalCluster
    from tidelog.local.view_process import ViewProcess

DEFAULT_PORT = 9092
DEFAULT_BROKERS = 3
_POLL_S = 0.1

Secure = Annotated[
    bool,
    typer.Option(
        "--secure",
        help="A new cluster with TLS, certificates and users of its own, for development.",
    ),
]
ViewPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Port of the live view.",
        show_default="8080, or the next free one",
    ),
]


def up(
    brokers: Annotated[
        int | None,
        typer.Option(min=1, max=100, help="Number of brokers.", show_default=str(DEFAULT_BROKERS)),
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=99,
            help="Number of separate controllers; 0: up to three of the brokers do it.  "
            "[default: 0]",
        ),
    ] = None,
    data: DataDirectory = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Port of the first broker.", show_default=str(DEFAULT_PORT)
        ),
    ] = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Return when the cluster is ready and leave it running."),
    ] = False,
    dev: Annotated[
        bool,
        typer.Option(
            "--dev",
            help="For development: quick retention and deletion of old data, and a live view that "
            "can break and mend nodes.",
        ),
    ] = False,
    view_port: ViewPort = None,
    no_view: Annotated[
        bool, typer.Option("--no-view", envvar="TIDELOG_NO_VIEW", help="Start no live view.")
    ] = False,
    secure: Secure = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A broker setting; may be repeated."),
    ] = None,
) -> None:
    """Start a cluster: a new one, or what does not run of the one that DIR already holds.

    In the foreground it shows what the nodes say until Ctrl-C stops those that it started; nodes
    that ran before go on.
    """
    overrides = key_values(settings or [], "--set")
    with answering(), _noting_signals() as asked_to_stop:
        from tidelog.local.view_process import ViewProcess

        cluster = _prepared(
            cluster_directory(data), brokers, controllers, port, dev, overrides, secure
        )
        view = ViewProcess(cluster.directory)
        if not cluster.running():
            view.allow_acting(dev)
        run = _run_detached if detach else _run
        run(cluster, None if no_view else view, view_port, asked_to_stop)


@contextmanager
def _noting_signals() -> Iterator[Sequence[int]]:
    """The signals that ask the command to end, noted instead of obeyed: whatever has been started
    must be stopped first."""
    noted: list[int] = []
    ending = {signal.SIGINT, signal.SIGTERM}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup wants it
        ending.add(signal.SIGHUP)
    previous = {
        each: signal.signal(each, lambda number, _: noted.append(number)) for each in ending
    }
    try:
        yield noted
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _prepared(
    directory: Path,
    brokers: int | None,
    controllers: int | None,
    port: int | None,
    dev: bool,
    overrides: dict[str, str],
    secure: bool,
) -> LocalCluster:
    """The cluster in `directory`, created when there is none; not all of it runs."""
    from tidelog.local.local_cluster import LocalCluster, NoCluster

    try:
        cluster = LocalCluster.open(directory)
    except NoCluster:
        first = port or DEFAULT_PORT
        ports = range(first, first + (brokers or DEFAULT_BROKERS))
        return LocalCluster.create(
            directory,
            ports=ports,
            controllers=controllers or 0,
            http_ports=None,
            development=dev,
            settings=overrides,
            secure=secure,
        )
    if secure and not cluster.keys.exist:
        refuse(
            f"the cluster in {directory} was made without keys and users; --secure chooses for a "
            "new cluster only"
        )
    nodes = cluster.descriptions.values()
    there = {
        "brokers": (brokers, sum(node.is_broker for node in nodes)),
        "controllers": (controllers, sum(not node.is_broker for node in nodes)),
    }
    for what, (wanted, found) in there.items():
        if wanted is not None and wanted != found:
            what_there = f"{found} {'separate ' if what == 'controllers' else ''}{what}"
            refuse(
                f"the cluster in {directory} has {what_there}; "
                f"--{what} chooses for a new cluster only"
            )
    _refuse_running(cluster, changes=bool(overrides or dev))
    listens_on = next(iter(cluster.descriptions.values())).port
    if port is not None and port != listens_on:
        refuse(
            f"the cluster in {directory} listens on port {listens_on}; "
            "--port chooses for a new cluster only"
        )
    cluster.change_settings(overrides, development=dev)
    return cluster


def _refuse_running(cluster: LocalCluster, *, changes: bool) -> None:
    """Nothing to start is refused, and so are settings that part of the nodes would not read."""
    running = cluster.running()
    if len(running) == len(cluster.nodes):
        node_id = min(running)
        refuse(
            f"the cluster in {cluster.directory} is up already "
            f"(node {node_id}, pid {cluster.node(node_id).pid}); `tidelog down` stops it"
        )
    if running and changes:
        refuse(
            f"part of the cluster in {cluster.directory} runs ({_nodes(running)}), and --set and "
            "--dev are for all nodes, from their start: `tidelog down` stops it; `tidelog up` "
            "without them starts the rest"
        )


def _nodes(node_ids: Sequence[int]) -> str:
    return f"node{'' if len(node_ids) == 1 else 's'} {', '.join(map(str, sorted(node_ids)))}"


def _run_detached(
    cluster: LocalCluster,
    view: ViewProcess | None,
    view_port: int | None,
    asked_to_stop: Sequence[int],
) -> None:
    """Start, and leave it running; whoever asks to stop before the end is left with nothing."""
    from tidelog.local.local_cluster import StartCancelled

    has_no_view = view is not None and view.url is None
    started = cluster.start(cancelled=lambda: bool(asked_to_stop))
    with suppress(BrokenPipeError):  # nobody may be listening any more
        _say_ready(cluster)
        if view is not None:
            _start_view(view, view_port)
    if asked_to_stop:
        if view is not None and has_no_view:
            view.stop()
        cluster.stop(started)
        raise StartCancelled("stopped before all was ready")


def _run(
    cluster: LocalCluster,
    view: ViewProcess | None,
    view_port: int | None,
    asked_to_stop: Sequence[int],
) -> None:
    """Start, show, and stop what was started when told to."""
    has_view = False
    started: list[int] = []
    tails = [_Tail(node.log) for node in cluster.nodes.values()]
    try:
        started = cluster.start(cancelled=lambda: bool(asked_to_stop))
        _show(tails)
        _say_ready(cluster)
        has_view = view is not None and _start_view(view, view_port)
        while not asked_to_stop and cluster.running():
            _show(tails)
            time.sleep(_POLL_S)
        _show(tails)
        if not asked_to_stop:
            _explain_end(cluster)
    finally:
        if has_view and view is not None:
            view.stop()
        _stop(cluster, started, tails)


def _stop(cluster: LocalCluster, started: Collection[int], tails: list[_Tail]) -> None:
    running = cluster.running()
    others = [each for each in running if each not in started]
    if others != running:
        with suppress(OSError):  # nobody may be listening any more
            say("stopping")
    cluster.stop(started)
    if others == running:
        return
    with suppress(OSError):
        _show(tails)
        if others:
            say(f"stopped; what ran before goes on: {_nodes(others)}")
        else:
            say("stopped; the data is kept")


def _explain_end(cluster: LocalCluster) -> None:
    from tidelog.shell.ending import Cause

    for node_id, node in cluster.nodes.items():
        ending = node.last_ending
        if ending is not None and ending.cause is not Cause.CLEAN:
            refuse(f"node {node_id} ended ({ending.cause}: {ending.reason}):\n{node.last_words()}")
    say("all nodes have ended; the data is kept")


def _say_ready(cluster: LocalCluster) -> None:
    first = cluster.bootstrap.partition(",")[0]
    option = "" if first.endswith(f":{DEFAULT_PORT}") else f" --bootstrap {first}"
    say(f"ready: {cluster.bootstrap} (cluster {cluster.cluster_id}, data in {cluster.directory})")
    if cluster.keys.exist:
        option += f" --command-config {cluster.keys.client_properties()}"
        _say_secure(cluster)
    say(f"try:   echo hello | tidelog produce greetings{option}")
    say(f"       tidelog consume greetings --from beginning{option}")


def _say_secure(cluster: LocalCluster) -> None:
    """How each kind of client is let in; the password stands in the file alone."""
    from tidelog.local.development_keys import ADMIN, CLIENT, MECHANISM

    keys = cluster.keys
    say(f"users: {CLIENT} for clients: {keys.client_properties()}")
    say(f"       {ADMIN} for tools:    {keys.client_properties(ADMIN)}")
    say("       Kafka's tools and tidelog take such a file as it is: --command-config FILE")
    say(
        f"       librdkafka: security.protocol=SASL_SSL sasl.mechanism={MECHANISM} "
        f"sasl.username={CLIENT} ssl.ca.location={keys.trusted}, and sasl.password from the file"
    )
    say(
        f"       Python: security_protocol='SASL_SSL', sasl_mechanism='{MECHANISM}', "
        f"sasl_plain_username='{CLIENT}', ssl_cafile='{keys.trusted}', and sasl_plain_password "
        "from the file"
    )


def _start_view(view: ViewProcess, port: int | None) -> bool:
    """Start the live view unless it runs, and say where it is; whether this started it. A cluster
    does without one that cannot be started."""
    from tidelog.local.node_process import NodeTrouble

    if (url := view.url) is not None:
        say(f"view:  {url}")
        return False
    try:
        say(f"view:  {view.start(port)}")
    except (NodeTrouble, OSError) as trouble:
        say(str(trouble), style="yellow")
        return False
    return True


def _show(tails: list[_Tail]) -> None:
    for tail in tails:
        for line in tail.new_lines():
            say(line)


class _Tail:
    """What has been added to a log file since the last look; a full one is replaced by its node."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = path.with_name(path.name + ".1")
        self._file: int | None = None
        self._position = 0
        self._partial = ""
        with suppress(FileNotFoundError):
            self._file, self._position = path.stat().st_ino, path.stat().st_size

    def new_lines(self) -> list[str]:
        added = b""
        with suppress(FileNotFoundError), self._path.open("rb") as log:
            number = os.fstat(log.fileno()).st_ino
            if number != self._file:
                added, self._file, self._position = self._rest_of_the_one_before(), number, 0
            log.seek(self._position)
            latest = log.read()
            self._position += len(latest)
            added += latest
        *lines, self._partial = (self._partial + added.decode("utf-8", "replace")).split("\n")
        return lines

    def _rest_of_the_one_before(self) -> bytes:
        with suppress(FileNotFoundError), self._before.open("rb") as log:
            if os.fstat(log.fileno()).st_ino == self._file:
                log.seek(self._position)
                return log.read()
        return b""
