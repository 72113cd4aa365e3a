"""The data source against a real Apache Kafka: the same rows, the same delivery."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from tests.spark.apache_kafka import ApacheKafka
from tests.spark.conftest import create_topic, write_records

VALUES = [b"%d" % each for each in range(200)]


def test_topics_of_apache_kafka_are_read_and_written_exactly_once(
    spark: SparkSession, apache: ApacheKafka, tmp_path: Path
) -> None:
    bootstrap = apache.bootstrap
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
