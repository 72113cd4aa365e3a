"""Apache Kafka's own command-line tools, used on our broker and on our files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.resident import Resident

from tidelog.testing.cluster import Cluster

Java = Callable[..., str]
DUMP = "org.apache.kafka.tools.DumpLogSegments"
SHARE_GROUP = Path(__file__).parents[1] / "java" / "ShareGroup.java"
STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
JARS = Path(__file__).parents[2] / ".cache" / "java" / "tools"
TOPICS = "org.apache.kafka.tools.TopicCommand"
COMPLAINTS = ("mismatch", "Misordered", "not found", "isvalid: false", "Could not read", "corrupt")


def filled_topic(bootstrap: str, name: str) -> None:
    """A topic with many batches, several segments, every codec and idempotent producers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"segment.bytes": "1048576", "index.interval.bytes": "1000"}
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(20)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": codec != "gzip",
                "batch.num.messages": 50,
                "linger.ms": 20,
            }
        )
        for number in range(3000):
            producer.produce(name, b"%d " % number * 100, key=b"%d" % number)
        assert producer.flush(30) == 0


def data_of(cluster: Cluster, partition: str) -> Path:
    return cluster.data(100) / partition


def test_dump_log_segments_reads_our_segments_and_indexes_without_complaint(
    java: Java, cluster: Cluster, topic: str
) -> None:
    filled_topic(cluster.bootstrap, topic)
    directory = data_of(cluster, f"{topic}-0")
    logs = sorted(map(str, directory.glob("*.log")))
    indexes = sorted(map(str, [*directory.glob("*.index"), *directory.glob("*.timeindex")]))
    snapshots = sorted(map(str, directory.glob("*.snapshot")))
    assert len(logs) > 1 and len(snapshots) > 0
    dumped = java(DUMP, "--deep-iteration", "--files", ",".join(logs))
    assert dumped.count("producerId") > 100
    assert "baseOffset: 0 " in dumped and "isvalid: true" in dumped
    checked = java(DUMP, "--index-sanity-check", "--files", ",".join(indexes))
    verified = java(DUMP, "--verify-index-only", "--files", ",".join(indexes))
    states = java(DUMP, "--files", ",".join(snapshots))
    assert "producerId" in states
    for said in (dumped, checked, verified, states):
        assert not [word for word in COMPLAINTS if word in said]


def test_dump_log_segments_decodes_our_metadata_log(
    java: Java, own_cluster: Cluster, topic: str
) -> None:
    admin = AdminClient({"bootstrap.servers": own_cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(20)
    directory = data_of(own_cluster, "__cluster_metadata-0")
    log = str(directory / "00000000000000000000.log")
    dumped = java(DUMP, "--cluster-metadata-decoder", "--files", log)
    for kind in ("LeaderChange", "FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD", "TOPIC_RECORD"):
        assert kind in dumped
    assert topic in dumped
    assert not [word for word in COMPLAINTS if word in dumped]
    for snapshot in (
        directory / "00000000000000000000-0000000000.checkpoint",
        directory.parent / "bootstrap.checkpoint",
    ):
        assert "Snapshot" in java(DUMP, "--cluster-metadata-decoder", "--files", str(snapshot))


def test_kafka_topics_creates_lists_describes_alters_and_deletes(
    java: Java, bootstrap: str, topic: str
) -> None:
    server = ("--bootstrap-server", bootstrap)
    java(
        TOPICS,
        *server,
        "--create",
        "--topic",
        topic,
        "--partitions",
        "2",
        "--config",
        "retention.ms=5000000",
    )
    assert topic in java(TOPICS, *server, "--list").split()
    described = java(TOPICS, *server, "--describe", "--topic", topic)
    assert "PartitionCount: 2" in described and "retention.ms=5000000" in described
    assert "Leader: 100" in described and "Isr: 100" in described
    java(TOPICS, *server, "--alter", "--topic", topic, "--partitions", "3")
    assert "PartitionCount: 3" in java(TOPICS, *server, "--describe", "--topic", topic)
    java(TOPICS, *server, "--delete", "--topic", topic)
    assert topic not in java(TOPICS, *server, "--list").split()


def test_kafka_configs_describes_and_alters(java: Java, bootstrap: str, topic: str) -> None:
    configs, server = "kafka.admin.ConfigCommand", ("--bootstrap-server", bootstrap)
    java(TOPICS, *server, "--create", "--topic", topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    java(configs, *server, *entity, "--alter", "--add-config", "max.message.bytes=2000000")
    assert "max.message.bytes=2000000" in java(configs, *server, *entity, "--describe")
    brokers = java(
        configs, *server, "--entity-type", "brokers", "--entity-name", "100", "--describe", "--all"
    )
    assert "log.dirs=" in brokers and "num.partitions=" in brokers


def test_kafka_metadata_quorum_and_features_describe_the_cluster(
    java: Java, bootstrap: str
) -> None:
    quorum = "org.apache.kafka.tools.MetadataQuorumCommand"
    status = java(quorum, "--bootstrap-server", bootstrap, "describe", "--status")
    assert "LeaderId:" in status and "100" in status and "HighWatermark:" in status
    assert "Leader" in java(quorum, "--bootstrap-server", bootstrap, "describe", "--replication")
    features = java(
        "org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", bootstrap, "describe"
    )
    rows = [line.split() for line in features.splitlines() if line.startswith("Feature:")]
    assert {row[1]: row[7] for row in rows} == {
        "eligible.leader.replicas.version": "1",
        "group.version": "1",
        "kraft.version": "1",
        "metadata.version": "4.3-IV0",
        "transaction.version": "2",
    }


def test_console_producer_consumer_and_offsets_work(
    java: Java, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    java(TOPICS, "--bootstrap-server", bootstrap, "--create", "--topic", topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(25):
        producer.produce(topic, b"line %d" % number)
    assert producer.flush(20) == 0
    read = java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap,
        "--topic", topic, "--partition", "0", "--offset", "5", "--max-messages", "20",
    )  # fmt: skip
    assert read.splitlines() == [f"line {number}" for number in range(5, 25)]
    offsets = java(
        "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", bootstrap, "--topic", topic
    )
    assert offsets.split() == [f"{topic}:0:25"]


def test_producer_performance_runs_to_its_end(java: Java, bootstrap: str, topic: str) -> None:
    java(TOPICS, "--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", "3")
    said = java(
        "org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", bootstrap,
        "--topic", topic,
        "--num-records", "20000", "--record-size", "500", "--throughput", "-1",
    )  # fmt: skip
    assert "20000 records sent" in said


def test_kafka_log_dirs_and_cluster_id(java: Java, bootstrap: str) -> None:
    directories = java(
        "org.apache.kafka.tools.LogDirsCommand", "--bootstrap-server", bootstrap, "--describe"
    )
    assert '"broker":100' in directories and '"error":null' in directories
    assert "Cluster ID:" in java(
        "org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", bootstrap
    )


def test_a_member_of_a_share_group_is_told_that_there_are_none(
    java: Java, cluster: Cluster, topic: str
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    assert java(str(SHARE_GROUP), cluster.bootstrap, topic, timeout_s=40) == "told\n"


def test_who_asks_for_a_streams_group_is_told_that_there_are_none(
    cluster: Cluster, resident: Resident
) -> None:
    asked = ("--bootstrap-server", cluster.bootstrap, "--describe", "--group", "streams")
    told = resident.run(JARS, STREAMS_GROUPS, *asked, timeout_s=40)
    assert "UnsupportedVersionException" in told.stdout + told.stderr
