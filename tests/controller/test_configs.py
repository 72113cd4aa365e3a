"""Changes of dynamic settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.controller.configs import ConfigChange, ConfigOp, ResourceChange
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import (
    ClearElrRecord,
    ConfigRecord,
)

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster

TOPIC, BROKER = 2, 4


def set_to(name: str, value: str | None) -> ConfigChange:
    return ConfigChange(name, ConfigOp.SET, value)


def on_topic(*changes: ConfigChange, topic: str = "orders") -> ResourceChange:
    return ResourceChange(TOPIC, topic, changes)


def on_broker(*changes: ConfigChange, broker: str = "") -> ResourceChange:
    return ResourceChange(BROKER, broker, changes)


def alter(cluster: Cluster, asked: ResourceChange) -> Refusal | None:
    [(resource, refusal)] = cluster.do(cluster.controller.incremental_alter_configs([asked]))
    assert resource == asked.resource
    return refusal


def refused(cluster: Cluster, asked: ResourceChange) -> Refusal:
    offset = cluster.next_offset
    refusal = alter(cluster, asked)
    assert refusal is not None
    assert cluster.next_offset == offset
    return refusal


@pytest.fixture
def topic_config(cluster: Cluster) -> dict[str, str]:
    cluster.create("orders", (100, 101), configs={"retention.ms": "5", "segment.ms": "7"})
    return cluster.image.configs[TOPIC, "orders"]


def test_settings_are_set_and_deleted_one_by_one(
    cluster: Cluster, topic_config: dict[str, str]
) -> None:
    asked = on_topic(set_to("flush.ms", "9"), ConfigChange("retention.ms", ConfigOp.DELETE))

    assert alter(cluster, asked) is None
    assert topic_config == {"segment.ms": "7", "flush.ms": "9"}


@pytest.mark.usefixtures("topic_config")
def test_what_stays_the_same_is_not_written(cluster: Cluster) -> None:
    asked = on_topic(set_to("retention.ms", "5"), ConfigChange("flush.ms", ConfigOp.DELETE))
    decision = cluster.controller.incremental_alter_configs([asked])

    assert decision.records == ()


def test_a_brokers_setting_is_written_even_when_it_stays(cluster: Cluster) -> None:
    asked = on_broker(set_to("message.max.bytes", "5"))
    alter(cluster, asked)
    decision = cluster.controller.incremental_alter_configs([asked])

    assert decision.records == (
        ConfigRecord(resource_type=BROKER, resource_name="", name="message.max.bytes", value="5"),
    )


def test_lists_are_appended_to_and_subtracted_from(
    cluster: Cluster, topic_config: dict[str, str]
) -> None:
    add = ConfigChange("cleanup.policy", ConfigOp.APPEND, "compact,delete")
    take = ConfigChange("cleanup.policy", ConfigOp.SUBTRACT, "delete")

    assert alter(cluster, on_topic(add)) is None
    assert topic_config["cleanup.policy"] == "delete,compact"
    assert alter(cluster, on_topic(take)) is None
    assert topic_config["cleanup.policy"] == "compact"


@pytest.mark.usefixtures("topic_config")
def test_only_lists_can_be_appended_to(cluster: Cluster) -> None:
    refusal = refused(cluster, on_topic(ConfigChange("retention.ms", ConfigOp.APPEND, "1")))

    assert refusal.code is ErrorCode.invalid_config
    assert refusal.why == "Can't APPEND to key retention.ms because its type is not LIST."


def test_the_old_api_replaces_everything(cluster: Cluster, topic_config: dict[str, str]) -> None:
    [(_, refusal)] = cluster.do(
        cluster.controller.alter_configs([on_topic(set_to("segment.ms", "8"))])
    )

    assert refusal is None
    assert topic_config == {"segment.ms": "8"}


def test_the_old_api_with_nothing_resets_everything(
    cluster: Cluster, topic_config: dict[str, str]
) -> None:
    assert topic_config
    cluster.do(cluster.controller.alter_configs([on_topic()]))

    assert not cluster.image.config(TOPIC, "orders")


def test_validation_alone_writes_nothing(cluster: Cluster, topic_config: dict[str, str]) -> None:
    for alters in (
        cluster.controller.incremental_alter_configs,
        cluster.controller.alter_configs,
    ):
        decision = alters([on_topic(set_to("flush.ms", "9"))], validate_only=True)
        assert decision.records == ()
        assert decision.reply == [((TOPIC, "orders"), None)]
    assert "flush.ms" not in topic_config


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (set_to("retentoin.ms", "1"), 40, "Unknown topic config name: retentoin.ms; did you mean"),
        (
            set_to("retention.ms", "x"),
            40,
            "Invalid value x for configuration retention.ms: ",
        ),
        (set_to("retention.ms", None), 42, "Null value not supported for : retention.ms"),
        (set_to("min.compaction.lag.ms", str(2**63 - 1)), None, ""),
        (set_to("segment.bytes", "14"), 40, "at least 1048576"),
        (ConfigChange("flush.ms", 9, "1"), 42, "Unknown operation 9"),
        (
            set_to("leader.replication.throttled.replicas", ",".join(["0:1"] * 9000)),
            40,
            "longer than 32767 bytes",
        ),
    ],
)
@pytest.mark.usefixtures("topic_config")
def test_topic_settings_are_checked(
    cluster: Cluster, change: ConfigChange, code: int | None, words: str
) -> None:
    refusal = alter(cluster, on_topic(change))

    assert (refusal.code if refusal else None) == code
    assert words in (refusal.why if refusal else "")


@pytest.mark.usefixtures("topic_config")
def test_settings_are_checked_together_with_those_that_stay(cluster: Cluster) -> None:
    assert alter(cluster, on_topic(set_to("max.compaction.lag.ms", "5"))) is None

    refusal = refused(cluster, on_topic(set_to("min.compaction.lag.ms", "6")))
    assert refusal.code is ErrorCode.invalid_config
    assert "must not exceed" in refusal.why


def test_a_change_is_taken_whole_or_not_at_all(
    cluster: Cluster, topic_config: dict[str, str]
) -> None:
    before = dict(topic_config)

    refused(cluster, on_topic(set_to("flush.ms", "9"), set_to("segment.ms", "x")))

    assert topic_config == before


@pytest.mark.usefixtures("topic_config")
def test_one_bad_resource_does_not_stand_in_the_way_of_the_others(cluster: Cluster) -> None:
    reply = cluster.do(
        cluster.controller.incremental_alter_configs(
            [
                on_topic(set_to("flush.ms", "x")),
                on_broker(set_to("message.max.bytes", "5")),
            ]
        )
    )

    assert [refusal is None for _, refusal in reply] == [False, True]
    assert cluster.image.config(BROKER, "") == {
        "message.max.bytes": "5",
        "min.insync.replicas": "1",
    }


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (on_topic(set_to("flush.ms", "1"), topic="nobody"), ErrorCode.unknown_topic_or_partition),
        (on_broker(broker="x"), ErrorCode.invalid_request),
        (on_broker(broker="7"), ErrorCode.broker_id_not_registered),
        (ResourceChange(8, "100", ()), ErrorCode.invalid_request),
        (on_broker(set_to("a", "1"), set_to("a", "2")), ErrorCode.invalid_request),
    ],
)
def test_the_resource_must_exist_and_be_clear(
    cluster: Cluster, asked: ResourceChange, code: ErrorCode
) -> None:
    assert refused(cluster, asked).code is code


def test_a_resource_named_twice_is_refused_both_times(cluster: Cluster) -> None:
    asked = on_broker(set_to("message.max.bytes", "5"))
    decision = cluster.controller.incremental_alter_configs([asked, asked])

    assert decision.records == ()
    assert all(refusal for _, refusal in decision.reply)


@pytest.mark.parametrize(
    ("broker", "change", "code", "words"),
    [
        ("100", set_to("node.id", "5"), 42, "Cannot update these configs dynamically: [node.id]"),
        ("", set_to("node.id", "5"), 42, "it is read when a broker starts"),
        ("", set_to("cordoned.log.dirs", "*"), 42, "broker id must be specified"),
        ("", set_to("ssl.keystore.location", "x"), 42, "it is read when a broker starts"),
        ("", set_to("num.io.threads", "0"), 42, "Invalid value 0 for configuration num.io.threads"),
        ("", set_to("group.consumer.assignment.interval.ms", "15001"), 42, "must not exceed"),
        ("", set_to("message.max.bites", "5"), 40, "did you mean message.max.bytes?"),
        ("100", set_to("message.max.bytes", "x"), 42, "must be a whole number"),
        ("100", set_to("min.insync.replicas", "2"), 40, "no broker has a min.insync.replicas"),
        ("", ConfigChange("min.insync.replicas", ConfigOp.DELETE), 40, "the cluster must have"),
    ],
)
def test_broker_settings_are_checked(
    cluster: Cluster, broker: str, change: ConfigChange, code: int, words: str
) -> None:
    refusal = refused(cluster, on_broker(change, broker=broker))

    assert refusal.code == code
    assert words in refusal.why


@pytest.mark.parametrize("broker", ["", "100"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("background.threads", "8"),
        ("follower.replication.throttled.rate", "1000"),
        ("group.consumer.assignment.interval.ms", "2000"),
        ("leader.replication.throttled.rate", "1000"),
        ("log.cleaner.threads", "2"),
        ("max.connections", "100"),
        ("num.io.threads", "4"),
        ("num.network.threads", "4"),
        ("num.replica.fetchers", "2"),
        ("producer.id.expiration.ms", "100000"),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "1000"),
    ],
)
def test_what_kafka_changes_while_brokers_run_can_be_changed(
    cluster: Cluster, broker: str, name: str, text: str
) -> None:
    assert alter(cluster, on_broker(set_to(name, text), broker=broker)) is None
    assert cluster.image.config(BROKER, broker)[name] == text


def test_what_was_never_set_can_be_taken_back(cluster: Cluster) -> None:
    for name in ("no.such.key", "num.io.threads", "node.id"):
        assert alter(cluster, on_broker(ConfigChange(name, ConfigOp.DELETE))) is None


def test_settings_reach_one_broker_or_all(cluster: Cluster) -> None:
    assert alter(cluster, on_broker(set_to("cordoned.log.dirs", "*"), broker="101")) is None
    assert alter(cluster, on_broker(set_to("message.max.bytes", "5"))) is None

    assert cluster.image.config(BROKER, "101") == {"cordoned.log.dirs": "*"}
    assert cluster.image.config(BROKER, "")["message.max.bytes"] == "5"


def test_what_another_implementation_stored_can_be_removed(cluster: Cluster) -> None:
    cluster.replay(
        ConfigRecord(resource_type=BROKER, resource_name="100", name="num.io.threads", value="9")
    )

    asked = on_broker(ConfigChange("num.io.threads", ConfigOp.DELETE), broker="100")
    assert alter(cluster, asked) is None
    assert not cluster.image.config(BROKER, "100")


@pytest.mark.usefixtures("topic_config")
def test_a_new_minimum_isr_voids_the_eligible_replicas_of_the_topic(cluster: Cluster) -> None:
    asked = on_topic(set_to("min.insync.replicas", "2"))
    decision = cluster.controller.incremental_alter_configs([asked])

    assert decision.records[-1] == ClearElrRecord(topic_name="orders")
    cluster.do(decision)
    assert cluster.controller.incremental_alter_configs([asked]).records == ()


def test_a_new_minimum_isr_of_the_cluster_voids_all_eligible_replicas(cluster: Cluster) -> None:
    decision = cluster.controller.incremental_alter_configs(
        [on_broker(set_to("min.insync.replicas", "2"))]
    )

    assert decision.records[-1] == ClearElrRecord(topic_name="")


def test_without_elr_the_minimum_isr_is_free_to_change(new_cluster: NewCluster) -> None:
    cluster = new_cluster(elr=False)
    cluster.start(100)
    decision = cluster.controller.incremental_alter_configs(
        [on_broker(set_to("min.insync.replicas", "2"), broker="100")]
    )

    assert [type(record) for record in decision.records] == [ConfigRecord]
