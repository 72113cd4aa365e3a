"""Reading a range as an executor does: gaps, markers, aborted records, lost records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql.pandas.types import to_arrow_schema
from tests.integration.raw import until
from tests.spark.conftest import MakeTopic, Write, write_records

from tidelog.model.ids import TopicPartition
from tidelog.spark.errors import DataLoss, SourceError
from tidelog.spark.options import read_options
from tidelog.spark.source.offsets import Position
from tidelog.spark.source.range_reading import RangeReading, record_batches
from tidelog.spark.source.ranges import OffsetRange
from tidelog.spark.source.schema import read_schema
from tidelog.spark.source.topics import Topics
from tidelog.testing.cluster import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(settings={"log.cleaner.backoff.ms": "100"}) as running:
        yield running


def rows(
    bootstrap: str, topic: str, start: int, end: int, epoch: int = -1, **more: str
) -> list[dict[str, object]]:
    given = {key.replace("_", "."): text for key, text in more.items()}
    options = read_options(
        {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": topic,
            "includeHeaders": "true",
            **given,
        }
    )
    schema = to_arrow_schema(read_schema(options), timezone="UTC")
    wanted = OffsetRange(TopicPartition(topic, 0), start, end, epoch)
    return [row for batch in record_batches(options, wanted, schema) for row in batch.to_pylist()]


def values(found: list[dict[str, object]]) -> list[object]:
    return [row["value"] for row in found]


def test_a_range_gives_its_records_and_no_others(
    bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1, replicas=1)
    write(topic, [b"%d" % index for index in range(100)])
    found = rows(bootstrap, topic, 10, 20)
    assert values(found) == [b"%d" % index for index in range(10, 20)]
    assert [row["offset"] for row in found] == list(range(10, 20))
    assert rows(bootstrap, topic, 10, 20) == found, "a task that is run again reads the same"


def test_tombstones_and_headers_arrive_as_they_were_written(
    bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1, replicas=1)
    write(topic, [None], key=b"gone", headers=[("a", b"1"), ("b", None)])
    (row,) = rows(bootstrap, topic, 0, 1)
    assert (row["key"], row["value"], row["timestampType"]) == (b"gone", None, 0)
    assert row["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]


def transact(bootstrap: str, topic: str, batch: list[bytes], *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in batch:
        producer.produce(topic, value)
    producer.flush()
    producer.commit_transaction(30) if commit else producer.abort_transaction(30)


def test_markers_and_aborted_records_are_passed_over(
    bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1, replicas=1)
    transact(bootstrap, topic, [b"a", b"b"], commit=True)  # offsets 0, 1 and marker 2
    transact(bootstrap, topic, [b"never"], commit=False)  # offset 3 and marker 4
    write(topic, [b"c"])
    assert values(rows(bootstrap, topic, 0, 6)) == [b"a", b"b", b"c"]
    assert values(rows(bootstrap, topic, 2, 5)) == [], "a range may hold nothing to see"
    every = rows(bootstrap, topic, 0, 6, kafka_isolation_level="read_uncommitted")
    assert values(every) == [b"a", b"b", b"never", b"c"]


def test_a_range_ends_at_the_end_of_the_log_even_behind_a_marker(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1, replicas=1)
    transact(bootstrap, topic, [b"a"], commit=True)
    assert values(rows(bootstrap, topic, 0, 2)) == [b"a"]


def test_what_compaction_has_taken_out_is_passed_over(
    bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    # A segment ends only once its directory is durable: each write waits for that.
    compacted = {"cleanup_policy": "compact", "segment_ms": "1000", "flush_messages": "1",
                 "min_cleanable_dirty_ratio": "0.01"}  # fmt: skip
    topic = make_topic(partitions=1, replicas=1, **compacted)
    write(topic, [b"kept"], key=b"a", timestamp=1_000)
    write(topic, [b"%d" % index for index in range(1, 11)], key=b"b", timestamp=1_000)
    write(topic, [b"in a new segment"], key=b"c", timestamp=1_000_000)
    until(lambda: offsets(rows(bootstrap, topic, 0, 12)) == [0, 10, 11])
    assert offsets(rows(bootstrap, topic, 0, 5)) == [0], "the next record tells that all was read"
    assert rows(bootstrap, topic, 2, 9) == []
    assert values(rows(bootstrap, topic, 9, 11)) == [b"10"]


def offsets(found: list[dict[str, object]]) -> list[object]:
    return [row["offset"] for row in found]


def delete_below(bootstrap: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    where = ClientPartition(topic, 0, offset)
    admin.delete_records([where])[where].result()


def test_records_that_are_gone_are_data_loss(
    bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1, replicas=1)
    write(topic, [b"%d" % index for index in range(10)])
    delete_below(bootstrap, topic, 4)
    with pytest.raises(DataLoss, match=r"has offsets \[4, 10\), the query needs 2"):
        rows(bootstrap, topic, 2, 8)
    left = rows(bootstrap, topic, 2, 8, failOnDataLoss="false")
    assert values(left) == [b"4", b"5", b"6", b"7"]


def test_a_leader_that_ended_an_epoch_earlier_has_lost_records(topic: str) -> None:
    with Cluster(brokers=3) as cluster:
        bootstrap = cluster.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        wanted = NewTopic(topic, 1, replica_assignment=[[101, 102]], config=unclean)
        admin.create_topics([wanted])[topic].result()
        write_records(bootstrap, topic, [b"both"] * 5)
        cluster.kill(102)
        until(lambda: members(admin, topic) == (101, [101]))
        write_records(bootstrap, topic, [b"one alone"] * 5)
        options = read_options({"kafka.bootstrap.servers": bootstrap, "subscribe": topic})
        read = Topics(options).latest([TopicPartition(topic, 0)])
        assert read == {TopicPartition(topic, 0): Position(10, 0)}
        cluster.kill(101)
        cluster.start(102)
        until(lambda: members(admin, topic) == (102, [102]))
        write_records(bootstrap, topic, [b"%d" % index for index in range(5, 15)])
        with pytest.raises(DataLoss, match="truncated below offset 10"):
            rows(bootstrap, topic, 10, 15, epoch=0)
        left = rows(bootstrap, topic, 10, 15, epoch=0, failOnDataLoss="false")
        assert values(left) == [b"10", b"11", b"12", b"13", b"14"]


def test_a_leader_that_dies_within_a_range_is_replaced_by_the_next(topic: str) -> None:
    with Cluster(brokers=3) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        wanted = NewTopic(topic, 1, replica_assignment=[[101, 102, 100]])
        admin.create_topics([wanted])[topic].result()
        sent = [b"%0200d" % index for index in range(20_000)]
        write_records(cluster.bootstrap, topic, sent)
        small = {"queued.max.messages.kbytes": "64", "fetch.message.max.bytes": "65536",
                 "fetch.max.bytes": "65536", "message.max.bytes": "65536"}  # fmt: skip
        options = read_options(
            {
                "kafka.bootstrap.servers": cluster.bootstrap,
                "subscribe": topic,
                "columns": "value",
                **{f"kafka.{name}": text for name, text in small.items()},
            }
        )
        schema = to_arrow_schema(read_schema(options), timezone="UTC")
        wanted_range = OffsetRange(TopicPartition(topic, 0), 0, len(sent))
        batches = record_batches(options, wanted_range, schema)
        found = next(batches).column(0).to_pylist()
        assert len(found) < len(sent) // 2, "most of it is still to be read"
        cluster.kill(101)
        for batch in batches:
            found += batch.column(0).to_pylist()
        assert found == sent


def members(admin: AdminClient, topic: str) -> tuple[int, list[int]]:
    partition = admin.list_topics(topic).topics[topic].partitions[0]
    return partition.leader, partition.isrs


def test_silence_is_an_error_that_names_the_range(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1, replicas=1)
    with pytest.raises(SourceError, match=r"nothing came from offset 0 on for 0\.2 s"):
        rows(bootstrap, topic, 0, 5, kafkaConsumer_pollTimeoutMs="200")


class TruncatedLog:
    """A consumer whose leader lost records after offset 11: 10 and 11 come with the error."""

    def __init__(self, _: object) -> None:
        self.offset = 0
        self.told = False

    def assign(self, partitions: list[ClientPartition]) -> None:
        self.offset = partitions[0].offset

    def consume(self, count: int, _: float) -> list[Message]:
        last = self.offset + (count if self.told else 2)
        found = [message(offset=each) for each in range(self.offset, last)]
        self.offset = last
        if not self.told:
            self.told = True
            found.append(message(offset=last, error=KafkaError(KafkaError._LOG_TRUNCATION)))
        return found

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        return 0, 20

    def close(self) -> None: ...


def message(**more: object) -> Message:
    return Message(topic="orders", partition=0, **more)


def test_what_came_before_a_truncation_is_read_once() -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
    options = read_options({**given, "failOnDataLoss": "false"})
    wanted = OffsetRange(TopicPartition("orders", 0), 10, 15)
    lists = RangeReading(options, wanted, TruncatedLog).messages()
    assert [each.offset() for some in lists for each in some] == [10, 11, 12, 13, 14]
