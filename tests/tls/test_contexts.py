from __future__ import annotations

import os
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from tests.certificates import Authority, encrypted

from tidelog.model.errors import ConfigError
from tidelog.model.settings.security import TlsSettings
from tidelog.tls.contexts import client_context, server_context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def settings(**values: str | Path) -> TlsSettings:
    named = {key.replace("_", "."): str(value) for key, value in values.items()}
    return TlsSettings(
        {key: TlsSettings.declaration(key).parse(text) for key, text in named.items()}
    )


def trusting(authority: Authority, **more: str | Path) -> TlsSettings:
    return settings(ssl_truststore_type="PEM", ssl_truststore_location=authority.trusted, **more)


def shake(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> ssl.SSLObject:
    """A handshake in memory; the client's side of it."""
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    served = server.wrap_bio(there, here, server_side=True)
    connected = client.wrap_bio(here, there, server_hostname=name)
    for _ in range(4):
        for side in (connected, served):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    connected.write(b"x")
    assert served.read(1) == b"x"
    return connected


def test_a_key_store_and_a_trust_store_in_pem_make_a_connection(authority: Authority) -> None:
    server = settings(
        ssl_keystore_type="PEM", ssl_keystore_location=authority.key_store("n.pem", "localhost")
    )
    shake(server_context(server), client_context(trusting(authority)))


def test_keys_and_certificates_may_stand_in_the_settings_themselves(authority: Authority) -> None:
    key, chain = authority.issue("localhost")
    folded = {
        "ssl_keystore_key": " ".join(encrypted(key, "sesame").split("\n")),
        "ssl_keystore_certificate_chain": " ".join(chain.split("\n")),
    }
    server = settings(ssl_keystore_type="PEM", ssl_key_password="sesame", **folded)
    client = settings(
        ssl_truststore_type="PEM", ssl_truststore_certificates=authority.trusted.read_text()
    )
    shake(server_context(server), client_context(client))


def test_key_stores_and_trust_stores_in_pkcs12_make_a_connection(authority: Authority) -> None:
    server = settings(
        ssl_keystore_type="PKCS12",
        ssl_keystore_location=authority.pkcs12("n.p12", "sesame", "localhost"),
        ssl_keystore_password="sesame",
    )
    client = settings(
        ssl_truststore_type="PKCS12",
        ssl_truststore_location=authority.trusted_pkcs12("ca.p12", "sesame"),
        ssl_truststore_password="sesame",
    )
    shake(server_context(server), client_context(client))


def test_stores_that_keytool_made_are_read(authority: Authority, tmp_path: Path) -> None:
    trusted = tmp_path / "made.p12"
    made = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(authority.trusted)]
    made += ["-keystore", str(trusted), "-storetype", "PKCS12", "-storepass", "sesame"]
    subprocess.run(made, check=True, capture_output=True)
    client = settings(
        ssl_truststore_type="PKCS12",
        ssl_truststore_location=trusted,
        ssl_truststore_password="sesame",
    )
    server = settings(
        ssl_keystore_type="PEM", ssl_keystore_location=authority.key_store("n.pem", "localhost")
    )
    shake(server_context(server), client_context(client))


def test_java_key_stores_are_refused_with_the_command_that_converts_them(tmp_path: Path) -> None:
    store = tmp_path / "node.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed rest")
    with pytest.raises(ConfigError, match=r"keytool -importkeystore .* -deststoretype PKCS12"):
        server_context(settings(ssl_keystore_location=store))
    with pytest.raises(ConfigError, match="keytool"):
        server_context(settings(ssl_keystore_type="PKCS12", ssl_keystore_location=store))


def test_a_peer_is_verified_and_looked_for_by_its_name(
    authority: Authority, tmp_path: Path
) -> None:
    server = server_context(
        settings(
            ssl_keystore_type="PEM", ssl_keystore_location=authority.key_store("n.pem", "localhost")
        )
    )
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, client_context(trusting(authority)), name="elsewhere.example")
    careless = trusting(authority, ssl_endpoint_identification_algorithm="")
    shake(server, client_context(careless), name="elsewhere.example")
    stranger = Authority(tmp_path / "stranger")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, client_context(trusting(stranger)))


