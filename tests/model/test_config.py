"""A node's configuration file as a whole."""

from __future__ import annotations

import pytest

from tidelog.model.config import BROKER_SETTINGS, NodeConfig
from tidelog.model.errors import ConfigError
from tidelog.model.principal import Principal, principals
from tidelog.model.settings.describe import describe_broker
from tidelog.model.settings.endpoints import Endpoint, QuorumVoter
from tidelog.model.settings.security import SecurityProtocol
from tidelog.model.settings.without_effect import WITHOUT_EFFECT, refused_key

COMBINED = {
    "node.id": "100",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "100@127.0.0.1:9093",
    "log.dirs": "data",
}


def node(**changed: str | None) -> NodeConfig:
    properties: dict[str, str] = dict(COMBINED)
    for key, value in changed.items():
        name = key.replace("_", ".")
        if value is None:
            del properties[name]
        else:
            properties[name] = value
    return NodeConfig.from_properties(properties)


def refusal(**changed: str | None) -> str:
    with pytest.raises(ConfigError) as refused:
        node(**changed)
    return str(refused.value)


def test_values_of_the_file_and_defaults_of_kafka_are_typed_attributes() -> None:
    config = node(replica_lag_time_max_ms="500")

    assert config.replica_lag_time_max_ms == 500
    assert config.node_id == 100
    assert config.broker_session_timeout_ms == 9000
    assert config.auto_create_topics_enable is True
    assert config.broker_rack is None
    assert config.given["replica.lag.time.max.ms"] == "500"
    assert "broker.session.timeout.ms" not in config.given


def test_our_own_settings_have_their_documented_defaults() -> None:
    config = node()

    assert config.broker_disconnect_grace_ms == 200
    assert config.leader_imbalance_per_broker_percentage == 10


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    assert refusal(replica_lag_max_ms="1") == (
        "Unknown setting replica.lag.max.ms; did you mean replica.lag.time.max.ms?"
    )
    assert refusal(xyzzy="1") == "Unknown setting xyzzy"


def test_everything_wrong_with_the_values_is_told_at_once() -> None:
    told = refusal(num_partitions="0", fetch_max_bytes="many").splitlines()

    assert told == [
        "Invalid value 0 for configuration num.partitions: must be a whole number, at least 1",
        "Invalid value many for configuration fetch.max.bytes: must be a whole number, at least "
        "1024",
    ]


def test_a_topic_key_is_refused_with_the_broker_key_that_sets_its_default() -> None:
    assert refusal(retention_ms="1") == (
        "retention.ms is a topic setting; its default is set with log.retention.ms or "
        "log.retention.minutes or log.retention.hours"
    )


def test_a_key_of_kafka_that_tunes_nothing_here_is_taken_and_named() -> None:
    config = node(num_io_threads="8", group_share_max_size="300")

    assert [setting.name for setting in config.without_effect] == [
        "num.io.threads",
        "group.share.max.size",
    ]
    assert "one event loop" in config.without_effect[0].doc
    assert "at least 1" in refusal(num_io_threads="0")


@pytest.mark.parametrize(
    "own",
    [
        {
            "process.roles": "broker",
            "node.id": "2",
            "listeners": "PLAINTEXT://localhost:9092",
            "advertised.listeners": "PLAINTEXT://localhost:9092",
            "inter.broker.listener.name": "PLAINTEXT",
        },
        {
            "process.roles": "controller",
            "node.id": "1",
            "listeners": "CONTROLLER://:9093",
            "advertised.listeners": "CONTROLLER://localhost:9093",
        },
    ],
    ids=["broker.properties", "controller.properties"],
)
def test_the_files_of_apache_kafka_for_single_roles_are_valid(own: dict[str, str]) -> None:
    protocols = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    NodeConfig.from_properties(
        {
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{protocols}",
            "num.network.threads": "3",
            "num.io.threads": "8",
            "log.dirs": "/tmp/kraft-logs",
            **own,
        }
    )


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("allow.everyone.if.no.acl.found", "true", "only with access control: give authorizer"),
        ("authorizer.class.name", "org.example.Authorizer", "empty or org.apache.kafka"),
        ("create.topic.policy.class.name", "org.example.Policy", "it would never be asked"),
        ("group.coordinator.rebalance.protocols", "classic", "which cannot be turned off"),
        ("listener.name.plaintext.sasl.jaas.config", "x required;", "not a setting of one"),
        ("remote.log.storage.system.enable", "true", "no tiered storage"),
        ("sasl.jaas.config", "x required;", "listener.name.<name>.<mechanism>.sasl.jaas.config"),
        ("sasl.kerberos.service.name", "kafka", "Kerberos is not spoken"),
        ("sasl.oauthbearer.jwks.endpoint.url", "https://x", "OAUTHBEARER is not spoken"),
        ("listener.name.other.ssl.client.auth", "required", "does not know"),
        ("ssl.engine.factory.class", "org.example.Engine", "it would never be asked"),
        ("super.users", "User:admin", "only with access control: give authorizer.class.name"),
        ("zookeeper.connect", "localhost:2181", "controllers keep the metadata"),
    ],
)
def test_a_key_that_promises_what_nobody_gives_is_refused(key: str, text: str, reason: str) -> None:
    assert reason in refusal(**{key: text})


