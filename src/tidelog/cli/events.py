"""`tidelog events` and `tidelog why`: what happened in a cluster, and how it came."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.completion import node_ids, topic_names
from tidelog.cli.connecting import warn_undecided
from tidelog.cli.exits import answering, refuse
from tidelog.cli.moments import since_ms
from tidelog.cli.names import no_such
from tidelog.cli.observing import HttpListeners, listeners_of
from tidelog.cli.options import AsJson, DataDirectory, cluster_directory
from tidelog.cli.output import print_json, print_line, say

if TYPE_CHECKING:
    from tidelog.http.questions import NodeListener
    from tidelog.local.local_cluster import LocalCluster
    from tidelog.model.ids import TopicPartition
    from tidelog.monitor.event_feed import EventSource
    from tidelog.observe.causes import Explanation
    from tidelog.observe.told_event import ToldEvent


def events(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens from now on.")
    ] = False,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC[-PARTITION]",
            help="Only what concerns this one.",
            autocompletion=topic_names,
        ),
    ] = None,
    node: Annotated[
        list[int] | None,
        typer.Option(help="Only what this node tells; may be repeated.", autocompletion=node_ids),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Only from then on: 10m, 2h, 3d ago, or a moment such as 2026-01-31T12:00:00Z.",
            show_default="all that is kept; now with --follow",
        ),
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="With the cause of each event.")] = False,
    data: DataDirectory = None,
    http: HttpListeners = None,
    as_json: AsJson = False,
) -> None:
    """Show what happened on all nodes, in the order of time, one line each.

    Nodes of a cluster on this machine are read from their files, whether they run or not; others
    tell over HTTP. With --follow it goes on through restarts of nodes, until Ctrl-C.

    Examples:

    tidelog events --since 10m --why

    tidelog events --follow --topic orders-0

    tidelog events --follow --http 10.0.0.1:8080 --http 10.0.0.2:8080
    """
    now_ms = time.time_ns() // 1_000_000
    start_ms = now_ms if follow else 0
    if since is not None:
        start_ms = since_ms(since, now_ms, "--since")
    with answering():
        from tidelog.monitor.event_feed import followed_events, kept_events

        sources, local = _sources(data, http, follow=follow)
        found = kept_events(sources, 0, say) if topic or node or not follow else []
        unknown = _unknown_topic(topic, found) or _unknown_node(node, found, local)
        if unknown is not None and not follow:
            refuse(unknown)
        if unknown is not None:
            say(f"{unknown}; if it comes, it is shown", style="yellow")
        told = followed_events(sources, start_ms, say) if follow else iter(found)
        try:
            for event in told:
                if (
                    event.at_ms >= start_ms
                    and (not node or event.node in node)
                    and (topic is None or event.is_about(topic))
                ):
                    _print_event(event, why=why, as_json=as_json, at_once=follow)
        except KeyboardInterrupt:
            if not follow:
                raise


def _unknown_topic(topic: str | None, found: Sequence[ToldEvent]) -> str | None:
    """That nobody told of a topic or partition, and what may have been meant."""
    from tidelog.model.ids import TopicPartition

    if topic is None or any(event.is_about(topic) for event in found):
        return None
    partition = TopicPartition.from_directory(topic)
    if partition is not None:
        return _nothing_told(partition, found)
    return no_such("event about topic", topic, _topics(found))


def _unknown_node(
    nodes: Sequence[int] | None, found: Sequence[ToldEvent], local: LocalCluster | None
) -> str | None:
    known = {event.node for event in found} | set(() if local is None else local.nodes)
    for each in nodes or ():
        if each not in known:
            return no_such("event of node", str(each), map(str, known))
    return None


def _topics(found: Iterable[ToldEvent]) -> set[str]:
    return {each for event in found if isinstance(each := event.fields.get("topic"), str)}


def why(
    partition: Annotated[
        str, typer.Argument(metavar="TOPIC-PARTITION", help="The partition, e.g. orders-0.")
    ],
    data: DataDirectory = None,
    http: HttpListeners = None,
    as_json: AsJson = False,
) -> None:
    """Tell how a partition came to its present leader and in-sync replicas, the newest last.

    The story is made from the events of all nodes: who was fenced and why, which leader followed,
    what was truncated, who came back.

    Examples:

    tidelog why orders-0

    tidelog why orders-0 --http 10.0.0.1:8080 --http 10.0.0.2:8080 --json
    """
    from tidelog.model.ids import TopicPartition

    name = TopicPartition.from_directory(partition)
    if name is None:
        raise typer.BadParameter(f"{partition!r} is not a partition such as orders-0")
    with answering():
        from tidelog.monitor.event_feed import kept_events
        from tidelog.observe.causes import explain

        sources, local = _sources(data, http)
        found = kept_events(sources, 0, say)
        if not any(event.partition == name for event in found):
            refuse(_nothing_told(name, found))
        explained = explain(name, found, _endings(local))
        if as_json:
            print_json(_as_object(explained))
        else:
            _tell(explained)


def _sources(
    data: Path | None, http: list[str] | None, *, follow: bool = False
) -> tuple[Sequence[EventSource], LocalCluster | None]:
    """Where events come from; whoever asks hears what is wrong with that."""
    from tidelog.local.local_cluster import LocalCluster
    from tidelog.monitor.event_feed import RemoteJournal, local_journals

    listeners = listeners_of(http)
    if listeners:
        return [RemoteJournal(each) for each in _answering(listeners, follow=follow)], None
    local = LocalCluster.open(cluster_directory(data))
    warn_undecided(local)
    return local_journals(local), local


def _answering(listeners: Sequence[NodeListener], *, follow: bool) -> Sequence[NodeListener]:
    """The nodes to ask: those that answer, and for as long as one follows also the others."""
    from tidelog.client.errors import Unreachable
    from tidelog.monitor.node_survey import survey

    found = survey(listeners)
    if not found.answering and not follow:
        raise Unreachable("; ".join(found.silent.values()))
    if found.answering and not found.is_led:
        say("warning: nobody who answers knows an active controller", style="yellow")
    if follow:
        return listeners
    for why in found.silent.values():
        say(f"{why}; its events are missing here", style="yellow")
    return found.answering


def _endings(local: LocalCluster | None) -> dict[int, str]:
    """How nodes ended that do not run."""
    from tidelog.monitor.looking import processes

    seen = {} if local is None else processes(local)
    return {node: each.ending for node, each in seen.items() if each.ending is not None}


def _print_event(event: ToldEvent, *, why: bool, as_json: bool, at_once: bool) -> None:
    if as_json:
        print_json(event.entry())
    else:
        print_line(event.line(with_cause=why))
        if at_once:
            sys.stdout.flush()


def _nothing_told(name: TopicPartition, found: Sequence[ToldEvent]) -> str:
    topics = _topics(found)
    if name.topic not in topics:
        return no_such("event about topic", name.topic, topics)
    told = [each for event in found if (each := event.partition) is not None]
    indexes = [each.partition for each in told if each.topic == name.topic]
    some = f"{name.topic}-0 to {name.topic}-{max(indexes)}" if indexes else name.topic
    return f"no event is about {name}; there are some of {some}"


def _tell(explained: Explanation) -> None:
    from tidelog.observe.journal import timestamp

    for step in explained.steps:
        at = "" if step.at_ms is None else timestamp(step.at_ms)
        print_line(f"{at:<24}  {step.what}" + (f": {step.cause}" if step.cause else ""))
    print_line(f"{'now':<24}  {explained.summary}")


def _as_object(explained: Explanation) -> dict[str, Any]:
    return {
        "topic": explained.partition.topic,
        "partition": explained.partition.partition,
        "leader": explained.leader,
        "leader_epoch": explained.leader_epoch,
        "in_sync": explained.in_sync,
        "steps": [step.entry() for step in explained.steps],
    }
