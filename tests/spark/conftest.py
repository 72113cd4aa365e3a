"""Clusters and topics for the tests of a module, and one Spark session for all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from tests.spark.apache_kafka import ApacheKafka, apache_kafka

from tidelog.testing.cluster import Cluster

ROOT = Path(__file__).parents[2]
CONNECTOR = ROOT / ".cache" / "java" / "spark-connector"

MakeTopic = Callable[..., str]
Write = Callable[..., None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's Python and its JVM talk through sockets that stay open until the JVM ends."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers that offer two-phase commit."""
    settings = {"transaction.two.phase.commit.enable": "true"}
    directory = tmp_path_factory.mktemp("cluster")
    with Cluster(directory, brokers=3, settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def bootstrap(cluster: Cluster) -> str:
    return cluster.bootstrap


@pytest.fixture(scope="session")
def spark(connector: None) -> Iterator[SparkSession]:
    """A small local Spark with Spark's own connector beside ours; it starts once."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tidelog-tests")
        .config("spark.jars", ",".join(map(str, sorted(CONNECTOR.glob("*.jar")))))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.task.maxFailures", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """A real Apache Kafka broker, as judge; it starts once."""
    with apache_kafka(tmp_path_factory.mktemp("apache")) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own."""
    name = str(request.node.name)
    return name.replace("[", ".").replace("]", "").removeprefix("test_")[:200]


def create_topic(
    bootstrap: str, name: str, partitions: int = 2, replicas: int = -1, **configs: str
) -> str:
    settings = {key.replace("_", "."): text for key, text in configs.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = NewTopic(name, partitions, replicas, config=settings)
    admin.create_topics([wanted])[name].result()
    return name


def write_records(
    bootstrap: str, topic: str, values: Sequence[bytes | None], **more: object
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 5})
    for value in values:
        producer.produce(topic, value, **more)
    assert producer.flush(30) == 0


@pytest.fixture
def make_topic(bootstrap: str, topic: str) -> MakeTopic:
    """Creates a topic of the test's name, or of a given one."""

    def make(name: str = topic, partitions: int = 2, replicas: int = 3, **configs: str) -> str:
        return create_topic(bootstrap, name, partitions, replicas, **configs)

    return make


@pytest.fixture
def write(bootstrap: str) -> Write:
    """Writes values to a topic."""

    def write_values(topic: str, values: Sequence[bytes | None], **more: object) -> None:
        write_records(bootstrap, topic, values, **more)

    return write_values


@pytest.fixture(scope="session")
def connector() -> None:
    """Spark's own connector, fetched once."""
    if not any(CONNECTOR.glob("spark-sql-kafka*.jar")):
        subprocess.run(["make", "-s", "setup-java"], cwd=ROOT, check=True)