def test_super_users_are_principals_with_semicolons_between_them() -> None:
    standard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    config = node(
        authorizer_class_name=standard,
        super_users=" User:alice; User:CN=node,O=tide ;",
        allow_everyone_if_no_acl_found="true",
    )
    assert principals(config.super_users) == {
        Principal("User", "alice"),
        Principal("User", "CN=node,O=tide"),
    }
    why = refusal(authorizer_class_name=standard, super_users="alice")
    assert "principals like User:name with semicolons" in why


def test_a_key_that_paces_logins_promises_nothing_and_is_taken() -> None:
    node(**{"sasl.kerberos.min.time.before.relogin": "58000"})


def test_a_key_has_an_effect_or_none_or_is_refused() -> None:
    assert not NodeConfig.known().keys() & WITHOUT_EFFECT.keys()
    assert [name for name in BROKER_SETTINGS if refused_key(name) is not None] == []


def test_what_asks_for_no_protection_is_taken() -> None:
    node(
        authorizer_class_name="",
        security_inter_broker_protocol="PLAINTEXT",
    )


@pytest.mark.parametrize(
    "protocols", ["classic,consumer", "consumer,classic,share", "classic,consumer,streams"]
)
def test_protocols_of_groups_are_taken_as_long_as_those_that_are_served_are_named(
    protocols: str,
) -> None:
    node(group_coordinator_rebalance_protocols=protocols)
    assert "each at most once" in refusal(
        group_coordinator_rebalance_protocols=f"{protocols},consumer"
    )


def test_the_older_name_of_the_node_id_stands_for_it() -> None:
    assert node(node_id=None, broker_id="100").node_id == 100
    assert node().broker_id == 100
    assert "must be the same" in refusal(broker_id="7")


def test_addresses_may_have_limits_of_their_own() -> None:
    given = node(max_connections_per_ip_overrides="127.0.0.1:5, ::1:7,0:0:0:0:0:0:0:2:9")
    assert given.connections_of_hosts == {"127.0.0.1": 5, "::1": 7, "::2": 9}
    assert node().connections_of_hosts == {}
    for wrong in ("a.host:5", "127.0.0.1", "127.0.0.1:-5", ","):
        with pytest.raises(ConfigError, match="addresses in digits"):
            node(max_connections_per_ip_overrides=wrong)


def test_what_changes_while_the_node_runs_lies_over_the_file() -> None:
    config = node(producer_id_expiration_ms="5000", node_id="100")
    changed = config.under(
        {"producer.id.expiration.ms": "6000", "max.connections": "9", "node.id": "7"},
        {"max.connections": "8", "log.cleaner.backoff.ms": "unreadable"},
    )

    assert (changed.producer_id_expiration_ms, changed.max_connections) == (6000, 8)
    assert (changed.node_id, changed.log_cleaner_backoff_ms) == (100, 15_000)
    assert changed.given == config.given


def test_identity_roles_and_directories_must_be_given() -> None:
    assert refusal(node_id=None) == "node.id must be given"
    assert refusal(process_roles=None) == "process.roles must be given"
    assert refusal(controller_listener_names="") == "controller.listener.names must be given"
    assert "log.dirs must name" in refusal(log_dirs=None)
    assert "log.dirs must name" in refusal(log_dirs="a,,b")
    assert "twice" in refusal(log_dirs="a,a")
    assert "controller.quorum.voters or" in refusal(controller_quorum_voters=None)


def test_questions_are_answered_where_the_file_says_or_nowhere() -> None:
    assert node().http_address is None
    assert node(http_listener="").http_address is None
    assert node(http_listener="127.0.0.1:0").http_address == ("127.0.0.1", 0)
    assert node(http_listener="[::1]:8080").http_address == ("::1", 8080)
    with pytest.raises(ConfigError, match=r"http\.listener: '8080' is not of the form host:port"):
        node(http_listener="8080")


def test_log_dir_stands_in_for_log_dirs() -> None:
    assert node(log_dirs=None, log_dir="one").log_directories == ("one",)
    assert node(log_dirs="a,b", log_dir="one").log_directories == ("a", "b")


