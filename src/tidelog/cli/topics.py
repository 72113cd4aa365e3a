"""`tidelog topics`: create, list, describe, alter, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.completion import topic_names
from tidelog.cli.connecting import connected, deciding
from tidelog.cli.exits import answering, refuse
from tidelog.cli.names import known_topics
from tidelog.cli.options import AsJson, Bootstrap, OfLocalCluster, key_values
from tidelog.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from tidelog.client.metadata import PartitionView, TopicView
    from tidelog.client.offsets import BoundsSurvey

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

_DESCRIBED_WITHIN_S = 3.0

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=topic_names)]


@app.command()
def create(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Number of partitions.", show_default="the cluster's")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(min=1, help="Replicas per partition.", show_default="the cluster's"),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="A topic setting; may be repeated."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing when the topic is there already.")
    ] = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
) -> None:
    """Create a topic."""
    configs = key_values(config or [], "--config")
    with answering():
        from tidelog.client.admin import USE_CLUSTER_DEFAULT, Admin
        from tidelog.client.errors import RequestRefused
        from tidelog.model.errors import ErrorCode

        with deciding(bootstrap, data) as client:
            admin = Admin(client)
            try:
                count = admin.create_topic(
                    topic,
                    partitions=partitions or USE_CLUSTER_DEFAULT,
                    replication_factor=replication_factor or USE_CLUSTER_DEFAULT,
                    configs=configs,
                )
            except RequestRefused as refusal:
                if not if_not_exists or refusal.code is not ErrorCode.topic_already_exists:
                    raise
                say(f"topic {topic} is there already")
            else:
                say(f"created {topic} with {count} partition{'s' if count > 1 else ''}")


@app.command(name="list")
def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="Also the topics the brokers keep for themselves.")
    ] = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """List the topics."""
    with answering():
        from tidelog.client.admin import Admin
        from tidelog.model.ids import uuid_text

        with connected(bootstrap, data) as client:
            found = [
                {
                    "topic": topic.name,
                    "partitions": len(topic.partitions),
                    "replication_factor": _replication_factor(topic),
                    "topic_id": uuid_text(topic.topic_id),
                    "internal": topic.internal,
                }
                for _, topic in sorted(Admin(client).topics().topics.items())
                if internal or not topic.internal
            ]
        if as_json:
            for each in found:
                print_json(each)
        else:
            print_table(
                ["topic", "partitions", "replicas"],
                [(each["topic"], each["partitions"], each["replication_factor"]) for each in found],
            )


@app.command()
def describe(
    topic: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC", help="All topics when omitted.", autocompletion=topic_names
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Show each partition: its leader, replicas, in-sync replicas and offsets.

    What a leader does not answer, or refuses to tell, is left out, with a note.
    """
    with answering():
        from tidelog.client.admin import Admin
        from tidelog.client.offsets import BoundsSurvey

        with (
            connected(bootstrap, data, request_timeout_s=_DESCRIBED_WITHIN_S) as client,
            known_topics(client, topic),
        ):
            view = Admin(client).topics(topic)
            names = topic or sorted(name for name, each in view.topics.items() if not each.internal)
            survey = BoundsSurvey(client)
            described = [_described(survey, view.topic(name)) for name in names]
        if as_json:
            for each in described:
                print_json(each)
            return
        rows: list[list[object]] = [
            [
                f"{each['topic']}-{partition['partition']}",
                "none" if partition["leader"] < 0 else partition["leader"],
                partition["leader_epoch"],
                partition["replicas"],
                partition["isr"],
                partition["start_offset"],
                partition["end_offset"],
                partition["note"],
            ]
            for each in described
            for partition in each["partitions"]
        ]
        columns = ["partition", "leader", "epoch", "replicas", "isr", "start", "end", "note"]
        if not any(row[-1] for row in rows):
            columns, rows = columns[:-1], [row[:-1] for row in rows]
        print_table(columns, rows)


@app.command()
def alter(
    topic: TopicName,
    partitions: Annotated[int, typer.Option(min=1, help="The new total number of partitions.")],
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
) -> None:
    """Give a topic more partitions; the records it has stay where they are."""
    with answering():
        from tidelog.client.admin import Admin

        with deciding(bootstrap, data) as client, known_topics(client, [topic]):
            admin = Admin(client)
            admin.create_partitions(topic, partitions)
        say(f"{topic} now has {partitions} partitions")


@app.command()
def delete(
    topic: Annotated[list[str], typer.Argument(metavar="TOPIC", autocompletion=topic_names)],
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do nothing when there is no such topic.")
    ] = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
) -> None:
    """Delete topics and everything in them."""
    with answering():
        from tidelog.client.admin import Admin
        from tidelog.client.errors import NoSuchName, RequestRefused
        from tidelog.model.errors import ErrorCode

        failed = False
        with deciding(bootstrap, data) as client:
            admin = Admin(client)
            for name in topic:
                try:
                    with known_topics(client, [name]):
                        admin.delete_topic(name)
                except (RequestRefused, NoSuchName) as refusal:
                    # A broker may still show what the controller knows to be gone.
                    missing = (
                        isinstance(refusal, NoSuchName)
                        or refusal.code is ErrorCode.unknown_topic_or_partition
                    )
                    failed = failed or not (missing and if_exists)
                    say(str(refusal))
                else:
                    say(f"deleted {name}")
        if failed:
            refuse("not every topic was deleted")


def _replication_factor(topic: TopicView) -> int:
    return max((len(each.replicas) for each in topic.partitions), default=0)


def _described(survey: BoundsSurvey, topic: TopicView) -> dict[str, Any]:
    from tidelog.model.ids import uuid_text

    bounds = survey.of(topic.name, [each.partition for each in topic.partitions])
    partitions = []
    for each in topic.partitions:
        found = bounds[each.partition]
        start, end = (None, None) if isinstance(found, str) else found
        partitions.append(
            {
                "partition": each.partition,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "isr": list(each.in_sync),
                "offline": list(each.offline),
                "start_offset": start,
                "end_offset": end,
                "note": _note(each, found if isinstance(found, str) else ""),
            }
        )
    return {
        "topic": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "internal": topic.internal,
        "partitions": partitions,
    }


def _note(partition: PartitionView, unknown: str) -> str:
    """What is wrong with a partition, in words; empty when all is well."""
    notes = [unknown] if unknown else []
    notes += [f"replica {each} is offline" for each in partition.offline]
    behind = set(partition.replicas) - set(partition.in_sync) - set(partition.offline)
    notes += [f"replica {each} is not in sync" for each in sorted(behind)]
    return ", ".join(notes)
