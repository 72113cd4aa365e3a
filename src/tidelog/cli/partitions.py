"""`tidelog partitions`: which brokers hold partitions, and which of them lead."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli.completion import topic_names
from tidelog.cli.connecting import deciding
from tidelog.cli.exits import answering, refuse
from tidelog.cli.names import partitions_of
from tidelog.cli.options import (
    AsJson,
    Bootstrap,
    OfLocalCluster,
    Yes,
    agreed,
    chosen_partitions,
)
from tidelog.cli.output import counted, print_json, print_table, say, size_text
from tidelog.cli.reassign import reassign

if TYPE_CHECKING:
    from tidelog.client.blocking import Client
    from tidelog.client.elections import Electorate
    from tidelog.client.metadata import PartitionView
    from tidelog.model.ids import TopicPartition

app = typer.Typer(help="Move partitions and elect their leaders.", no_args_is_help=True)

_SEEN_WITHIN_S: Final = 5.0
"""So long a broker may take to hear whom the controller elected."""

app.command()(reassign)


@app.command()
def elect(
    topic: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC[:N,N]",
            help="A topic, or some of its partitions; all topics when omitted.",
            autocompletion=topic_names,
        ),
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Where no in-sync replica lives, let any other lead. Records may be lost.",
        ),
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Give partitions their preferred leader back, or, with --unclean, any leader at all.

    The preferred leader of a partition is its first replica. An unclean leader lacks whatever only
    the in-sync replicas have: acknowledged records are lost for good, and consumers may see
    offsets again that meant other records. Starting one of those brokers loses nothing.

    Examples:

    tidelog partitions elect

    tidelog partitions elect orders:0,2

    tidelog partitions elect payments:1 --unclean --yes
    """
    chosen = chosen_partitions(topic or (), "TOPIC")
    if unclean and not chosen:
        raise typer.BadParameter("--unclean is for topics that you name")
    with answering():
        from tidelog.client.elections import Electorate

        with deciding(bootstrap, data) as client:
            there = partitions_of(client, chosen or None)
            if unclean:
                electorate, voting = Electorate.UNCLEAN, _without_leader(client, there, yes)
            else:
                electorate, voting = Electorate.PREFERRED, _not_preferred(there)
            if voting:
                _elect(client, electorate, voting, as_json)


def _not_preferred(
    there: Mapping[TopicPartition, PartitionView],
) -> dict[TopicPartition, PartitionView]:
    from tidelog.client.elections import not_led_as_preferred

    voting = not_led_as_preferred(there)
    if not voting:
        whose = counted(len(there), "partition")
        say(f"the preferred leader leads already: {whose}")
    return voting


def _without_leader(
    client: Client, there: Mapping[TopicPartition, PartitionView], yes: bool
) -> dict[TopicPartition, PartitionView]:
    """The partitions that need an unclean election, once it is agreed what they may lose."""
    from tidelog.client.elections import last_in_sync
    from tidelog.client.log_directories import broker_disks

    voting = {name: each for name, each in there.items() if each.leader not in client.view.brokers}
    if not voting:
        say("every one of these partitions has a leader, and keeps it")
        return {}
    live = {broker for each in voting.values() for broker in each.replicas}
    disks = broker_disks(client, live & set(client.view.brokers), list(voting))
    complete = last_in_sync(client, [name.topic for name in voting])
    say("AN UNCLEAN ELECTION LOSES ACKNOWLEDGED RECORDS, FOR GOOD:", style="bold red")
    for name, each in voting.items():
        has = ", ".join(
            f"{broker} ({size_text(disks[broker].sizes.get(name))})"
            for broker in each.replicas
            if broker in disks
        )
        missing = ", ".join(map(str, complete.get(name, each.in_sync))) or "replicas that are away"
        say(f"  {name}: what only {missing} has will be gone; alive: {has or 'no replica'}")
    say("to lose nothing, start one of the brokers that were in sync instead")
    if not agreed(f"Elect {counted(len(voting), 'unclean leader')}?", yes=yes, must=True):
        refuse("nothing was changed; --yes says that this is meant")
    return voting


def _elect(
    client: Client,
    electorate: Electorate,
    voting: Mapping[TopicPartition, PartitionView],
    as_json: bool,
) -> None:
    from tidelog.client.elections import elect_leaders

    refused = elect_leaders(client, electorate, voting)
    after = _leaders_after(client, [name for name in voting if name not in refused], voting)
    rows = [
        {
            "partition": str(name),
            "before": None if each.leader < 0 else each.leader,
            "after": after.get(name, None if each.leader < 0 else each.leader),
            "note": str(refused[name]) if name in refused else "",
        }
        for name, each in voting.items()
    ]
    if as_json:
        for row in rows:
            print_json(row)
    else:
        columns = ["partition", "before", "after", *(["note"] if refused else [])]
        print_table(columns, [[row[column] for column in columns] for row in rows])
    if refused:
        refuse(f"{counted(len(refused), 'partition')} got no other leader")


def _leaders_after(
    client: Client, elected: list[TopicPartition], before: Mapping[TopicPartition, PartitionView]
) -> dict[TopicPartition, int]:
    """Who leads by now; brokers get a moment to hear of it."""
    deadline = time.monotonic() + _SEEN_WITHIN_S
    while True:
        there = partitions_of(client, dict.fromkeys(each.topic for each in elected))
        found = {name: there[name].leader for name in elected if name in there}
        waiting = [name for name, leader in found.items() if leader == before[name].leader]
        if not waiting or time.monotonic() > deadline:
            return found
        time.sleep(0.1)
