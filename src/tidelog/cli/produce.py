"""`tidelog produce`: lines in, records out; or one record, as it stands in the command.

Invariant  A record waits for company only while more input is at hand: when reading would block,
           what was read is sent first. So a slow pipe or a person sees each line arrive at once.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.completion import topic_names
from tidelog.cli.connecting import connected
from tidelog.cli.exits import answering
from tidelog.cli.names import known_topics, topic_like
from tidelog.cli.options import Bootstrap, OfLocalCluster, key_values
from tidelog.cli.output import say

if TYPE_CHECKING:
    from tidelog.client.producer import Producer

_CHUNK = 262_144
_PROGRESS_S = 0.5
_REPLICATED_WITHIN_S = 3.0
"""After this time a person is told if followers are missed that nobody can let go."""


class Acks(StrEnum):
    """How much safety an answer means."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Compression(StrEnum):
    """Codecs, by the names Kafka gives them."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=topic_names)],
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", exists=True, dir_okay=False, help="Not stdin."),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Not lines of the input, but one record: this."),
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="TEXT", help="Of every record.")] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What stands before it in a line is the key."),
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--headers", metavar="NAME=VALUE", help="On every record; may be repeated."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Not chosen by key, but this one.")
    ] = None,
    acks: Annotated[
        Acks, typer.Option(help="Who must have a record before it counts as written.")
    ] = Acks.ALL,
    compression: Annotated[Compression, typer.Option(help="Codec.")] = Compression.NONE,
    batch_bytes: Annotated[
        int, typer.Option(min=1, help="Size at which a batch is sent.")
    ] = 262_144,
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
) -> None:
    """Write each line of the input as one record.

    Examples:

    tidelog produce orders --file orders.jsonl

    tidelog produce orders --key 17 --value '{"order": 17}'
    """
    pairs = key_values(headers or [], "--headers")
    _refuse_contradictions(file, value, key, key_separator)
    with answering():
        from tidelog.client.admin import Admin
        from tidelog.client.producer import ACKS_ALL, Producer
        from tidelog.records.compression import CompressionType

        fixed_headers = tuple((name, value.encode()) for name, value in pairs.items())
        separator = None if key_separator is None else key_separator.encode()
        with connected(bootstrap, data, patient=True) as client, known_topics(client, [topic]):
            if (meant := topic_like(client, topic)) is not None:
                say(f"no topic {topic!r} yet; did you mean {meant!r}?", style="yellow")
            producer = Producer(
                client,
                topic,
                acks=ACKS_ALL if acks is Acks.ALL else int(acks),
                codec=CompressionType[compression.name],
                batch_bytes=batch_bytes,
                replicated_within_s=_REPLICATED_WITHIN_S,
                after_failure=Admin(client).require_controller,
            )
            progress = _Progress()
            for line in _input(value, file, producer):
                own_key, content = _split(line, separator, key)
                producer.send(content, key=own_key, headers=fixed_headers, partition=partition)
                progress.note(len(line))
            producer.flush()
            progress.finish(topic)


def _refuse_contradictions(
    file: Path | None, value: str | None, key: str | None, key_separator: str | None
) -> None:
    if key_separator == "":
        raise typer.BadParameter("must not be empty", param_hint="--key-separator")
    if key_separator is not None and (key is not None or value is not None):
        raise typer.BadParameter(
            "splits lines; --key and --value do not", param_hint="--key-separator"
        )
    if value is not None and file is not None:
        raise typer.BadParameter("--value and --file contradict each other", param_hint="--value")
    # Python leaves it out when the shell has closed it (`<&-`).
    if value is None and file is None and sys.stdin is None:
        raise typer.BadParameter("stdin is closed: name a file", param_hint="--file")


def _input(value: str | None, file: Path | None, producer: Producer) -> Iterator[bytes]:
    """What is to be written: the one record of the command, else lines."""
    if value is not None:
        yield os.fsencode(value)
        return
    with sys.stdin.buffer if file is None else file.open("rb") as source:
        yield from _lines(source.fileno(), producer)


def _lines(source: int, producer: Producer) -> Iterator[bytes]:
    """Lines without their ends; flushes the producer whenever reading would wait."""
    partial = b""
    while True:
        if not select.select([source], [], [], 0)[0]:
            producer.flush()
        chunk = os.read(source, _CHUNK)
        if not chunk:
            break
        *lines, partial = (partial + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if partial:
        yield partial


def _split(line: bytes, separator: bytes | None, key: str | None) -> tuple[bytes | None, bytes]:
    """The key and the value of a line; `key` is that of every record."""
    if separator is None:
        return None if key is None else os.fsencode(key), line
    own_key, found, value = line.partition(separator)
    return (own_key, value) if found else (None, line)


class _Progress:
    """A line on stderr that counts, when a person is looking."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty() and not os.isatty(0)
        self._records = self._bytes = 0
        self._start = self._shown = time.monotonic()

    def note(self, size: int) -> None:
        self._records += 1
        self._bytes += size
        if self._live and self._records % 1024 == 0:
            now = time.monotonic()
            if now - self._shown > _PROGRESS_S:
                self._shown = now
                print(f"\r{self._summary(now)}", end="", file=sys.stderr, flush=True)

    def finish(self, topic: str) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr)
        say(f"{self._summary(time.monotonic())} written to {topic}")

    def _summary(self, now: float) -> str:
        megabytes = self._bytes / 1e6
        rate = megabytes / max(now - self._start, 1e-6)
        plural = "" if self._records == 1 else "s"
        return f"{self._records} record{plural} ({megabytes:.1f} MB, {rate:.1f} MB/s)"
