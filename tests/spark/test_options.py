"""Options: the connector's names and meanings, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.model.ids import TopicPartition
from tidelog.spark import option_names
from tidelog.spark.client_settings import consumer_settings, producer_settings
from tidelog.spark.errors import OptionError
from tidelog.spark.options import batch_options, read_options, stream_options, write_options
from tidelog.spark.source.range_limits import Ago, At, Before, End, Offsets, duration_ms
from tidelog.spark.source.schema import read_schema

BASE = {"kafka.bootstrap.servers": "b:9092", "subscribe": "orders"}


def refusal(**options: str) -> str:
    with pytest.raises(OptionError) as caught:
        batch_options({**BASE, **{key.replace("__", "."): text for key, text in options.items()}})
    return str(caught.value)


def test_a_job_of_the_connector_needs_no_other_options() -> None:
    options = stream_options(
        {
            **BASE,
            "startingoffsets": '{"orders":{"0":5,"1":-2}}',
            "failondataloss": "false",
            "maxoffsetspertrigger": "1000",
            "minpartitions": "8",
            "includeheaders": "true",
            "kafka.max.poll.records": "500",
            "kafka.request.timeout.ms": "9000",
        }
    )
    expected = {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): -2}
    assert options.start == Offsets(expected)
    assert (options.fail_on_data_loss, options.max_offsets_per_trigger) == (False, 1000)
    settings = consumer_settings(options)
    assert settings["socket.timeout.ms"] == "9000"
    assert "max.poll.records" not in settings


def test_how_long_to_wait_for_brokers_is_said_as_to_the_java_client() -> None:
    reading = {**BASE, "kafka.Default.API.timeout.ms": "700"}
    assert read_options(reading).api_timeout_ms == 700
    assert read_options(BASE).api_timeout_ms == 60_000
    writing = {"kafka.bootstrap.servers": "b:1", "topic": "t"}
    assert (
        write_options({**writing, "kafka.max.block.ms": "800"}, streaming=True).max_block_ms == 800
    )
    assert write_options(writing, streaming=True).max_block_ms == 30_000
    with pytest.raises(OptionError, match=r"kafka.default.api.timeout.ms is a number from 1 on"):
        read_options({**BASE, "kafka.default.api.timeout.ms": "soon"})


def test_bootstrap_servers_may_be_given_without_the_prefix() -> None:
    options = read_options({"bootstrap.servers": "b:1", "subscribe": "orders"})
    assert options.bootstrap == "b:1"


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", End(-2)),
        ("-100", Before(100)),
        ("-10 minutes", Ago(600_000)),
        ("-1h", Ago(3_600_000)),
    ],
)
def test_starting_offsets_know_ends_and_relative_starts(text: str, position: object) -> None:
    assert read_options({**BASE, "startingOffsets": text}).start == position


def test_timestamps_are_for_all_partitions_or_for_each() -> None:
    assert read_options({**BASE, "startingTimestamp": "17"}).start == At(17, {})
    each = read_options({**BASE, "startingOffsetsByTimestamp": '{"orders":{"0":17}}'}).start
    assert each == At(None, {TopicPartition("orders", 0): 17})


def test_only_committed_records_are_read_unless_asked_otherwise() -> None:
    assert consumer_settings(read_options(BASE))["isolation.level"] == "read_committed"
    options = read_options({**BASE, "kafka.isolation.level": "read_uncommitted"})
    assert consumer_settings(options)["isolation.level"] == "read_uncommitted"
    assert not options.committed_only


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"assign": '{"orders":[0]}'}, "keep one of them"),
        ({"startingOffsets": "latest"}, "start at earliest"),
        ({"endingOffsets": "earliest"}, "reads nothing"),
        ({"startingOffsets": "soon"}, "earliest, latest or"),
        ({"startingOffsets": "-10 parsecs"}, "10 minutes"),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, "keep one of them"),
        ({"maxOffsetsPerTrigger": "5"}, "leave it out"),
        ({"minPartitions": "none"}, "a number from 1 on"),
        ({"failOnDataLoss": "maybe"}, "true, false"),
        ({"kafka__auto.offset.reset": "latest"}, "startingOffsets"),
        ({"kafka__enable.auto.commit": "true"}, "commitGroup"),
        ({"kafka__group.id": "g", "groupIdPrefix": "p"}, "keep one"),
        ({"bootstrap__servers": "other:1"}, "leave one of them out"),
    ],
)
def test_wrong_options_are_refused_with_the_fix(options: dict[str, str], fix: str) -> None:
    assert fix in refusal(**options)


def test_a_query_without_a_topic_or_a_broker_is_refused() -> None:
    with pytest.raises(OptionError, match="set subscribe"):
        read_options({"kafka.bootstrap.servers": "b:1"})
    with pytest.raises(OptionError, match=r"set kafka\.bootstrap\.servers"):
        read_options({"subscribe": "orders"})


def test_columns_choose_what_is_read() -> None:
    options = read_options({**BASE, "columns": "offset, value"})
    assert read_schema(options).fieldNames() == ["offset", "value"]
    with pytest.raises(OptionError, match="there is no column price"):
        read_schema(read_options({**BASE, "columns": "price"}))


def test_a_stream_may_end_but_not_where_it_begins() -> None:
    assert stream_options({**BASE, "endingTimestamp": "5"}).end == At(5, {})
    with pytest.raises(OptionError, match="ends at earliest reads nothing"):
        stream_options({**BASE, "endingOffsets": "earliest"})


def test_a_stream_is_delivered_exactly_once_unless_asked_otherwise() -> None:
    target = {"kafka.bootstrap.servers": "b:1", "topic": "out"}
    assert write_options(target, streaming=True).exactly_once
    assert not write_options({**target, "delivery": "at-least-once"}, streaming=True).exactly_once
    assert not write_options(target, streaming=False).exactly_once
    with pytest.raises(OptionError, match="needs a streaming query"):
        write_options({**target, "delivery": "exactly-once"}, streaming=False)


def test_a_stream_is_not_delivered_exactly_once_where_our_own_client_cannot_log_in() -> None:
    target = {
        "kafka.bootstrap.servers": "b:1",
        "topic": "out",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "sesame",
    }
    assert write_options(target, streaming=True).exactly_once
    target["kafka.sasl.mechanism"] = "GSSAPI"
    with pytest.raises(OptionError, match="delivery=exactly-once cannot log in"):
        write_options(target, streaming=True)
    weak = {**target, "delivery": "at-least-once"}
    assert not write_options(weak, streaming=True).exactly_once


def test_the_sink_is_idempotent_and_waits_for_all_replicas_whatever_is_set() -> None:
    target = {"kafka.bootstrap.servers": "b:1", "topic": "out"}
    settings = producer_settings(write_options(target, streaming=False))
    assert (settings["acks"], settings["enable.idempotence"]) == ("all", True)
    with pytest.raises(OptionError, match="acks"):
        write_options({**target, "kafka.acks": "1"}, streaming=False)


def test_every_option_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    spark_reads_it = {"checkpointLocation", "queryName"}
    names = {*option_names.READ, *option_names.WRITE} - spark_reads_it
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("text", "expected_ms"), [("15m", 900_000), ("1.5 hours", 5_400_000), ("20ms", 20)]
)
def test_durations_have_units(text: str, expected_ms: int) -> None:
    assert duration_ms("maxTriggerDelay", text) == expected_ms
