"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: settings and where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 2, 3, 4, 5
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(peer: Peer, kind: int, name: str, *keys: str, version: int = 4, **asked: bool) -> Any:
    """The one result for one resource; no keys are all keys."""
    fields = {"include_synonyms": False, "include_documentation": False, **asked}
    answer = peer.ask(
        ApiKey.DESCRIBE_CONFIGS,
        version,
        resources=[
            {"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}
        ],
        **fields,
    )
    [result] = answer.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def value_of(peer: Peer, kind: int, name: str, key: str) -> tuple[str | None, int]:
    """Value and source of one setting."""
    [config] = describe(peer, kind, name, key).configs
    return config.value, config.config_source


def alter(
    peer: Peer, kind: int, name: str, *changes: tuple[str, int, str | None], **how: Any
) -> int:
    """Change single settings; the error code."""
    version = how.pop("version", 1)
    answer = peer.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        version,
        resources=[
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [
                    {"name": key, "config_operation": operation, "value": value}
                    for key, operation, value in changes
                ],
            }
        ],
        validate_only=how.pop("validate_only", False),
    )
    [result] = answer.responses
    return int(result.error_code)


@pytest.fixture
def orders(bench: NodeBench) -> NodeBench:
    bench.create_topic("orders", retention_ms="1000")
    return bench


# Describing


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.usefixtures("orders")
def test_a_topic_is_described_with_all_its_settings(peer: Peer, version: int) -> None:
    result = describe(peer, TOPIC, "orders", version=version)
    assert (result.error_code, result.error_message) == (0, None)
    by_name = {config.name: config for config in result.configs}
    assert len(by_name) > 20
    own, default = by_name["retention.ms"], by_name["cleanup.policy"]
    assert (own.value, own.config_source, own.read_only) == ("1000", DYNAMIC_TOPIC, False)
    assert (default.value, default.config_source) == ("delete", DEFAULT)
    assert (own.is_sensitive, own.synonyms) == (False, ())
    assert hasattr(own, "config_type") == hasattr(own, "documentation") == (version >= 3)


@pytest.mark.usefixtures("orders")
def test_only_the_keys_that_were_named_are_told_and_none_named_are_all(peer: Peer) -> None:
    named = describe(peer, TOPIC, "orders", "retention.ms", "no.such.key")
    assert [config.name for config in named.configs] == ["retention.ms"]
    answer = peer.ask(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=[{"resource_type": TOPIC, "resource_name": "orders", "configuration_keys": []}],
        include_synonyms=False,
        include_documentation=False,
    )
    assert len(answer.results[0].configs) > 20


