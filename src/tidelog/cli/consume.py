"""`tidelog consume`: records out, one line each."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.completion import topic_names
from tidelog.cli.connecting import connected
from tidelog.cli.exits import answering
from tidelog.cli.moments import moment_ms, timestamp_ms
from tidelog.cli.names import known_topics
from tidelog.cli.options import AsJson, Bootstrap, OfLocalCluster
from tidelog.cli.output import print_json
from tidelog.cli.record_text import text_or_base64

if TYPE_CHECKING:
    from tidelog.client.blocking import Client
    from tidelog.client.consumer import ConsumedRecord
    from tidelog.client.offsets import Isolation


class IsolationName(StrEnum):
    """Whether records of open and aborted transactions are shown."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=topic_names)],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="beginning, end, an offset, or a moment such as 2026-01-31T12:00:00Z or "
            "@1769860800000 (milliseconds).",
            show_default="beginning; end with --follow",
        ),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option(min=0, help="Only this one; may be repeated.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many records; waits for them.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")
    ] = False,
    isolation: Annotated[
        IsolationName, typer.Option(help="Whether to show what is not committed.")
    ] = IsolationName.READ_UNCOMMITTED,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Print the key too, and this between them.")
    ] = None,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Print records: their values, or everything about them with --json.

    Without --follow and --count it ends where the log ends at the start of the command. In JSON,
    bytes that are not UTF-8 text appear as key_base64 and value_base64.
    """
    where = _parse_start(start or ("end" if follow else "beginning"))
    with answering():
        from tidelog.client.consumer import Consumer
        from tidelog.client.offsets import Isolation

        with connected(bootstrap, data) as client, known_topics(client, [topic]):
            level = Isolation[isolation.name]
            starts = _starting_offsets(client, topic, partition, where, level)
            consumer = Consumer(client, topic, starts, isolation=level)
            endless = follow or count is not None
            records = consumer.forever() if endless else consumer.until_end()
            try:
                _print_records(islice(records, count), key_separator, as_json)
            except KeyboardInterrupt:
                if not follow:
                    raise


def _print_records(
    records: Iterator[ConsumedRecord], key_separator: str | None, as_json: bool
) -> None:
    separator = None if key_separator is None else key_separator.encode()
    for found in records:
        if as_json:
            print_json(as_object(found))
            continue
        value = found.record.value or b""
        if separator is not None:
            value = (found.record.key or b"") + separator + value
        sys.stdout.buffer.write(value + b"\n")
        sys.stdout.buffer.flush()


def as_object(found: ConsumedRecord) -> dict[str, Any]:
    """Everything about a record, ready for JSON."""
    record = found.record
    return {
        "topic": found.topic,
        "partition": found.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "leader_epoch": found.leader_epoch,
        **text_or_base64("key", record.key),
        **text_or_base64("value", record.value),
        "headers": [
            {"key": name, **text_or_base64("value", value)} for name, value in record.headers
        ],
    }


def _parse_start(text: str) -> tuple[str, int]:
    """(kind, number): kind is beginning, end, offset or timestamp."""
    if text in ("beginning", "end"):
        return text, 0
    if re.fullmatch("[0-9]+", text):
        return "offset", int(text)
    if re.fullmatch("@[0-9]+", text):
        return "timestamp", timestamp_ms(int(text[1:]), text, "--from")
    expected = "beginning, end, an offset or a moment"
    return "timestamp", moment_ms(text, "--from", expected=expected)


def _starting_offsets(
    client: Client,
    topic: str,
    chosen: list[int] | None,
    where: tuple[str, int],
    isolation: Isolation,
) -> dict[int, int]:
    from tidelog.client.errors import RequestRefused
    from tidelog.client.offsets import EARLIEST, LATEST, find_offsets, partition_bounds
    from tidelog.model.errors import ErrorCode

    there = [each.partition for each in client.refresh([topic]).topic(topic).partitions]
    for index in chosen or ():
        if index not in there:
            why = f"the topic has partitions {there[0]} to {there[-1]}"
            raise RequestRefused(ErrorCode.unknown_topic_or_partition, f"{topic}-{index}", why)
    partitions = chosen or there
    kind, number = where
    if kind == "offset":
        for index, (first, end) in partition_bounds(client, topic, partitions, isolation).items():
            if not first <= number <= end:
                why = f"offset {number} is outside the log, which holds [{first}, {end})"
                raise RequestRefused(ErrorCode.offset_out_of_range, f"{topic}-{index}", why)
        return dict.fromkeys(partitions, number)
    moment = {"beginning": EARLIEST, "end": LATEST}.get(kind, number)
    found = find_offsets(client, topic, dict.fromkeys(partitions, moment), isolation)
    # No record is that young: what will be written from now on is.
    missing = [index for index, offset in found.items() if offset < 0]
    if missing:
        found |= find_offsets(client, topic, dict.fromkeys(missing, LATEST), isolation)
    return found
