"""`tidelog groups`: list, describe with lag, reset offsets, delete."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.completion import group_names
from tidelog.cli.connecting import connected, say_missed
from tidelog.cli.exits import answering, refuse
from tidelog.cli.names import known_group
from tidelog.cli.options import AsJson, Bootstrap, OfLocalCluster
from tidelog.cli.output import print_json, print_table, say
from tidelog.cli.reset_offsets import reset_offsets

if TYPE_CHECKING:
    from tidelog.client.blocking import Client
    from tidelog.client.groups import DescribedGroup
    from tidelog.model.ids import TopicPartition

app = typer.Typer(help="List, describe, move and delete consumer groups.", no_args_is_help=True)

GroupName = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=group_names)]


@app.command(name="list")
def list_groups(
    bootstrap: Bootstrap = None, data: OfLocalCluster = None, as_json: AsJson = False
) -> None:
    """List the groups of the cluster."""
    with answering():
        from tidelog.client.groups import Groups

        with connected(bootstrap, data) as client:
            missed: list[int] = []
            found = Groups(client).list(missed)
        say_missed("groups", missed)
        if as_json:
            for each in found:
                print_json(each._asdict())
        else:
            print_table(["group", "state", "type", "protocol", "coordinator"], found)


@app.command()
def describe(
    group: GroupName,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Show a group's members, offsets and lag, partition by partition."""
    with answering():
        from tidelog.client.groups import Groups

        with connected(bootstrap, data) as client, known_group(client, group):
            groups = Groups(client)
            found = groups.describe(group)
            partitions = _progress(client, found, groups.offsets(group))
        if as_json:
            members = [
                {**each._asdict(), "partitions": [str(name) for name in each.partitions]}
                for each in found.members
            ]
            print_json({**found._asdict(), "members": members, "partitions": partitions})
            return
        count = len(found.members)
        say(
            f"{group} is {found.state}, a {found.type} group with {count} "
            f"member{'' if count == 1 else 's'}, coordinated by broker {found.coordinator}"
        )
        columns = ["topic", "partition", "committed", "end", "lag", "member", "host"]
        print_table(columns, [[line[name] for name in columns] for line in partitions])


app.command(name="reset-offsets")(reset_offsets)


@app.command()
def delete(
    group: Annotated[list[str], typer.Argument(metavar="GROUP", autocompletion=group_names)],
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
) -> None:
    """Delete groups that have no members, and all their offsets."""
    with answering():
        from tidelog.client.errors import NoSuchName, RequestRefused
        from tidelog.client.groups import Groups

        failed = False
        with connected(bootstrap, data) as client:
            for name in group:
                try:
                    with known_group(client, name):
                        Groups(client).delete(name)
                except (RequestRefused, NoSuchName) as refusal:
                    failed = True
                    say(str(refusal))
                else:
                    say(f"deleted {name}")
        if failed:
            refuse("not every group was deleted")


def _progress(
    client: Client, group: DescribedGroup, committed: dict[TopicPartition, int]
) -> list[dict[str, Any]]:
    """Every partition that somebody reads or that has an offset, and how far behind it is."""
    from tidelog.client.offsets import BoundsSurvey

    readers = {name: member for member in group.members for name in member.partitions}
    lines = []
    ends: dict[tuple[str, int], int | None] = {}
    survey = BoundsSurvey(client)
    for topic, names in groupby(sorted({*committed, *readers}), key=lambda name: name.topic):
        for index, found in survey.of(topic, [name.partition for name in names]).items():
            if isinstance(found, str):
                say(f"{topic}-{index}: {found}")
            ends[topic, index] = None if isinstance(found, str) else found[1]
    for name in sorted({*committed, *readers}):
        offset, end, reader = committed.get(name), ends[name], readers.get(name)
        lines.append(
            {
                "topic": name.topic,
                "partition": name.partition,
                "committed": offset,
                "end": end,
                "lag": None if offset is None or end is None else max(0, end - offset),
                "member": None if reader is None else reader.member_id,
                "host": None if reader is None else reader.host,
            }
        )
    return lines
