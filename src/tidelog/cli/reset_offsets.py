"""`tidelog groups reset-offsets`: every way to say where a group shall go on reading.

Invariant  The ways are those of kafka-consumer-groups, and what it exports can be read here.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli import completion
from tidelog.cli.connecting import connected
from tidelog.cli.exits import answering, refuse
from tidelog.cli.files import text_of
from tidelog.cli.moments import duration_ms, moment_ms
from tidelog.cli.names import group_names, known_topics, no_such
from tidelog.cli.options import AsJson, Bootstrap, OfLocalCluster, chosen_partitions
from tidelog.cli.output import print_json, print_table, say
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.group_moves import Move

WAYS = (
    "--to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, "
    "--to-timestamp, --by-duration, --from-file"
)


Topics = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TOPIC[:N,N]",
        help="A topic to move in, or some of its partitions; may be repeated.  "
        "[default: all with offsets]",
        autocompletion=completion.topic_names,
    ),
]
ToEarliest = Annotated[bool, typer.Option("--to-earliest", help="To the first record.")]
ToLatest = Annotated[bool, typer.Option("--to-latest", help="Behind the last record.")]
ToCurrent = Annotated[
    bool,
    typer.Option("--to-current", help="Where it is; behind the last record if it is nowhere."),
]
ToOffset = Annotated[
    int | None, typer.Option(min=0, help="To this offset, as far as the log reaches.")
]
ShiftBy = Annotated[int | None, typer.Option(help="So many records on, or back when negative.")]
ToDatetime = Annotated[
    str | None,
    typer.Option(
        metavar="MOMENT",
        help="To the first record of this moment or later: 2026-01-31T12:00:00, in UTC unless it "
        "ends in a zone such as +02:00.",
    ),
]
ToTimestamp = Annotated[
    int | None, typer.Option(min=0, help="The same, in milliseconds since 1970.")
]
ByDuration = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION", help="To the first record of so long ago or later: PT30M, P7D."
    ),
]
FromFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Where lines of TOPIC,PARTITION,OFFSET say.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show where it would go and change nothing.")
]
Export = Annotated[
    bool, typer.Option("--export", help="Print lines that --from-file reads, not a table.")
]


def reset_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", autocompletion=completion.group_names)],
    topic: Topics = None,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_current: ToCurrent = False,
    to_offset: ToOffset = None,
    shift_by: ShiftBy = None,
    to_datetime: ToDatetime = None,
    to_timestamp: ToTimestamp = None,
    by_duration: ByDuration = None,
    from_file: FromFile = None,
    dry_run: DryRun = False,
    export: Export = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Move a group without members to other offsets.

    Unlike kafka-consumer-groups it does so at once, unless there is --dry-run.
    """
    given = None if from_file is None else _read_offsets(from_file, group)
    times = [
        to_timestamp,
        None if to_datetime is None else moment_ms(to_datetime, "--to-datetime"),
        None if by_duration is None else _ago_ms(by_duration),
    ]
    ways = [to_earliest, to_latest, to_current]
    ways += [each is not None for each in (to_offset, shift_by, given, *times)]
    if sum(ways) != 1:
        raise typer.BadParameter(f"say where to: one of {WAYS}")
    with answering():
        from tidelog.client.group_moves import Move

        moment = next((each for each in times if each is not None), None)
        move = Move(to_earliest, to_latest, to_current, to_offset, moment, shift_by, given)
        lines = _move(
            bootstrap, data, group, chosen_partitions(topic or (), "--topic"), move, dry_run
        )
        if export:
            for name, _, after in lines:
                typer.echo(f"{name.topic},{name.partition},{after}")
        elif as_json:
            for name, before, after in lines:
                print_json({**name._asdict(), "before": before, "after": after})
        else:
            print_table(
                ["topic", "partition", "before", "after"],
                [(*name, before, after) for name, before, after in lines],
            )
        say("nothing was changed" if dry_run else f"moved {group}")


def _move(
    bootstrap: str | None,
    data: Path | None,
    group: str,
    chosen: Mapping[str, list[int] | None],
    move: Move,
    dry_run: bool,
) -> list[tuple[TopicPartition, int | None, int]]:
    """What was moved, from where and to where."""
    from tidelog.client.group_moves import moved
    from tidelog.client.groups import Groups

    with connected(bootstrap, data) as client:
        groups = Groups(client)
        committed = groups.offsets(group)
        names = chosen or _partitions_of(move.to_given) or _topics_of(committed)
        with known_topics(client, names):
            targets = moved(client, names, committed, move)
        if not targets:
            if group not in (known := group_names(client)):
                refuse(f"{no_such('group', group, known)} A new one needs --topic")
            refuse(f"group {group} has no offsets to move; name a topic with --topic")
        if not dry_run:
            groups.move(group, targets)
    return [(name, committed.get(name), offset) for name, offset in targets.items()]


def _ago_ms(text: str) -> int:
    return max(0, int(time.time() * 1000) - duration_ms(text, "--by-duration"))


def _topics_of(committed: Iterable[TopicPartition]) -> dict[str, list[int] | None]:
    return dict.fromkeys(sorted({each.topic for each in committed}))


def _partitions_of(
    given: Mapping[TopicPartition, int] | None,
) -> dict[str, list[int] | None]:
    found: dict[str, list[int] | None] = {}
    for topic in sorted({each.topic for each in given or ()}):
        found[topic] = [each.partition for each in given or () if each.topic == topic]
    return found


def _read_offsets(path: Path, group: str) -> dict[TopicPartition, int]:
    """Lines of topic, partition and offset; of those with a group in front, the group's own."""
    found: dict[TopicPartition, int] = {}
    try:
        rows = list(csv.reader(text_of(path).splitlines()))
    except csv.Error as error:
        raise typer.BadParameter(f"{path} is no CSV: {error}", param_hint="--from-file") from error
    for number, row in enumerate(rows, 1):
        of_other_group = len(row) == 4 and row[0] != group
        if not row or of_other_group:
            continue
        fields = row[1:] if len(row) == 4 else row
        if len(fields) != 3 or not all(each.isascii() and each.isdigit() for each in fields[1:]):
            raise typer.BadParameter(
                f"line {number} of {path} is not TOPIC,PARTITION,OFFSET of group {group}",
                param_hint="--from-file",
            )
        found[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    if not found:
        raise typer.BadParameter(
            f"{path} has no line TOPIC,PARTITION,OFFSET of group {group}", param_hint="--from-file"
        )
    return found
