"""Which value of a setting counts, and how it is described."""

from __future__ import annotations

import pytest

from tidelog.model.config import BROKER_SETTINGS, TOPIC_SETTINGS, NodeConfig
from tidelog.model.errors import ConfigError
from tidelog.model.settings.describe import (
    ConfigEntry,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from tidelog.model.settings.effective import (
    ConfigSource,
    ConfigSynonym,
    effective_topic_settings,
)
from tidelog.model.settings.reference import (
    broker_reference,
    refused_reference,
    topic_reference,
    without_effect_reference,
)
from tidelog.model.settings.setting import ConfigType
from tidelog.model.settings.without_effect import REFUSED, WITHOUT_EFFECT

HOUR_MS = 3_600_000


def node(**given: str) -> NodeConfig:
    return NodeConfig.from_properties(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:9093",
            "log.dirs": "data",
        }
        | {name.replace("_", "."): text for name, text in given.items()}
    )


def entry(entries: list[ConfigEntry], name: str) -> ConfigEntry:
    return next(found for found in entries if found.name == name)


def test_a_topic_without_settings_has_kafkas_defaults() -> None:
    settings = effective_topic_settings({}, {}, {}, node())

    for setting, value in settings.items():
        assert value == setting.default


def test_the_strongest_place_that_names_a_key_counts() -> None:
    key = "log.segment.bytes"
    config = node(log_segment_bytes="2000000")

    def segment_bytes(*places: dict[str, str]) -> int:
        topic, cluster, broker = places
        return effective_topic_settings(topic, cluster, broker, config).segment_bytes

    assert segment_bytes({}, {}, {}) == 2_000_000
    assert segment_bytes({}, {key: "3000000"}, {}) == 3_000_000
    assert segment_bytes({}, {key: "3000000"}, {key: "4000000"}) == 4_000_000
    assert segment_bytes({"segment.bytes": "5000000"}, {key: "3000000"}, {}) == 5_000_000


def test_retention_counts_milliseconds_before_minutes_before_hours() -> None:
    def retention_ms(**given: str) -> int:
        return effective_topic_settings({}, {}, {}, node(**given)).retention_ms

    assert retention_ms(log_retention_hours="2") == 2 * HOUR_MS
    assert retention_ms(log_retention_hours="2", log_retention_minutes="3") == 180_000
    assert retention_ms(log_retention_minutes="3", log_retention_ms="5") == 5
    assert retention_ms(log_retention_hours="-1") == -1
    assert retention_ms(log_retention_ms="-1") == -1


def test_rolling_counts_milliseconds_before_hours() -> None:
    settings = effective_topic_settings({}, {}, {}, node(log_roll_hours="1"))
    dynamic = effective_topic_settings({}, {"log.roll.ms": "7"}, {}, node(log_roll_hours="1"))

    assert settings.segment_ms == HOUR_MS
    assert dynamic.segment_ms == 7


def test_a_stored_value_this_node_cannot_read_is_passed_over() -> None:
    settings = effective_topic_settings(
        {"segment.bytes": "huge", "unheard.of": "1"},
        {"log.segment.bytes": "14"},
        {},
        node(log_segment_bytes="2000000"),
    )

    assert settings.segment_bytes == 2_000_000


def test_compaction_lags_must_not_cross() -> None:
    settings = effective_topic_settings({"min.compaction.lag.ms": "9"}, {}, {}, node())
    crossed = effective_topic_settings(
        {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, {}, {}, node()
    )

    settings.check_together()
    with pytest.raises(ConfigError, match=r"max\.compaction\.lag\.ms"):
        crossed.check_together()


def test_a_described_topic_names_every_place_that_has_a_value() -> None:
    entries = describe_topic(
        {"min.insync.replicas": "3"},
        {"min.insync.replicas": "2"},
        {},
        node(min_insync_replicas="4"),
    )

    assert [found.name for found in entries] == sorted(TOPIC_SETTINGS)
    assert entry(entries, "min.insync.replicas") == ConfigEntry(
        name="min.insync.replicas",
        value="3",
        source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
        synonyms=(
            ConfigSynonym("min.insync.replicas", "3", ConfigSource.DYNAMIC_TOPIC_CONFIG),
            ConfigSynonym("min.insync.replicas", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            ConfigSynonym("min.insync.replicas", "4", ConfigSource.STATIC_BROKER_CONFIG),
            ConfigSynonym("min.insync.replicas", "1", ConfigSource.DEFAULT_CONFIG),
        ),
        type=ConfigType.INT,
        doc=TOPIC_SETTINGS["min.insync.replicas"].doc,
        read_only=False,
        sensitive=False,
    )


def test_a_described_topic_value_is_in_the_unit_of_its_own_key() -> None:
    retention = entry(describe_topic({}, {}, {}, node(log_retention_hours="2")), "retention.ms")

    assert retention.value == str(2 * HOUR_MS)
    assert retention.source is ConfigSource.STATIC_BROKER_CONFIG
    assert retention.synonyms[0] == ConfigSynonym(
        "log.retention.hours", "2", ConfigSource.STATIC_BROKER_CONFIG
    )


def test_a_topic_key_without_broker_key_is_a_plain_default() -> None:
    throttled = entry(describe_topic({}, {}, {}, node()), "leader.replication.throttled.replicas")

    assert throttled.value == ""
    assert throttled.source is ConfigSource.DEFAULT_CONFIG
    assert throttled.synonyms == ()


def test_a_described_broker_tells_which_settings_can_change() -> None:
    entries = describe_broker({"message.max.bytes": "5"}, {}, node())

    shown = {name for name, setting in BROKER_SETTINGS.items() if not setting.hidden}
    assert [found.name for found in entries] == sorted(shown)
    assert entry(entries, "num.io.threads").value == "8"
    assert entry(entries, "message.max.bytes").value == "5"
    assert not entry(entries, "message.max.bytes").read_only
    assert entry(entries, "node.id").read_only
    assert entry(entries, "node.id").value == "1"
    assert entry(entries, "broker.rack").value is None


def test_a_setting_that_kafka_hides_is_shown_where_it_is_set() -> None:
    rate = "leader.replication.throttled.rate"
    assert rate not in [found.name for found in describe_broker({}, {}, node())]
    assert entry(describe_broker({}, {rate: "1000"}, node()), rate).value == "1000"


def test_the_cluster_default_describes_only_what_was_set() -> None:
    entries = describe_cluster_default({"message.max.bytes": "5", "unheard.of": "1"})

    assert [(found.name, found.value, found.source) for found in entries] == [
        ("message.max.bytes", "5", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    ]


def test_the_reference_has_a_row_for_every_setting() -> None:
    topics, brokers = topic_reference(), broker_reference()

    assert len(topics.splitlines()) == 2 + len(TOPIC_SETTINGS)
    assert len(brokers.splitlines()) == 2 + len(NodeConfig.known())
    assert len(without_effect_reference().splitlines()) == 2 + len(WITHOUT_EFFECT)
    assert len(refused_reference().splitlines()) == 2 + len(REFUSED)
    assert "| `replica.lag.time.max.ms` | long | `30000` | at least 1 | read-only |" in brokers
    assert "| `segment.ms` | long | `604800000` | at least 1 | `log.roll.ms`, " in topics
