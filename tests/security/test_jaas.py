from __future__ import annotations

import pytest

from tidelog.model.errors import ConfigError
from tidelog.security.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_users_and_the_own_login_are_read() -> None:
    text = f"""{PLAIN} required username="admin" password="a;b=\\"c\\\\"
        user_admin="x y"   user_alice=plain ;"""
    entry = parse_jaas("key", "PLAIN", text)
    assert entry.users == {"admin": "x y", "alice": "plain"}
    assert entry.login == ("admin", 'a;b="c\\')
    assert "plain" not in repr(entry).replace(PLAIN, "")


def test_without_user_and_password_there_is_no_login() -> None:
    entry = parse_jaas("key", "SCRAM-SHA-512", f"{SCRAM} required;")
    assert entry.login is None
    assert entry.users == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        f'{SCRAM} required username="x" password="secret";',
        f'{PLAIN} username="x" password="secret";',
        f'{PLAIN} required username="x" password="secret"',
        f'{PLAIN} required username="x" password="secret;',
        f'{PLAIN} required username "x" password="secret";',
        f'{PLAIN} required username= password="secret";',
        f'{PLAIN} required username="x" password="secret"; {PLAIN} required;',
    ],
)
def test_what_cannot_be_read_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listener\.x") as refused:
        parse_jaas("listener.x", "PLAIN", text)
    assert "secret" not in str(refused.value)
