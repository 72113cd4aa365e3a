from __future__ import annotations

import pytest

from tidelog.security.exchange import AuthenticationFailed
from tidelog.security.plain import PlainClient, PlainServer

SERVER = PlainServer({"alice": "sesame", "bob": "ü=,"})


@pytest.mark.parametrize(("user", "password"), [("alice", "sesame"), ("bob", "ü=,")])
def test_a_user_with_his_password_is_let_in(user: str, password: str) -> None:
    client = PlainClient(user, password)
    assert SERVER.respond(client.begin()).user == user
    client.respond(b"")
    assert client.is_complete


def test_a_user_may_act_for_himself_alone() -> None:
    assert SERVER.respond(b"alice\0alice\0sesame").user == "alice"
    with pytest.raises(AuthenticationFailed):
        SERVER.respond(b"bob\0alice\0sesame")


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\0alice\0guess",
        b"\0alice\0",
        b"\0\0sesame",
        b"\0carol\0sesame",
        b"\0carol\0",
        b"alice\0sesame",
        b"\0alice\0sesame\0",
        b"\xff\0alice\0sesame",
    ],
)
def test_everything_else_fails_without_telling_a_password(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        SERVER.respond(token)
    assert "guess" not in str(failed.value)
    assert "sesame" not in str(failed.value)


def test_a_user_without_a_password_is_nobody() -> None:
    with pytest.raises(AuthenticationFailed):
        PlainServer({"alice": ""}).respond(b"\0alice\0")
