"""Offsets as Spark stores them: plain JSON, `{"orders": {"0": 42}}`, with the leader epochs beside.

    {"orders": {"0": 42, "1": 40}, "@epochs": {"orders": {"0": 3, "1": 3}}}

An offset is an exclusive end: the next record to read. Its epoch is that of the partition's leader
when the offset was seen; a leader that later says this epoch ended earlier has lost records that
were read. `@` cannot stand in the name of a topic.

The end of a micro-batch also says where the batch starts (`"@starts"`, offsets of the same form):
Spark keeps no start of the first batch, nor of partitions that are new in a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tidelog.model.ids import TopicPartition

EPOCHS: Final = "@epochs"
STARTS: Final = "@starts"
NO_EPOCH: Final = -1


class Position(NamedTuple):
    """The next record to read, and the leader epoch under which that was true."""

    offset: int
    epoch: int = NO_EPOCH


Positions = dict[TopicPartition, Position]


def to_json(
    positions: Mapping[TopicPartition, Position],
    starts: Mapping[TopicPartition, Position] | None = None,
) -> dict[str, Any]:
    """What Spark keeps in its checkpoint; `starts` are those of the batch that ends here."""
    offsets: dict[str, Any] = {}
    epochs: dict[str, dict[str, int]] = {}
    for (topic, index), (offset, epoch) in sorted(positions.items()):
        offsets.setdefault(topic, {})[str(index)] = offset
        if epoch != NO_EPOCH:
            epochs.setdefault(topic, {})[str(index)] = epoch
    if epochs:
        offsets[EPOCHS] = epochs
    if starts is not None:
        offsets[STARTS] = to_json(starts)
    return offsets


def from_json(stored: Mapping[str, Any]) -> Positions:
    """What `to_json` wrote; offsets of Spark's own connector are understood too."""
    epochs = stored.get(EPOCHS, {})
    return {
        TopicPartition(topic, int(index)): Position(
            offset, epochs.get(topic, {}).get(index, NO_EPOCH)
        )
        for topic, partitions in stored.items()
        if not topic.startswith("@")
        for index, offset in partitions.items()
    }


def starts_in(stored: Mapping[str, Any]) -> Positions:
    """Where the batch that ends here starts, as it was planned; nothing where that is not said."""
    return from_json(stored.get(STARTS, {}))
