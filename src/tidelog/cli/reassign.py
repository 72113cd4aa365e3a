"""`tidelog partitions reassign`: move partitions to other brokers, with a look before and after.

Invariant  Nothing moves without --execute or --yes; what would move, and how much, is shown first.
Invariant  A move that was begun goes on without the command: it can be left, looked at and
           cancelled from anywhere.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli.completion import topic_names
from tidelog.cli.connecting import deciding
from tidelog.cli.exits import answering, refuse
from tidelog.cli.files import text_of
from tidelog.cli.names import known_topics, partitions_of
from tidelog.cli.options import (
    AsJson,
    Bootstrap,
    OfLocalCluster,
    Yes,
    agreed,
    chosen_partitions,
)
from tidelog.cli.output import counted, print_json, print_table, say, size_text

if TYPE_CHECKING:
    from tidelog.client.blocking import Client
    from tidelog.client.reassignment_plan import Plan
    from tidelog.client.reassignments import MoveUnderWay, PlannedMove, Reassignments
    from tidelog.model.ids import TopicPartition

_POLL_S: Final = 0.5
_SAID_EVERY_S: Final = 5.0
"""How often progress is told where no terminal shows it."""
_SEEN_WITHIN_S: Final = 5.0
"""So long a broker may take to hear what the controller decided."""

PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="The plan, in the JSON of kafka-reassign-partitions.",
    ),
]
PlannedTopics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:N,N]",
        help="A topic to move, or some of its partitions; may be repeated. Needs --brokers.",
        autocompletion=topic_names,
    ),
]
Brokers = Annotated[
    str | None,
    typer.Option(metavar="ID,ID,…", help="Where the topics shall be, evenly spread."),
]
ReplicationFactor = Annotated[
    int | None,
    typer.Option(
        min=1, help="With --brokers: so many replicas per partition.", show_default="as it has"
    ),
]
Execute = Annotated[bool, typer.Option("--execute", help="Begin to move, and show the progress.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not stay until all has moved.")]
Status = Annotated[bool, typer.Option("--status", help="Show what moves, and the bytes left.")]
Cancel = Annotated[
    bool, typer.Option("--cancel", help="Stop what moves and go back to the replicas of before.")
]
SavePlan = Annotated[
    Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write the plan as JSON.")
]
SaveCurrent = Annotated[
    Path | None,
    typer.Option(metavar="FILE", dir_okay=False, help="Write the plan that leads back as JSON."),
]


def reassign(
    plan: PlanFile = None,
    topic: PlannedTopics = None,
    brokers: Brokers = None,
    replication_factor: ReplicationFactor = None,
    execute: Execute = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    status: Status = False,
    cancel: Cancel = False,
    save_plan: SavePlan = None,
    save_current: SaveCurrent = None,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Move partitions to other brokers: shows what would move, and moves it with --execute.

    A plan comes from a file, or is made for topics and brokers: replicas that may stay do.

    Examples:

    tidelog partitions reassign --topic orders --brokers 100,101,103

    tidelog partitions reassign --topic orders --brokers 100,101,103 --execute

    tidelog partitions reassign --plan plan.json --execute --yes --save-current back.json

    tidelog partitions reassign --status

    tidelog partitions reassign --cancel --topic orders
    """
    chosen = chosen_partitions(topic or (), "--topic")
    targets = _broker_ids(brokers)
    _check_usage(plan, chosen, targets, execute or yes, status=status, cancel=cancel)
    with answering():
        from tidelog.client.reassignment_plan import read_plan
        from tidelog.client.reassignments import Reassignments

        given = None if plan is None else read_plan(text_of(plan))
        with deciding(bootstrap, data) as client:  # who else would know what moves
            if status:
                _show_status(client, given, chosen, as_json)
                return
            if cancel:
                _cancel(client, given, chosen, yes)
                return
            wanted = given or Reassignments(client).spread_over(
                partitions_of(client, chosen), targets, replication_factor
            )
            moves = _previewed(client, wanted, as_json)
            _save(save_plan, {each.name: each.after for each in moves})
            _save(save_current, {each.name: each.before for each in moves})
            if execute or yes:
                _execute(client, moves, yes=yes, wait=not no_wait)
            elif any(each.changes for each in moves):
                say("nothing was changed; --execute begins to move")


def _broker_ids(text: str | None) -> list[int]:
    parts = [] if text is None else [each.strip() for each in text.split(",")]
    if not all(each.isascii() and each.isdigit() for each in parts):
        raise typer.BadParameter(f"{text!r} is no list of brokers", param_hint="--brokers")
    found = [int(each) for each in parts]
    if len(set(found)) != len(found):
        raise typer.BadParameter(f"{text!r} names a broker twice", param_hint="--brokers")
    return found