def test_synonyms_tell_every_place_that_gives_a_value_the_one_that_counts_first(
    new_bench: NewBench,
) -> None:
    bench = new_bench(log_retention_ms="5000")
    bench.create_topic("orders", retention_ms="1000")
    peer = bench.connect()
    alter(peer, BROKER, "", ("log.retention.ms", SET, "4000"))
    [config] = describe(peer, TOPIC, "orders", "retention.ms", include_synonyms=True).configs
    assert [(each.name, each.value, each.source) for each in config.synonyms] == [
        ("retention.ms", "1000", DYNAMIC_TOPIC),
        ("log.retention.ms", "4000", DYNAMIC_DEFAULT),
        ("log.retention.ms", "5000", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]


@pytest.mark.usefixtures("orders")
def test_documentation_is_told_to_those_who_ask(peer: Peer) -> None:
    [silent] = describe(peer, TOPIC, "orders", "retention.ms").configs
    [told] = describe(peer, TOPIC, "orders", "retention.ms", include_documentation=True).configs
    assert silent.documentation is None
    assert told.documentation
    assert told.config_type == silent.config_type > 0


def test_a_broker_is_described_to_those_who_ask_itself(peer: Peer) -> None:
    result = describe(peer, BROKER, "100")
    by_name = {config.name: config for config in result.configs}
    assert (by_name["node.id"].value, by_name["node.id"].read_only) == ("100", True)
    assert by_name["node.id"].config_source == STATIC
    assert by_name["log.retention.ms"].read_only is False
    other = describe(peer, BROKER, "101")
    assert (other.error_code, other.configs) == (ErrorCode.invalid_request, ())


def test_the_settings_of_all_brokers_are_those_that_were_set(peer: Peer) -> None:
    assert alter(peer, BROKER, "", ("log.retention.ms", SET, "4000")) == 0
    configs = describe(peer, BROKER, "").configs
    assert {config.name: config.value for config in configs}["log.retention.ms"] == "4000"
    assert {config.config_source for config in configs} == {DYNAMIC_DEFAULT}


def test_what_has_no_settings_is_told_with_the_reason(peer: Peer) -> None:
    unknown = describe(peer, TOPIC, "nowhere")
    assert (unknown.error_code, unknown.configs) == (ErrorCode.unknown_topic_or_partition, ())
    invalid = describe(peer, TOPIC, "no spaces")
    assert invalid.error_code == ErrorCode.invalid_topic_exception
    assert describe(peer, 99, "x").error_code == ErrorCode.invalid_request


# Altering


@pytest.mark.parametrize("version", [0, 1])
def test_single_settings_are_set_and_deleted(orders: NodeBench, peer: Peer, version: int) -> None:
    assert alter(peer, TOPIC, "orders", ("max.message.bytes", SET, "99"), version=version) == 0
    assert value_of(peer, TOPIC, "orders", "max.message.bytes") == ("99", DYNAMIC_TOPIC)
    assert value_of(peer, TOPIC, "orders", "retention.ms") == ("1000", DYNAMIC_TOPIC)
    assert alter(peer, TOPIC, "orders", ("retention.ms", DELETE, None), version=version) == 0
    assert value_of(peer, TOPIC, "orders", "retention.ms") == ("604800000", DEFAULT)


@pytest.mark.usefixtures("orders")
def test_lists_grow_and_shrink(peer: Peer) -> None:
    assert alter(peer, TOPIC, "orders", ("cleanup.policy", APPEND, "compact")) == 0
    assert value_of(peer, TOPIC, "orders", "cleanup.policy")[0] == "delete,compact"
    assert alter(peer, TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert value_of(peer, TOPIC, "orders", "cleanup.policy")[0] == "compact"
    number = alter(peer, TOPIC, "orders", ("retention.ms", APPEND, "1"))
    assert number == ErrorCode.invalid_config


def test_a_changed_setting_is_in_force_for_the_next_batch(
    orders: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    assert peer.produce("orders", batch(b"x" * 200)).error == 0
    alter(peer, TOPIC, "orders", ("max.message.bytes", SET, "100"))
    assert peer.produce("orders", batch(b"x" * 200)).error == ErrorCode.message_too_large
    alter(peer, TOPIC, "orders", ("max.message.bytes", DELETE, None))
    assert peer.produce("orders", batch(b"x" * 200)).error == 0


def test_a_changed_default_of_all_brokers_is_in_force_for_every_topic(
    orders: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    alter(peer, BROKER, "", ("message.max.bytes", SET, "100"))
    assert peer.produce("orders", batch(b"x" * 200)).error == ErrorCode.message_too_large
    alter(peer, BROKER, "100", ("message.max.bytes", SET, "1000"))
    assert peer.produce("orders", batch(b"x" * 200)).error == 0
    assert value_of(peer, TOPIC, "orders", "max.message.bytes") == ("1000", DYNAMIC_BROKER)


@pytest.mark.usefixtures("orders")
def test_validating_changes_nothing(peer: Peer) -> None:
    change = ("retention.ms", SET, "77")
    assert alter(peer, TOPIC, "orders", change, validate_only=True) == 0
    assert value_of(peer, TOPIC, "orders", "retention.ms")[0] == "1000"
    bad = ("retention.ms", SET, "soon")
    assert alter(peer, TOPIC, "orders", bad, validate_only=True) == ErrorCode.invalid_config


@pytest.mark.usefixtures("orders")
def test_a_resource_is_changed_whole_or_not_at_all(peer: Peer) -> None:
    error = alter(peer, TOPIC, "orders", ("retention.ms", SET, "77"), ("no.such.key", SET, "1"))
    assert error == ErrorCode.invalid_config
    assert value_of(peer, TOPIC, "orders", "retention.ms")[0] == "1000"
    missing = alter(peer, TOPIC, "nowhere", ("retention.ms", SET, "77"))
    assert missing == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.usefixtures("orders")
def test_the_older_way_to_alter_replaces_all_settings(peer: Peer, version: int) -> None:
    for validate_only in (True, False):
        answer = peer.ask(
            ApiKey.ALTER_CONFIGS,
            version,
            resources=[
                {
                    "resource_type": TOPIC,
                    "resource_name": "orders",
                    "configs": [{"name": "max.message.bytes", "value": "99"}],
                }
            ],
            validate_only=validate_only,
        )
        assert [each.error_code for each in answer.responses] == [0]
        kept = value_of(peer, TOPIC, "orders", "retention.ms")
        assert kept == (("1000", DYNAMIC_TOPIC) if validate_only else ("604800000", DEFAULT))
    assert value_of(peer, TOPIC, "orders", "max.message.bytes") == ("99", DYNAMIC_TOPIC)


@pytest.mark.usefixtures("orders")
def test_settings_survive_a_restart(bench: NodeBench, peer: Peer) -> None:
    alter(peer, TOPIC, "orders", ("max.message.bytes", SET, "99"))
    bench.stop()
    again = bench.again().connect()
    assert value_of(again, TOPIC, "orders", "max.message.bytes") == ("99", DYNAMIC_TOPIC)


# ListConfigResources


def listed(peer: Peer, version: int, **asked: Any) -> set[tuple[int, str]]:
    answer = peer.ask(ApiKey.LIST_CONFIG_RESOURCES, version, **asked)
    assert answer.error_code == 0
    return {
        (getattr(each, "resource_type", 16), each.resource_name) for each in answer.config_resources
    }


@pytest.mark.usefixtures("orders")
def test_resources_with_settings_are_listed_by_type(peer: Peer) -> None:
    assert listed(peer, 0) == set(), "version 0 asks for client metrics, of which there are none"
    assert listed(peer, 1, resource_types=[TOPIC]) == {(TOPIC, "orders")}
    assert listed(peer, 1, resource_types=[BROKER]) == {(BROKER, "100")}
    assert listed(peer, 1, resource_types=[]) == {
        (TOPIC, "orders"),
        (BROKER, "100"),
        (BROKER_LOGGER, "100"),
    }


def test_an_unknown_type_of_resource_is_unsupported(peer: Peer) -> None:
    answer = peer.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[TOPIC, 99])
    assert answer.error_code == ErrorCode.unsupported_version


def test_a_broker_id_of_many_digits_is_one_that_nobody_has(peer: Peer) -> None:
    change = ("log.cleaner.threads", SET, "2")
    assert alter(peer, BROKER, "1" * 5_000, change) == ErrorCode.broker_id_not_registered


def test_limits_on_connections_that_change_while_a_node_runs_are_told_to_the_shell(
    bench: NodeBench, peer: Peer
) -> None:
    assert alter(peer, BROKER, "100", ("max.connections", SET, "70")) == 0
    assert alter(peer, BROKER, "", ("max.connections.per.ip", SET, "7")) == 0
    assert alter(peer, BROKER, "", ("max.connections", SET, "80")) == 0
    assert alter(peer, BROKER, "100", ("max.connections", DELETE, None)) == 0
    unlimited = 2**31 - 1
    assert [(limits.per_host, limits.in_all) for limits in bench.limits] == [
        (unlimited, 70),
        (7, 70),
        (7, 80),
    ]
    assert alter(peer, BROKER, "", ("max.connections.per.ip.overrides", SET, "10.0.0.1:3")) == 0
    assert alter(peer, BROKER, "", ("max.connection.creation.rate", SET, "9")) == 0
    assert bench.limits[-1].of_hosts == {"10.0.0.1": 3}
    assert bench.limits[-1].rate == 9
    refused = alter(peer, BROKER, "", ("max.connections.per.ip.overrides", SET, "a.host:3"))
    assert refused == ErrorCode.invalid_request


def test_settings_that_change_while_a_node_runs_reach_its_logs(
    bench: NodeBench, peer: Peer
) -> None:
    bench.create_topic("orders")
    assert alter(peer, BROKER, "", ("producer.id.expiration.ms", SET, "5000")) == 0
    verified = "transaction.partition.verification.enable"
    assert alter(peer, BROKER, "100", (verified, SET, "false")) == 0
    producers = bench.partition("orders").log.producers
    assert (producers.expiry_ms, producers.verify_transactions) == (5000, False)
    bench.create_topic("payments")
    assert bench.partition("payments").log.producers.expiry_ms == 5000
    assert value_of(peer, BROKER, "100", verified) == ("false", DYNAMIC_BROKER)


def test_access_rules_are_answered_as_without_an_authorizer(peer: Peer) -> None:
    rules = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    described = peer.ask(ApiKey.DESCRIBE_ACLS, 3, **rules)
    deleted = peer.ask(ApiKey.DELETE_ACLS, 3, filters=[rules, rules]).filter_results
    for answer in (described, *deleted):
        assert answer.error_code == ErrorCode.security_disabled
        assert answer.error_message.startswith("No Authorizer is configured")
    assert len(deleted) == 2
