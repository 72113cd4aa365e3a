"""Where each record belongs, beside where it is.

Invariant  A record is once on the side where the steps put it, in the table or in quarantine; one
           that they drop is on neither.
Invariant  Where a record that has aged out belonged nobody can tell any more; that it is there
           twice, or without a batch that brought it, is wrong at any age.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidelog.pipelines.description.spec import OUTCOME
from tidelog.pipelines.project.steps import DROPPED
from tidelog.pipelines.tables.partition_values import misfits
from tidelog.spark.source.offsets import Positions

PLACE: Final = ("_topic", "_partition", "_offset")
PLACES: Final = "_topic string, _partition int, _offset bigint"
OUTCOMES: Final = f"{PLACES}, {OUTCOME} string"


def outcomes(rows: DataFrame, partition_by: Sequence[str]) -> DataFrame:
    """What becomes of each record, in a table that is partitioned so."""
    if not partition_by:
        return rows.select(*PLACE, OUTCOME)
    needed = rows.select(*dict.fromkeys((*PLACE, OUTCOME, *partition_by)))
    return needed.mapInArrow(outcomes_in(partition_by), OUTCOMES)


def outcomes_in(
    partition_by: Sequence[str],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The same of batches: whoever writes them refuses rows that no partition takes."""

    def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            outcome = pc.coalesce(rows[OUTCOME], misfits(rows, partition_by))
            yield from rows.select(PLACE).append_column(OUTCOME, outcome).to_batches()

    return found


def compared(
    expected: DataFrame, rows: DataFrame, refused: DataFrame, earliest: Positions, ends: Positions
) -> DataFrame:
    """One row per record: how often it is where, whether the topic has it, and what is wrong.

    `expected` are the outcomes of the records that are left in the topic, from `earliest` on, of
    the committed batches, up to `ends`.
    """
    spark = expected.sparkSession
    good, dropped = F.col(OUTCOME).isNull(), F.col(OUTCOME) == DROPPED
    counts = expected.groupBy(*PLACE).agg(
        F.count("*").alias("records"),
        F.count_if(good).alias("good"),
        F.count_if(~good & ~dropped).alias("bad"),
    )
    first, end = offsets(spark, earliest, "first"), offsets(spark, ends, "end")
    return (
        counts.join(_counted(rows, "rows"), list(PLACE), "full")
        .join(_counted(refused, "refused"), list(PLACE), "full")
        .na.fill(0)
        .join(first, ["_topic", "_partition"], "left")
        .join(end, ["_topic", "_partition"], "left")
        .withColumn("there", F.coalesce(F.col("_offset") >= F.col("first"), F.lit(False)))
        .withColumn("finding", _finding())
    )


def offsets(spark: SparkSession, positions: Positions, name: str) -> DataFrame:
    """An offset per partition."""
    rows = [(each.topic, each.partition, position.offset) for each, position in positions.items()]
    return spark.createDataFrame(rows, f"_topic string, _partition int, {name} bigint")


def _finding() -> Column:
    """What is wrong with a record, in words; null if nothing is."""
    rows, refused, good, bad = map(F.col, ("rows", "refused", "good", "bad"))
    times = rows + refused
    side = F.when(rows > 0, F.lit("in the table")).otherwise(F.lit("in quarantine"))
    committed = F.coalesce(F.col("_offset") < F.col("end"), F.lit(False))
    return (
        F.when((rows > 0) & (refused > 0), F.lit("doubled: in the table and in quarantine"))
        .when(times > 1, F.concat(F.lit("doubled: "), times, F.lit(" times "), side))
        .when(~committed, F.concat(side, F.lit(", although no batch that is known brought it")))
        .when(~F.col("there") | ((rows == good) & (refused == bad)), F.lit(None))
        .when(times == 0, F.lit("lost: neither in the table nor in quarantine"))
        .when(
            good + bad == 0,
            F.concat(side, F.lit(", although the steps drop it or the topic lacks it")),
        )
        .when(rows > 0, F.lit("in the table, although it belongs into quarantine"))
        .otherwise(F.lit("in quarantine, although it belongs into the table"))
    )


def _counted(rows: DataFrame, name: str) -> DataFrame:
    return rows.groupBy(*PLACE).agg(F.count("*").alias(name))
