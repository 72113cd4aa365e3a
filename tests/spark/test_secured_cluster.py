"""The data source on a cluster that asks everybody who he is."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from tidelog.model.settings.properties import parse_properties
from tidelog.security.jaas import parse_jaas
from tidelog.testing.cluster import Cluster

VALUES = [b"%d" % each for each in range(200)]


def test_topics_of_a_secured_cluster_are_read_and_written_exactly_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Cluster(tmp_path / "cluster", secure=True) as cluster:
        properties = parse_properties(cluster.client_properties.read_text())
        login = parse_jaas("x", "SCRAM-SHA-512", properties["sasl.jaas.config"]).login
        assert login is not None
        client = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": login[0],
            "sasl.password": login[1],
            "ssl.ca.location": str(cluster.local.keys.trusted),
        }
        names = ("source", "target")
        admin = AdminClient(client)
        made = admin.create_topics([NewTopic(name, 2, 1) for name in names])
        for each in made.values():
            each.result(30)
        producer = Producer(client)
        for value in VALUES:
            producer.produce("source", value)
        assert producer.flush(30) == 0
        options = {f"kafka.{key}": text for key, text in client.items()}
        records = spark.readStream.format("tidelog").options(
            **options, subscribe="source", startingOffsets="earliest", maxOffsetsPerTrigger="120"
        )
        query = (
            records.load()
            .select("value")
            .writeStream.format("tidelog")
            .options(**options, topic="target", checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        target = spark.read.format("tidelog").options(
            **options, subscribe="target", columns="value"
        )
        assert sorted(row.value for row in target.load().collect()) == sorted(VALUES)
