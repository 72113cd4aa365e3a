"""`tidelog up --secure`: keys, users and files that let clients in, and nobody else."""

from __future__ import annotations

import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.tls.test_contexts import shake

from tidelog.client.blocking import Client
from tidelog.client.errors import Unreachable
from tidelog.client.security import ClientSecurity
from tidelog.local.development_keys import DevelopmentKeys
from tidelog.model.settings.properties import parse_properties
from tidelog.security.jaas import parse_jaas
from tidelog.testing.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("secure") / "c", brokers=3, secure=True) as running:
        yield running


def tidelog(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidelog", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_commands_write_and_read_with_the_file_of_the_client(cluster: Cluster) -> None:
    where = (
        *("--bootstrap", cluster.bootstrap),
        *("--command-config", str(cluster.client_properties)),
    )
    created = tidelog("topics", "create", "tides", "--replication-factor", "3", *where)
    assert created.returncode == 0, created.stderr
    assert "tides" in tidelog("topics", "list", *where).stdout
    health = tidelog("cluster", "describe", *where)
    assert health.returncode == 0, health.stderr


def test_rules_that_the_admin_makes_bind_the_client(cluster: Cluster) -> None:
    def asked(user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        properties = cluster.local.keys.client_properties(user)
        where = ("--bootstrap", cluster.bootstrap, "--command-config", str(properties))
        return tidelog(*arguments, *where)

    assert asked("client", "topics", "create", "ledger").returncode == 0
    rule = ("--topic", "ledger", "--operation", "Read", "--allow-principal", "User:client")
    made = asked("admin", "acls", "add", *rule)
    assert made.returncode == 0, made.stderr

    refused = asked("client", "produce", "ledger", "--value", "x")
    assert refused.returncode == 1
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.stderr
    assert asked("admin", "produce", "ledger", "--value", "x").returncode == 0


def test_librdkafka_is_let_in_with_what_the_file_says(cluster: Cluster) -> None:
    properties = parse_properties(cluster.client_properties.read_text())
    login = parse_jaas("x", "SCRAM-SHA-512", properties["sasl.jaas.config"]).login
    assert login is not None
    admin = AdminClient(
        {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": login[0],
            "sasl.password": login[1],
            "ssl.ca.location": str(cluster.local.keys.trusted),
        }
    )
    assert set(admin.list_topics(timeout=20).brokers) == {100, 101, 102}


def test_who_has_no_file_is_not_let_in(cluster: Cluster) -> None:
    with pytest.raises(Unreachable):
        Client(cluster.bootstrap, timeout_s=2, request_timeout_s=2)
    trusting = ClientSecurity(
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(cluster.local.keys.trusted),
        }
    )
    with (
        pytest.raises(Unreachable),
        Client(cluster.bootstrap, timeout_s=2, request_timeout_s=2, security=trusting) as client,
    ):
        client.refresh()


def test_a_node_that_was_killed_comes_back(cluster: Cluster) -> None:
    cluster.kill(101)
    cluster.start(101)
    assert cluster.local.active_controller() in (100, 101, 102)


def test_secrets_are_for_their_owner_alone(cluster: Cluster) -> None:
    keys = cluster.local.keys
    secret = [path for path in keys.directory.iterdir() if path != keys.trusted]
    secret += [cluster.directory / f"node-{node}" / "node.properties" for node in cluster.node_ids]
    assert len(secret) == 10
    for path in secret:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert "PRIVATE" not in keys.trusted.read_text()


def test_every_cluster_has_keys_and_passwords_of_its_own(tmp_path: Path) -> None:
    one, other = DevelopmentKeys.of(tmp_path / "a"), DevelopmentKeys.of(tmp_path / "b")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert one.make([100]) != other.make([100])
    assert one.trusted.read_text() != other.trusted.read_text()


def test_secure_is_chosen_for_a_new_cluster_only(tmp_path: Path) -> None:
    with Cluster(tmp_path / "c") as running:
        running.stop()
        refused = tidelog("up", "--secure", "--detach", "--data", str(running.directory))
        assert refused.returncode == 1
        assert "--secure chooses for a new cluster only" in refused.stderr


def test_certificates_pass_the_strictest_check(tmp_path: Path) -> None:
    keys = DevelopmentKeys.of(tmp_path)
    keys.make([100])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(keys.key_store(100))
    client = ssl.create_default_context(cafile=str(keys.trusted))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    assert shake(server, client, "127.0.0.1").version() == "TLSv1.3"