def test_the_metadata_log_lies_in_the_first_log_directory_unless_placed_elsewhere() -> None:
    assert node(log_dirs="a,b").metadata_directory == "a"
    assert node(metadata_log_dir="m").metadata_directory == "m"


def test_roles_say_what_a_node_does() -> None:
    combined = node()
    broker = node(node_id="7", process_roles="broker", listeners="PLAINTEXT://:9092")

    assert (combined.is_broker, combined.is_controller) == (True, True)
    assert (broker.is_broker, broker.is_controller) == (True, False)


def test_a_controller_is_a_voter_and_a_mere_broker_is_not() -> None:
    assert "is not among controller.quorum.voters" in refusal(node_id="7")
    assert "is among controller.quorum.voters" in refusal(
        process_roles="broker", listeners="PLAINTEXT://:9092"
    )
    assert "twice" in refusal(controller_quorum_voters="100@a:1,100@b:1")


def test_listeners_are_split_between_controllers_and_clients() -> None:
    config = node()

    assert config.broker_endpoints == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.controller_endpoints == (Endpoint("CONTROLLER", "127.0.0.1", 9093),)
    assert config.advertised_endpoints == config.broker_endpoints
    assert config.inter_broker_name == "PLAINTEXT"
    assert config.quorum_voters == (QuorumVoter(100, "127.0.0.1", 9093),)


def test_addresses_of_version_six_stand_in_brackets() -> None:
    config = node(listeners="PLAINTEXT://[::1]:0,CONTROLLER://[fe80::1%eth0]:9093")

    assert config.endpoints[0] == Endpoint("PLAINTEXT", "::1", 0)
    assert config.endpoints[1].host == "fe80::1%eth0"


def test_a_quorum_may_be_found_through_bootstrap_servers() -> None:
    config = node(controller_quorum_voters=None, controller_quorum_bootstrap_servers="a:1,[::1]:2")

    assert config.quorum_bootstrap == (("a", 1), ("::1", 2))


def test_advertised_addresses_must_be_reachable_listeners() -> None:
    config = node(advertised_listeners="PLAINTEXT://host.example:19092")

    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "host.example", 19092),)
    assert "others can reach" in refusal(advertised_listeners="PLAINTEXT://0.0.0.0:9092")
    assert "which listeners does not" in refusal(advertised_listeners="PLAINTEXT://a:1,OTHER://b:2")


def test_what_is_advertised_for_a_controller_is_for_the_quorum_alone() -> None:
    config = node(advertised_listeners="PLAINTEXT://a.example:1,CONTROLLER://c.example:2")

    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "a.example", 1),)
    assert config.advertised_controller_endpoints == (Endpoint("CONTROLLER", "c.example", 2),)
    assert node().advertised_controller_endpoints == node().controller_endpoints
    assert "others can reach" in refusal(
        process_roles="controller",
        listeners="CONTROLLER://:2",
        advertised_listeners="CONTROLLER://:2",
    )


def test_contradicting_listeners_are_refused() -> None:
    assert "one name to two addresses" in refusal(listeners="PLAINTEXT://:1,PLAINTEXT://:2")
    assert "no protocol for the listener OTHER" in refusal(listeners="OTHER://:1,CONTROLLER://:2")
    assert "must hold one of controller.listener.names" in refusal(listeners="PLAINTEXT://:1")
    assert "not among controller.listener.names" in refusal(listeners="CONTROLLER://:1")
    assert "on a mere broker" in refusal(node_id="7", process_roles="broker")
    assert "not among the advertised" in refusal(inter_broker_listener_name="INTERNAL")


