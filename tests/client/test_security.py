from __future__ import annotations

from pathlib import Path

import pytest
from tests.certificates import Authority

from tidelog.cli.options import with_command_config_first
from tidelog.client.security import ClientSecurity
from tidelog.model.errors import ConfigError
from tidelog.model.settings.security import SecurityProtocol

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN = f'{SCRAM} required username="alice" password="sesame";'


def test_without_a_protocol_nothing_is_protected() -> None:
    plain = ClientSecurity({"client.id": "x"})
    assert plain.protocol is SecurityProtocol.PLAINTEXT
    assert plain.mechanism is None


def test_a_file_of_kafkas_clients_is_understood(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.jaas.config={LOGIN}\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.trusted}\nacks=all\n"
    )
    read = ClientSecurity.of_file(path)
    assert (read.protocol, read.mechanism) == (SecurityProtocol.SASL_SSL, "SCRAM-SHA-512")
    assert read.begin_login().begin().startswith(b"n,,n=alice,r=")
    assert "sesame" not in repr(read)


def test_the_words_of_librdkafka_are_understood_as_well(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    key, chain = authority.issue("alice")
    (tmp_path / "key.pem").write_text(key)
    (tmp_path / "chain.pem").write_text(chain)
    read = ClientSecurity.of_librdkafka(
        {
            "bootstrap.servers": "b:1",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": 'al"ice',
            "sasl.password": "se\\same",
            "ssl.ca.location": str(authority.trusted),
            "ssl.certificate.location": str(tmp_path / "chain.pem"),
            "ssl.key.location": str(tmp_path / "key.pem"),
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert read.protocol is SecurityProtocol.SASL_SSL
    assert read.begin_login().begin() == b'\0al"ice\0se\\same'
    assert ClientSecurity.of_librdkafka({}).protocol is SecurityProtocol.PLAINTEXT


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"security.protocol": "TLS"}, "security.protocol must be one of"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism must be one of"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config must begin with",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f'{SCRAM} required username="alice";',
            },
            "username and password",
        ),
        ({"ssl.trustore.location": "/x"}, "did you mean ssl.truststore.location"),
        ({"sasl.oauthbearer.token.endpoint.url": "http://x"}, "Unknown setting"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere"}, "cannot be read"),
    ],
)
def test_what_would_not_be_kept_is_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ClientSecurity(properties)
    assert words in str(refused.value)
    assert "sesame" not in str(refused.value)


def test_the_option_of_commands_may_stand_anywhere_in_front_of_two_dashes() -> None:
    given = ["topics", "list", "--command-config", "c", "--json"]
    assert with_command_config_first(given) == ["--command-config", "c", "topics", "list", "--json"]
    joined = ["topics", "list", "--command-config=c"]
    assert with_command_config_first(joined) == ["--command-config=c", "topics", "list"]
    behind = ["produce", "--", "--command-config", "c"]
    assert with_command_config_first(behind) == behind
