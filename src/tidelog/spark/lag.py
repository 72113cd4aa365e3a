"""How far a streaming query is behind the ends of its topics, from the progress Spark reports.

    lag(query.lastProgress).total
    spark.streams.addListener(LagListener(lambda query, behind: print(query, behind.metrics)))

Spark takes the metrics of a progress from sources in the JVM alone; a Python source can report no
more than `latestOffset`. What Spark's own connector makes of it is made here, under the same names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from tidelog.model.ids import TopicPartition
from tidelog.spark.source.offsets import Positions, from_json


class Lag(NamedTuple):
    """Offsets between the end of the last micro-batch and the end of each partition."""

    by_partition: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        return sum(self.by_partition.values())

    @property
    def metrics(self) -> dict[str, str]:
        """What Spark's own connector reports; nothing where nothing is known."""
        behind = self.by_partition.values()
        if not behind:
            return {}
        return {
            "minOffsetsBehindLatest": str(min(behind)),
            "maxOffsetsBehindLatest": str(max(behind)),
            "avgOffsetsBehindLatest": str(self.total / len(behind)),
        }


def lag(progress: StreamingQueryProgress | None) -> Lag:
    """The lag of all topics of a query; empty before its first progress.

    A partition that several sources of the query read is as far behind as the slowest of them.
    """
    found: dict[TopicPartition, int] = {}
    for source in progress.sources if progress is not None else ():
        for partition, behind in _behind(source.endOffset, source.latestOffset):
            found[partition] = max(behind, found.get(partition, 0))
    return Lag(found)


class LagListener(StreamingQueryListener):
    """Tells the name (or else the id) and the lag of every query, whenever one makes progress."""

    def __init__(self, tell: Callable[[str, Lag], None]) -> None:
        self._tell = tell

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        if (behind := lag(progress)).by_partition:
            self._tell(progress.name or str(progress.id), behind)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The last progress was told."""


def _behind(done: str, latest: str) -> Iterator[tuple[TopicPartition, int]]:
    ends, reached = _positions(latest), _positions(done)
    for partition, end in ends.items():
        start = reached[partition].offset if partition in reached else 0
        yield partition, max(0, end.offset - start)


def _positions(offsets: str) -> Positions:
    """The offsets of a topic source; other sources have others, or none."""
    try:
        return from_json(json.loads(offsets))
    except (ValueError, AttributeError):
        return {}
