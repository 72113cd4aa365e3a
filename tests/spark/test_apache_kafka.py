"""The data source against a real Apache Kafka: the same rows, the same delivery."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.apache_kafka import apache_kafka
from tests.spark.conftest import create_topic, write_records

VALUES = [b"%d" % each for each in range(200)]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apache_kafka(tmp_path_factory.mktemp("apache")) as running:
        yield running


def test_topics_of_apache_kafka_are_read_and_written_exactly_once(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    for name in ("source", "target"):
        create_topic(bootstrap, name, 2, 1)
    write_records(bootstrap, "source", VALUES)
    options = {"kafka.bootstrap.servers": bootstrap}
    ours, theirs = (
        spark.read.format(kind).options(**options, subscribe="source").load().collect()
        for kind in ("tidelog", "kafka")
    )
    assert sorted(ours) == sorted(theirs)
    records = spark.readStream.format("tidelog").options(
        **options, subscribe="source", startingOffsets="earliest", maxOffsetsPerTrigger="120"
    )
    query = (
        records.load()
        .select("value")
        .writeStream.format("tidelog")
        .options(**options, topic="target", checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    target = spark.read.format("tidelog").options(**options, subscribe="target", columns="value")
    assert sorted(row.value for row in target.load().collect()) == sorted(VALUES)
