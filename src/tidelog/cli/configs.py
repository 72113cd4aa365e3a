"""`tidelog configs`: settings of topics and brokers that may change while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.completion import topic_names
from tidelog.cli.connecting import connected, deciding
from tidelog.cli.exits import answering, refuse
from tidelog.cli.names import known_topics
from tidelog.cli.options import AsJson, Bootstrap, OfLocalCluster, key_values
from tidelog.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from tidelog.client.admin import ResourceType

app = typer.Typer(help="Show and change settings of topics and brokers.", no_args_is_help=True)

OfTopic = Annotated[
    str | None,
    typer.Option("--topic", metavar="TOPIC", help="A topic.", autocompletion=topic_names),
]
OfBroker = Annotated[int | None, typer.Option("--broker", metavar="ID", help="One broker.")]
OfAllBrokers = Annotated[
    bool, typer.Option("--all-brokers", help="The default that holds for every broker.")
]


def _resource(topic: str | None, broker: int | None, all_brokers: bool) -> tuple[ResourceType, str]:
    if (topic is not None) + (broker is not None) + all_brokers != 1:
        raise typer.BadParameter("give exactly one of --topic, --broker and --all-brokers")
    from tidelog.client.admin import ResourceType

    if topic is not None:
        return ResourceType.TOPIC, topic
    return ResourceType.BROKER, "" if broker is None else str(broker)


def _topics(topic: str | None) -> list[str]:
    return [] if topic is None else [topic]


@app.command()
def describe(
    topic: OfTopic = None,
    broker: OfBroker = None,
    all_brokers: OfAllBrokers = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every setting with its documentation, defaults too.")
    ] = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Show settings: the ones that differ from the default, or all."""
    with answering():
        kind, name = _resource(topic, broker, all_brokers)
        from tidelog.client.admin import Admin, ConfigSource

        with connected(bootstrap, data) as client, known_topics(client, _topics(topic)):
            found = [
                entry
                for entry in Admin(client).describe_configs(kind, name)
                if everything or entry.source is not ConfigSource.DEFAULT
            ]
        if as_json:
            for entry in found:
                print_json({**entry._asdict(), "source": entry.source.name.lower()})
            return
        columns = ["setting", "value", "from"]
        rows = [
            [
                entry.name,
                "(hidden)" if entry.sensitive else entry.value,
                entry.source.name.lower().replace("_", " "),
            ]
            for entry in found
        ]
        if everything:
            columns.append("what it does")
            for row, entry in zip(rows, found, strict=True):
                row.append(" ".join((entry.documentation or "").split()))
        print_table(columns, rows)


@app.command(name="set")
def set_values(
    values: Annotated[list[str], typer.Argument(metavar="KEY=VALUE")],
    topic: OfTopic = None,
    broker: OfBroker = None,
    all_brokers: OfAllBrokers = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
) -> None:
    """Change settings; they take effect at once."""
    changes = key_values(values, "KEY=VALUE")
    with answering():
        kind, name = _resource(topic, broker, all_brokers)
        from tidelog.client.admin import Admin

        with deciding(bootstrap, data) as client, known_topics(client, _topics(topic)):
            admin = Admin(client)
            admin.alter_configs(kind, name, changes)
        for key, value in changes.items():
            say(f"{key} is now {value}")


@app.command()
def delete(
    keys: Annotated[list[str], typer.Argument(metavar="KEY")],
    topic: OfTopic = None,
    broker: OfBroker = None,
    all_brokers: OfAllBrokers = False,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
) -> None:
    """Take changes back, so that the default holds again."""
    with answering():
        kind, name = _resource(topic, broker, all_brokers)
        from tidelog.client.admin import Admin
        from tidelog.model.settings.setting import unknown_key

        with deciding(bootstrap, data) as client, known_topics(client, _topics(topic)):
            admin = Admin(client)
            known = [entry.name for entry in admin.describe_configs(kind, name)]
            for key in keys:
                if key not in known and not all_brokers:  # whose list has only what was set
                    refuse(unknown_key(key, known))
            admin.alter_configs(kind, name, dict.fromkeys(keys))
        for key in keys:
            say(f"{key} has its default again")