def _check_usage(
    plan: Path | None,
    chosen: Collection[str],
    targets: Collection[int],
    acting: bool,
    *,
    status: bool,
    cancel: bool,
) -> None:
    if status + cancel + (acting and not cancel) > 1:
        raise typer.BadParameter("--execute, --status and --cancel exclude each other")
    if plan is not None and (chosen or targets):
        raise typer.BadParameter("--plan says all; --topic and --brokers make another plan")
    if status or cancel:
        if targets:
            raise typer.BadParameter("--brokers has no meaning with --status and --cancel")
    elif plan is None and not (chosen and targets):
        raise typer.BadParameter("say what to move: --plan FILE, or --topic TOPIC --brokers ID,ID")


def _previewed(client: Client, plan: Plan, as_json: bool) -> list[PlannedMove]:
    """Show what a plan would do; refuse one that cannot be carried out."""
    from tidelog.client.reassignments import Reassignments

    with known_topics(client, sorted({each.topic for each in plan})):
        moves = Reassignments(client).preview(plan)
    if as_json:
        for each in moves:
            print_json(
                {
                    **each.name._asdict(),
                    "before": each.before,
                    "after": each.after,
                    "adding": each.adding,
                    "removing": each.removing,
                    "bytes_to_copy": each.bytes_to_copy,
                    "moving": each.moving,
                }
            )
    else:
        print_table(
            ["partition", "before", "after", "adds", "removes", "to copy"],
            [
                (str(each.name), each.before, each.after, each.adding, each.removing, _copies(each))
                for each in moves
            ],
        )
    _say_doubts(client, moves)
    _say_summary(moves)
    return moves


def _copies(move: PlannedMove) -> str:
    return size_text(move.bytes_to_copy) if move.adding else "nothing"


def _say_summary(moves: Iterable[PlannedMove]) -> None:
    changing = [each for each in moves if each.changes]
    if not changing:
        say("all of it is in place already")
        return
    copies = sum(len(each.adding) for each in changing)
    known = [each.bytes_to_copy for each in changing if each.bytes_to_copy is not None]
    unknown = "" if len(known) == len(changing) else " and what nobody tells the size of"
    say(
        f"{counted(len(changing), 'partition')} to change: {counted(copies, 'replica')} to copy, "
        f"{size_text(sum(known))}{unknown}"
    )
    for each in changing:
        if each.moving:
            say(f"{each.name} moves already; the plan takes the place of that", style="yellow")
        if len(each.after) < len(each.before):
            fewer = f"{len(each.before)} replicas to {len(each.after)}"
            say(f"{each.name} goes from {fewer}", style="yellow")


def _say_doubts(client: Client, moves: Iterable[PlannedMove]) -> None:
    """Brokers that do not live, or have no room."""
    from tidelog.client.admin import Admin
    from tidelog.client.log_directories import broker_disks

    _, _, registered = Admin(client).describe_cluster()
    fenced = {each.node_id for each in registered if each.fenced}
    coming: dict[int, int] = {}
    for move in moves:
        for broker in move.adding:
            left = max(0, (move.size_bytes or 0) - move.coming.get(broker, 0))
            coming[broker] = coming.get(broker, 0) + left
    for broker in sorted(coming):
        if broker in fenced:
            say(f"broker {broker} does not live: its replicas wait until it does", style="yellow")
    disks = broker_disks(client, [each for each in coming if each not in fenced], [])
    for broker, disk in disks.items():
        if disk.usable_bytes is not None and coming[broker] > disk.usable_bytes:
            say(
                f"broker {broker} has room for {size_text(disk.usable_bytes)}, and "
                f"{size_text(coming[broker])} would come",
                style="red",
            )


