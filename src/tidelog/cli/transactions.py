"""`tidelog transactions`: transactional ids, what they have open, and ending it."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tidelog.cli.connecting import connected, say_missed
from tidelog.cli.exits import answering
from tidelog.cli.names import known_transactional_id
from tidelog.cli.options import AsJson, Bootstrap, OfLocalCluster
from tidelog.cli.output import print_json, print_table, say

app = typer.Typer(help="Look at transactions, and abort those nobody ends.", no_args_is_help=True)

TransactionalId = Annotated[str, typer.Argument(help="The transactional id.", show_default=False)]


@app.command("list")
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only ids in this state, for example Ongoing; may be given again."),
    ] = None,
    longer_than_ms: Annotated[
        int, typer.Option(help="Only transactions that are open for longer than this.")
    ] = -1,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """List the transactional ids of the cluster."""
    with answering():
        from tidelog.client.transactions import Transactions

        with connected(bootstrap, data) as client:
            missed: list[int] = []
            found = Transactions(client).list(
                states=state or (), longer_than_ms=longer_than_ms, missed=missed
            )
        say_missed("transactional ids", missed)
        if as_json:
            for each in found:
                print_json(each._asdict())
            return
        print_table(
            ["transactional id", "coordinator", "producer", "state"],
            [
                (each.transactional_id, each.coordinator, each.producer_id, each.state)
                for each in found
            ],
        )


@app.command()
def describe(
    transactional_id: TransactionalId,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Show the producer of a transactional id, and what it has open."""
    with answering():
        from tidelog.client.transactions import Transactions

        with connected(bootstrap, data) as client, known_transactional_id(client, transactional_id):
            found = Transactions(client).describe(transactional_id)
        open_ms = None
        if found.partitions and found.started_ms is not None:
            open_ms = int(time.time() * 1000) - found.started_ms
        timeout_ms = None if found.never_times_out else found.timeout_ms
        if as_json:
            print_json(
                {
                    "transactional_id": found.transactional_id,
                    "coordinator": found.coordinator,
                    "producer_id": found.producer.producer_id,
                    "producer_epoch": found.producer.producer_epoch,
                    "state": found.state,
                    "timeout_ms": timeout_ms,
                    "open_ms": open_ms,
                    "partitions": [str(name) for name in found.partitions],
                }
            )
            return
        print_table(
            ["coordinator", "producer", "epoch", "state", "timeout ms", "open ms", "partitions"],
            [
                (
                    found.coordinator,
                    found.producer.producer_id,
                    found.producer.producer_epoch,
                    found.state,
                    timeout_ms,
                    open_ms,
                    found.partitions,
                )
            ],
        )


@app.command()
def abort(
    transactional_id: TransactionalId, bootstrap: Bootstrap = None, data: OfLocalCluster = None
) -> None:
    """Abort what a transactional id has open; its producer cannot go on."""
    with answering():
        from tidelog.client.transactions import Transactions

        with connected(bootstrap, data) as client, known_transactional_id(client, transactional_id):
            before = Transactions(client).abort(transactional_id)
        what = f"producer {before.producer.producer_id} of {transactional_id} is fenced"
        if before.partitions:
            names = ", ".join(map(str, before.partitions))
            say(f"{what}, its transaction in {names} is aborted")
        else:
            say(f"{what}, it had no transaction open")
