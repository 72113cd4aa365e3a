"""Tables against their topics without Spark: a second opinion beside the audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidelog.client.blocking import Client
from tidelog.client.consumer import Consumer
from tidelog.client.offsets import EARLIEST, Isolation, find_offsets

Place = tuple[str, int, int]
PLACE = ["_topic", "_partition", "_offset"]


def committed_records(bootstrap: str, topics: Iterable[str]) -> dict[Place, bytes]:
    """The value of every record that a reader may see, by its place."""
    found = {}
    with Client(bootstrap) as client:
        for topic in topics:
            known = client.refresh([topic]).topic(topic).partitions
            partitions = [each.partition for each in known]
            starts = find_offsets(client, topic, dict.fromkeys(partitions, EARLIEST))
            consumer = Consumer(client, topic, starts, isolation=Isolation.READ_COMMITTED)
            for each in consumer.until_end():
                place = (topic, each.partition, each.record.offset)
                found[place] = each.record.value or b""
    return found


def places_in(table: Path) -> Counter[Place]:
    """How often each place is in a table."""
    if (table / "_delta_log").exists():
        rows = DeltaTable(str(table)).to_pyarrow_table(columns=PLACE)
    elif any(table.glob("*.parquet")):
        rows = ds.dataset(table, format="parquet").to_table(columns=PLACE)
    else:
        rows = pa.table({name: [] for name in PLACE})
    return Counter(zip(*(rows[name].to_pylist() for name in PLACE), strict=True))


def expect_places(
    table: Path, records: dict[Place, bytes], belongs: Callable[[bytes], bool]
) -> None:
    """The records that belong into the table are there, once, and nothing else is."""
    found = places_in(table)
    expected = {place for place, value in records.items() if belongs(value)}
    assert found == Counter(expected), {
        "table": table.name,
        "lost": sorted(expected - found.keys())[:20],
        "too many": sorted(place for place in found if found[place] > (place in expected))[:20],
    }