def test_a_named_listener_needs_a_protocol_it_speaks() -> None:
    config = node(
        listeners="CLIENTS://:1,CONTROLLER://:2",
        listener_security_protocol_map="CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )

    assert config.inter_broker_name == "CLIENTS"
    assert "NAME:PROTOCOL" in refusal(listener_security_protocol_map="CLIENTS:TLS")
    for name in ("SASL_PLAINTEXT", "SASL_SSL"):
        told = refusal(listeners=f"{name}://:1,CONTROLLER://:2", inter_broker_listener_name=name)
        assert f"the listener {name} offers GSSAPI, which is not spoken" in told


def test_a_listener_with_sasl_needs_users_and_a_login_where_brokers_use_it() -> None:
    listeners = {"listeners": "SASL_PLAINTEXT://:1,PLAINTEXT://:2,CONTROLLER://:3"}
    plain = {**listeners, "sasl.enabled.mechanisms": "PLAIN"}
    assert "offers PLAIN and knows no users" in refusal(
        **plain, inter_broker_listener_name="PLAINTEXT"
    )
    scram = {**listeners, "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    node(**scram, inter_broker_listener_name="PLAINTEXT")
    assert "nothing to prove itself with: set sasl.mechanism.inter.broker.protocol" in refusal(
        **scram, inter_broker_listener_name="SASL_PLAINTEXT"
    )
    login = {
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": "x required;",
    }
    config = NodeConfig.from_properties({**COMBINED, **scram, **login})
    assert config.mechanism_towards("SASL_PLAINTEXT") == "SCRAM-SHA-256"
    assert config.security_of("SASL_PLAINTEXT").jaas["SCRAM-SHA-256"][1] == "x required;"


def test_a_listener_with_tls_needs_a_certificate() -> None:
    listeners = "SSL://:1,CONTROLLER://:2"
    assert "the listener SSL speaks SSL and has no certificate" in refusal(listeners=listeners)
    config = node(listeners=listeners, ssl_keystore_location="/etc/node.pem")
    assert config.security_protocol_of("SSL") is SecurityProtocol.SSL
    assert config.security_protocol_of("CONTROLLER") is SecurityProtocol.PLAINTEXT


def test_what_is_said_for_one_listener_counts_there_before_what_is_said_for_all() -> None:
    config = node(
        **{
            "listeners": "INNER://:1,OUTER://:2,CONTROLLER://:3",
            "listener.security.protocol.map": "INNER:SSL,OUTER:SSL,CONTROLLER:SSL",
            "ssl.keystore.location": "/etc/all.pem",
            "ssl.client.auth": "required",
            "listener.name.outer.ssl.keystore.location": "/etc/outer.pem",
            "listener.name.outer.ssl.client.auth": "none",
        }
    )
    inner, outer = config.security_of("INNER"), config.security_of("OUTER")
    assert (inner.ssl_keystore_location, inner.ssl_client_auth) == ("/etc/all.pem", "required")
    assert (outer.ssl_keystore_location, outer.ssl_client_auth) == ("/etc/outer.pem", "none")
    assert "must be one of" in refusal(**{"listener.name.plaintext.ssl.client.auth": "maybe"})


def test_brokers_find_each_other_by_the_name_of_a_protocol_or_of_a_listener() -> None:
    listeners = {
        "listeners": "PLAINTEXT://:1,SSL://:2,CONTROLLER://:3",
        "ssl.keystore.location": "/etc/node.pem",
    }
    config = node(**listeners, security_inter_broker_protocol="SSL")
    assert config.inter_broker_name == "SSL"
    assert config.names_to_connect_to == ("CONTROLLER", "SSL")
    assert "say the same" in refusal(
        **listeners, security_inter_broker_protocol="SSL", inter_broker_listener_name="SSL"
    )


def test_secrets_are_not_shown() -> None:
    config = node(**{"ssl.keystore.password": "sesame", "ssl.key.password": "sesame"})
    assert "sesame" not in repr(config)
    for entry in describe_broker({}, {}, config):
        assert "sesame" not in repr(entry)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("listeners", "127.0.0.1:9092"),
        ("listeners", "PLAINTEXT://:99999"),
        ("controller.quorum.voters", "127.0.0.1:9093"),
        ("controller.quorum.voters", "x@a:1"),
        ("controller.quorum.voters", "1@a"),
    ],
)
def test_a_malformed_address_is_refused_with_its_form(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", "[.]")):
        NodeConfig.from_properties({**COMBINED, key: text})


def test_values_that_contradict_each_other_are_refused() -> None:
    assert refusal(replica_fetch_wait_max_ms="600", replica_lag_time_max_ms="500") == (
        "replica.fetch.wait.max.ms 600 must not exceed replica.lag.time.max.ms 500"
    )


def test_controllers_that_are_nobody_to_each_other_need_to_be_super_users() -> None:
    several = "100@127.0.0.1:9093,101@127.0.0.1:9094"
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    given = {"authorizer_class_name": authorizer, "controller_quorum_voters": several}
    assert "controllers are User:ANONYMOUS to each other" in refusal(**given)
    assert "or name them in super.users" in refusal(**given, super_users="User:admin")
    assert node(**given, super_users="User:ANONYMOUS").has_several_controllers
    assert node(authorizer_class_name=authorizer).authorizer_class_name == authorizer


def test_controllers_do_not_know_each_other_by_users_that_they_have_yet_to_agree_on() -> None:
    given = {
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl_enabled_mechanisms": "SCRAM-SHA-512",
        "sasl_mechanism_controller_protocol": "SCRAM-SHA-512",
        "listener_name_controller_scram-sha-512_sasl_jaas_config": "x required;",
    }
    several = "100@127.0.0.1:9093,101@127.0.0.1:9094"
    why = refusal(**given, controller_quorum_voters=several)
    assert "controllers cannot know each other by SCRAM-SHA-512 on CONTROLLER" in why
    assert node(**given).mechanism_towards("CONTROLLER") == "SCRAM-SHA-512"
