"""Which reader understands which file, by the name Kafka and we give it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidelog.cli.dump_batches import batch_rows
from tidelog.cli.dump_indexes import offset_index_rows, time_index_rows, transaction_index_rows
from tidelog.model.errors import ConfigError, TidelogError
from tidelog.model.settings.properties import parse_properties
from tidelog.storage.checkpoint import decode_checkpoint
from tidelog.storage.producer_snapshot import decode_snapshot

Row = dict[str, Any]

_PENDING = (".deleted", ".cleaned", ".swap", ".part", ".tmp")


def rows_of(path: Path, *, deep: bool) -> Iterator[Row]:
    """What a file holds, row by row; a row of type "damage" is always the last."""
    name = path.name
    for suffix in _PENDING:
        name = name.removesuffix(suffix)
    if name.endswith((".log", ".checkpoint")):
        return batch_rows(path, deep=deep)
    reader = _BY_NAME.get(name) or _BY_SUFFIX.get(Path(name).suffix)
    if reader is None:
        raise ConfigError(
            f"{path}: nothing is known about files of that name; known are *.log, *.checkpoint, "
            + ", ".join([f"*{suffix}" for suffix in _BY_SUFFIX] + list(_BY_NAME))
        )
    return _until_damage(reader(path))


def _until_damage(rows: Iterator[Row]) -> Iterator[Row]:
    try:
        yield from rows
    except (ValueError, TidelogError) as error:
        yield {"type": "damage", "position": 0, "why": str(error)}


def _producer_rows(path: Path) -> Iterator[Row]:
    for entry in decode_snapshot(path.read_bytes()):
        yield {"type": "producer", **entry._asdict()}


def _offset_checkpoint_rows(path: Path) -> Iterator[Row]:
    for topic, partition, offset in decode_checkpoint(path.read_bytes(), 3):
        yield {
            "type": "entry",
            "topic": topic,
            "partition": int(partition),
            "offset": int(offset),
        }


def _epoch_rows(path: Path) -> Iterator[Row]:
    for epoch, start_offset in decode_checkpoint(path.read_bytes(), 2):
        yield {"type": "entry", "epoch": int(epoch), "start_offset": int(start_offset)}


def _property_rows(path: Path) -> Iterator[Row]:
    yield {"type": "properties", **parse_properties(path.read_text(encoding="utf-8"))}


def _json_rows(path: Path) -> Iterator[Row]:
    state = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(state, dict):
        raise ValueError("not a JSON object")
    yield {"type": "state", **state}


_Reader = Callable[[Path], Iterator[Row]]

_BY_SUFFIX: dict[str, _Reader] = {
    ".index": offset_index_rows,
    ".timeindex": time_index_rows,
    ".txnindex": transaction_index_rows,
    ".snapshot": _producer_rows,
}

_BY_NAME: dict[str, _Reader] = {
    "leader-epoch-checkpoint": _epoch_rows,
    "recovery-point-offset-checkpoint": _offset_checkpoint_rows,
    "replication-offset-checkpoint": _offset_checkpoint_rows,
    "log-start-offset-checkpoint": _offset_checkpoint_rows,
    "cleaner-offset-checkpoint": _offset_checkpoint_rows,
    "partition.metadata": _property_rows,
    "meta.properties": _property_rows,
    "quorum-state": _json_rows,
    ".kafka_cleanshutdown": _json_rows,
}