def _save(path: Path | None, plan: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    if path is None:
        return
    from tidelog.client.reassignment_plan import write_plan

    path.write_text(write_plan(plan), encoding="utf-8")
    say(f"wrote {path}")


def _execute(client: Client, moves: list[PlannedMove], *, yes: bool, wait: bool) -> None:
    from tidelog.client.reassignments import Reassignments

    changing = {each.name: each.after for each in moves if each.changes}
    if not changing:
        return
    if not agreed(f"Move {counted(len(changing), 'partition')}?", yes=yes):
        refuse("nothing was changed")
    reassignments = Reassignments(client)
    refused = reassignments.start(changing)
    for refusal in refused.values():
        say(str(refusal), style="red")
    begun = {name: after for name, after in changing.items() if name not in refused}
    if begun and wait:
        _follow(client, reassignments, begun)
    elif begun:
        say(f"{counted(len(begun), 'partition')} began to move; --status shows how far it is")
    if refused:
        refuse("not every partition moves")


def _follow(client: Client, reassignments: Reassignments, begun: Plan) -> None:
    """Show the progress until nothing of it moves."""
    began = said = time.monotonic()
    live = sys.stderr.isatty()
    try:
        while left := reassignments.under_way(begun):
            now = time.monotonic()
            if live:
                print(f"\r\x1b[K{_progress(left)}", end="", file=sys.stderr, flush=True)
            elif now - said >= _SAID_EVERY_S:
                said = now
                say(_progress(left))
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        say("\nit goes on without this command: --status shows how far it is, --cancel stops it")
        raise
    if live:
        print("\r\x1b[K", end="", file=sys.stderr)
    elsewhere = _not_as_planned(client, begun)
    for name, replicas in elsewhere.items():
        wanted = ",".join(map(str, begun[name]))
        say(f"{name} has replicas {','.join(map(str, replicas))}, not {wanted}", style="red")
    if elsewhere:
        refuse("somebody cancelled or changed the plan meanwhile")
    say(f"moved {counted(len(begun), 'partition')} in {time.monotonic() - began:.1f} s")


def _progress(left: Collection[MoveUnderWay]) -> str:
    known = [each.bytes_left for each in left if each.bytes_left is not None]
    unknown = "" if len(known) == len(left) else ", and some of unknown size"
    return f"{counted(len(left), 'partition')} on the way, {size_text(sum(known))} left{unknown}"


def _not_as_planned(client: Client, plan: Plan) -> dict[TopicPartition, tuple[int, ...]]:
    """Partitions that ended elsewhere; brokers get a moment to hear where."""
    deadline = time.monotonic() + _SEEN_WITHIN_S
    topics: dict[str, list[int] | None] = dict.fromkeys(each.topic for each in plan)
    while True:
        there = partitions_of(client, topics)
        elsewhere = {
            name: there[name].replicas
            for name, after in plan.items()
            if name in there and there[name].replicas != after
        }
        if not elsewhere or time.monotonic() > deadline:
            return elsewhere
        time.sleep(0.1)


def _show_status(
    client: Client, given: Plan | None, chosen: Mapping[str, list[int] | None], as_json: bool
) -> None:
    from tidelog.client.reassignments import Reassignments

    names = _named(client, given, chosen)
    moving = Reassignments(client).under_way(names)
    if as_json:
        for each in moving:
            print_json({**each.name._asdict(), **each._asdict(), "name": str(each.name)})
    elif moving:
        print_table(
            ["partition", "after", "adds", "removes", "left"],
            [(str(each.name), *each[1:4], size_text(each.bytes_left)) for each in moving],
        )
    if given is not None:
        waiting = {each.name for each in moving}
        elsewhere = {
            name: replicas.replicas
            for name, replicas in partitions_of(
                client, dict.fromkeys(n.topic for n in given)
            ).items()
            if name in given and name not in waiting and replicas.replicas != given[name]
        }
        for name, replicas in elsewhere.items():
            say(f"{name} is at {','.join(map(str, replicas))}, and nothing moves it")
        say(f"{len(given) - len(waiting) - len(elsewhere)} of {len(given)} are where the plan says")
    say(_progress(moving) if moving else "no partition is on the way")


def _cancel(
    client: Client, given: Plan | None, chosen: Mapping[str, list[int] | None], yes: bool
) -> None:
    from tidelog.client.reassignments import Reassignments

    reassignments = Reassignments(client)
    moving = reassignments.under_way(_named(client, given, chosen))
    if not moving:
        say("no partition is on the way")
        return
    if not agreed(f"Cancel the move of {counted(len(moving), 'partition')}?", yes=yes):
        refuse("nothing was changed")
    refused = reassignments.start({each.name: None for each in moving})
    for each in moving:
        say(str(refused[each.name]) if each.name in refused else f"{each.name} stays where it was")
    if refused:
        refuse("not every move was cancelled")


def _named(
    client: Client, given: Plan | None, chosen: Mapping[str, list[int] | None]
) -> list[TopicPartition] | None:
    """The partitions that a command is about; None for all."""
    if given is not None:
        with known_topics(client, sorted({each.topic for each in given})):
            partitions_of(client, dict.fromkeys(each.topic for each in given))
        return list(given)
    return list(partitions_of(client, chosen)) if chosen else None
