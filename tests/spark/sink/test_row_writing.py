"""Writing rows as an executor does: what is said when they cannot be written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from tests.spark.conftest import create_topic

from tidelog.client.blocking import Client
from tidelog.client.consumer import Consumer
from tidelog.client.offsets import EARLIEST, find_offsets
from tidelog.client.partitioner import partition_for_key
from tidelog.spark.client_settings import producer_settings
from tidelog.spark.errors import OptionError, SinkError
from tidelog.spark.options import write_options
from tidelog.spark.sink.row_writing import RowWriting
from tidelog.spark.sink.rows import Message, Rows
from tidelog.testing.cluster import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(settings={"auto.create.topics.enable": "false"}) as running:
        yield running


def write(bootstrap: str, topic: str, *messages: Message, **more: str) -> None:
    given = {f"kafka.{key.replace('_', '.')}": text for key, text in more.items()}
    options = write_options({"kafka.bootstrap.servers": bootstrap, **given}, streaming=False)
    writing = RowWriting(producer_settings(options), options.max_block_ms)
    writing.write([Rows(topic, list(messages), sum(len(each) for each in messages))])
    writing.finish()
    assert writing.count == len(messages)


def test_records_go_to_the_partitions_that_rows_name(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 3, 1)
    for partition in range(3):
        write(bootstrap, topic, *[{"value": b"%d" % partition, "partition": partition}] * 5)
    with_header = {"value": b"2", "partition": 2, "headers": [("h", b"x")]}
    write(bootstrap, topic, with_header, {"value": b"anywhere"})
    found = placed(bootstrap, topic)
    for partition, count in enumerate((5, 5, 6)):
        assert found[partition, b"%d" % partition] == count
    assert sum(count for (_, value), count in found.items() if value == b"anywhere") == 1
    assert found.total() == 17


def test_a_key_leads_to_the_partition_where_every_client_puts_it(
    bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 3, 1)
    keys = [b"key-%d" % index for index in range(50)]
    write(bootstrap, topic, *[{"key": key, "value": key} for key in keys])
    expected = Counter((partition_for_key(key, 3), key) for key in keys)
    assert placed(bootstrap, topic) == expected


def placed(bootstrap: str, topic: str) -> Counter[tuple[int, bytes | None]]:
    """How often each value is in each partition."""
    with Client(bootstrap) as client:
        starts = find_offsets(client, topic, dict.fromkeys(range(3), EARLIEST))
        found = Consumer(client, topic, starts).until_end()
        return Counter((each.partition, each.record.value) for each in found)


def test_brokers_that_do_not_answer_are_named() -> None:
    with pytest.raises(SinkError, match=r"no broker answers at 127\.0\.0\.1:1: check"):
        write("127.0.0.1:1", "orders", {"value": b"x"}, max_block_ms="100")


def test_a_topic_that_is_not_there_is_named_with_the_record(bootstrap: str) -> None:
    hurry = {"topic_metadata_propagation_max_ms": "100"}
    expected = (
        r"key b'k', 2 bytes, was not written to nowhere: .* create it with "
        "`tidelog topics create nowhere`"
    )
    with pytest.raises(SinkError, match=expected):
        write(bootstrap, "nowhere", {"value": b"x", "key": b"k"}, **hurry)


def test_a_partition_that_is_not_there_is_named_with_the_record(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 3, 1)
    expected = (
        rf"value b'x', 1 bytes, was not written .* {topic} has 3 partitions, from 0 to 2; "
        "there is no partition 7"
    )
    with pytest.raises(SinkError, match=expected):
        write(bootstrap, topic, {"value": b"x", "partition": 7})


def test_settings_that_librdkafka_does_not_know_are_refused() -> None:
    with pytest.raises(OptionError, match="No such configuration property"):
        write("127.0.0.1:1", "orders", {"value": b"x"}, made_up="1")