@pytest.mark.parametrize("demand", ["requested", "required"])
def test_a_client_without_a_trusted_certificate_is_let_in_only_where_none_is_required(
    authority: Authority, tmp_path: Path, demand: str
) -> None:
    server = server_context(
        trusting(
            authority,
            ssl_keystore_type="PEM",
            ssl_keystore_location=authority.key_store("n.pem", "localhost"),
            ssl_client_auth=demand,
        )
    )
    own = authority.key_store("c.pem", "client")
    shake(
        server,
        client_context(trusting(authority, ssl_keystore_type="PEM", ssl_keystore_location=own)),
    )
    if demand == "requested":
        shake(server, client_context(trusting(authority)))
    else:
        with pytest.raises(OSError):
            shake(server, client_context(trusting(authority)))
    stranger = Authority(tmp_path / "stranger").key_store("c.pem", "client")
    strange = trusting(authority, ssl_keystore_type="PEM", ssl_keystore_location=stranger)
    with pytest.raises(OSError):
        shake(server, client_context(strange))


@pytest.mark.parametrize(
    ("values", "version"),
    [
        ({}, "TLSv1.3"),
        ({"ssl_enabled_protocols": "TLSv1.2"}, "TLSv1.2"),
        ({"ssl_protocol": "TLSv1.2"}, "TLSv1.2"),
        ({"ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}, "TLSv1.2"),
        ({"ssl_enabled_protocols": "TLSv1.3"}, "TLSv1.3"),
    ],
)
def test_versions_and_suites_are_those_of_the_settings(
    authority: Authority, values: dict[str, str], version: str
) -> None:
    server = server_context(
        settings(
            ssl_keystore_type="PEM",
            ssl_keystore_location=authority.key_store("n.pem", "localhost"),
            **values,
        )
    )
    connected = shake(server, client_context(trusting(authority)))
    assert connected.version() == version
    if "ssl_cipher_suites" in values:
        cipher = connected.cipher()
        assert cipher is not None
        assert cipher[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"}, "go together"),
        ({"ssl_cipher_suites": "TLS_RSA_WITH_NONSENSE"}, "known here"),
        (
            {"ssl_enabled_protocols": "TLSv1.3", "ssl_protocol": "TLSv1.2"},
            "leave no version",
        ),
        (
            {
                "ssl_enabled_protocols": "TLSv1.3",
                "ssl_cipher_suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            },
            "leave no version",
        ),
    ],
)
def test_what_openssl_could_not_keep_is_refused(values: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        client_context(settings(**values))


def test_what_cannot_be_used_is_named_without_its_secrets(
    authority: Authority, tmp_path: Path
) -> None:
    key, chain = authority.issue("localhost")
    other, _ = authority.issue("localhost")
    broken = {
        "missing": {"ssl_keystore_location": tmp_path / "nowhere.pem"},
        "wrong password": {
            "ssl_keystore_key": encrypted(key, "sesame"),
            "ssl_keystore_certificate_chain": chain,
            "ssl_key_password": "guess",
        },
        "no password": {
            "ssl_keystore_key": encrypted(key, "sesame"),
            "ssl_keystore_certificate_chain": chain,
        },
        "another's key": {"ssl_keystore_key": other, "ssl_keystore_certificate_chain": chain},
        "half": {"ssl_keystore_key": key},
        "none": {},
    }
    for values in broken.values():
        with pytest.raises(ConfigError, match=r"ssl\.key") as refused:
            server_context(settings(ssl_keystore_type="PEM", **values))  # type: ignore[arg-type]
        said = str(refused.value)
        assert "PRIVATE KEY" not in said
        assert "guess" not in said
    store = authority.pkcs12("n.p12", "sesame", "localhost")
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.password"):
        server_context(
            settings(
                ssl_keystore_type="PKCS12",
                ssl_keystore_location=store,
                ssl_keystore_password="guess",
            )
        )


def test_no_file_with_a_private_key_is_left_behind(authority: Authority, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    server = settings(
        ssl_keystore_type="PEM", ssl_keystore_location=authority.key_store("n.pem", "localhost")
    )
    for _ in range(3):
        server_context(server)
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after == before


def test_a_trust_store_may_have_comments_in_any_language(
    authority: Authority, tmp_path: Path
) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("# Főtanúsítvány\n" + Path(authority.trusted).read_text(), encoding="utf-8")
    server = settings(
        ssl_keystore_type="PEM", ssl_keystore_location=authority.key_store("n.pem", "localhost")
    )
    trust = settings(ssl_truststore_type="PEM", ssl_truststore_location=path)
    shake(server_context(server), client_context(trust))
