"""What a batch query plans on the driver: offsets outside the log are said to be so."""

from __future__ import annotations

import pytest
from tests.spark.memory_log import Log

from tidelog.spark.errors import DataLoss
from tidelog.spark.options import batch_options
from tidelog.spark.source.batch_reader import BatchReader
from tidelog.spark.source.ranges import OffsetRange
from tidelog.spark.source.schema import read_schema


def planned(log: Log, **options: str) -> list[tuple[int, int, int]]:
    given = batch_options(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders", **options}
    )
    found = BatchReader(given, read_schema(given), lambda _: log).partitions()
    return [
        (each.partition.partition, each.start, each.end)
        for each in found
        if isinstance(each, OffsetRange) and len(each)
    ]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"startingOffsets": '{"orders": {"0": 950}}'}, r"\[950, 100\)"),
        (
            {
                "startingOffsets": '{"orders": {"0": 60}}',
                "endingOffsets": '{"orders": {"0": 40}}',
            },
            r"\[60, 40\)",
        ),
    ],
)
def test_a_start_behind_the_end_is_out_of_range(options: dict[str, str], asked: str) -> None:
    expected = rf"Offsets out of range: orders-0 has offsets \[0, 100\), .* {asked}: its start lies"
    with pytest.raises(DataLoss, match=expected):
        planned(Log((0, 100)), **options)
    assert planned(Log((0, 100)), failOnDataLoss="false", **options) == []


def test_a_start_at_the_end_reads_nothing_and_loses_nothing() -> None:
    log, exact = Log((0, 100)), '{"orders": {"0": 100}}'
    assert planned(log, startingOffsets=exact) == []
