"""SCRAM between both sides of ours, and with scramp at either end."""

from __future__ import annotations

from base64 import b64encode

import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st

from tidelog.security.exchange import AuthenticationFailed, Proved
from tidelog.security.scram import (
    ITERATIONS_LEAST,
    ITERATIONS_MOST,
    ScramClient,
    ScramCredential,
    ScramMechanism,
    ScramServer,
)

SALT = b"0123456789abcdef"
PASSWORD = "pencil=,ü"
BOTH = pytest.mark.parametrize("mechanism", list(ScramMechanism))


def credential(mechanism: ScramMechanism, password: str = PASSWORD) -> ScramCredential:
    salted = mechanism.salted(password, SALT, ITERATIONS_LEAST)
    return ScramCredential.of_salted_password(mechanism, salted, SALT, ITERATIONS_LEAST)


def server(mechanism: ScramMechanism, user: str = "alice") -> ScramServer:
    known = {user: credential(mechanism)}
    return ScramServer(mechanism, known.get, b"server nonce", b"secret of the node")


def exchange(client: ScramClient, with_server: ScramServer) -> Proved:
    first = with_server.respond(client.begin())
    assert isinstance(first, bytes)
    last = client.respond(first)
    assert last is not None
    proved = with_server.respond(last)
    assert isinstance(proved, Proved)
    assert client.respond(proved.token) is None
    assert client.is_complete
    return proved


@BOTH
@pytest.mark.parametrize("user", ["alice", "a=b,c", "ålice"])
def test_both_sides_prove_themselves(mechanism: ScramMechanism, user: str) -> None:
    client = ScramClient(mechanism, user, PASSWORD, b"client nonce")
    assert exchange(client, server(mechanism, user)).user == user


@BOTH
def test_a_client_of_others_is_let_in(mechanism: ScramMechanism) -> None:
    ours = server(mechanism)
    theirs = scramp.ScramClient([mechanism.sasl_name], "alice", PASSWORD, c_nonce="theirs")
    first = ours.respond(theirs.get_client_first().encode())
    assert isinstance(first, bytes)
    theirs.set_server_first(first.decode())
    proved = ours.respond(theirs.get_client_final().encode())
    assert isinstance(proved, Proved)
    assert proved.user == "alice"
    theirs.set_server_final(proved.token.decode())


@BOTH
def test_a_server_of_others_lets_us_in(mechanism: ScramMechanism) -> None:
    judge = scramp.ScramMechanism(mechanism.sasl_name)
    information = judge.make_auth_info(PASSWORD, iteration_count=ITERATIONS_LEAST, salt=SALT)
    assert information[1:3] == (credential(mechanism).stored_key, credential(mechanism).server_key)
    theirs = judge.make_server(lambda _: information)
    ours = ScramClient(mechanism, "alice", PASSWORD, b"client nonce")
    theirs.set_client_first(ours.begin().decode())
    last = ours.respond(theirs.get_server_first().encode())
    assert last is not None
    theirs.set_client_final(last.decode())
    assert ours.respond(theirs.get_server_final().encode()) is None
    assert ours.is_complete


@BOTH
def test_a_wrong_password_and_an_unknown_user_fail_at_the_same_step(
    mechanism: ScramMechanism,
) -> None:
    for user, password in (("alice", "guess"), ("bob", PASSWORD)):
        ours = server(mechanism)
        client = ScramClient(mechanism, user, password, b"client nonce")
        first = ours.respond(client.begin())
        assert isinstance(first, bytes)
        last = client.respond(first)
        assert last is not None
        with pytest.raises(AuthenticationFailed) as failed:
            ours.respond(last)
        assert failed.value.user == ("alice" if user == "alice" else None)
        assert password not in str(failed.value)


def test_the_salt_of_a_user_that_does_not_exist_stays_the_same() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    firsts = {server(mechanism).respond(b"n,,n=bob,r=x") for _ in range(2)}
    assert len(firsts) == 1
    other = ScramServer(mechanism, lambda _: None, b"server nonce", b"another node")
    assert other.respond(b"n,,n=bob,r=x") not in firsts


def test_who_repeats_a_proof_in_another_exchange_is_not_let_in() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    client = ScramClient(mechanism, "alice", PASSWORD, b"client nonce")
    seen = server(mechanism)
    first = seen.respond(client.begin())
    assert isinstance(first, bytes)
    last = client.respond(first)
    assert last is not None
    later = ScramServer(mechanism, lambda _: credential(mechanism), b"another one", b"")
    later.respond(client.begin())
    with pytest.raises(AuthenticationFailed):
        later.respond(last)


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_512
    client = ScramClient(mechanism, "alice", PASSWORD, b"client nonce")
    first = server(mechanism).respond(client.begin())
    assert isinstance(first, bytes)
    client.respond(first)
    with pytest.raises(AuthenticationFailed):
        client.respond(b"v=" + b64encode(bytes(64)))
    assert not client.is_complete


@pytest.mark.parametrize("rounds", ["1", "4095", str(ITERATIONS_MOST + 1), "9" * 30, "-1", "x", ""])
def test_a_client_computes_neither_too_little_nor_too_much(rounds: str) -> None:
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", PASSWORD, b"client nonce")
    nonce = client.begin().decode().rpartition("r=")[2]
    with pytest.raises(AuthenticationFailed):
        client.respond(f"r={nonce}more,s={b64encode(SALT).decode()},i={rounds}".encode())


def test_a_client_speaks_only_with_who_has_heard_it() -> None:
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "alice", PASSWORD, b"client nonce")
    nonce = client.begin().decode().rpartition("r=")[2]
    for other in ("other", nonce):
        with pytest.raises(AuthenticationFailed):
            client.respond(f"r={other},s={b64encode(SALT).decode()},i=4096".encode())


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"p=tls-unique,,n=alice,r=x",
        b"n,a=bob,n=alice,r=x",
        b"n,,n=al=ice,r=x",
        b"n,,n=,r=x",
        b"n,,r=x,n=alice",
        b"n,,n=alice,r=",
        b"n,,m=ext,n=alice,r=x",
        b"\xff\xfe",
    ],
)
def test_a_first_message_that_means_something_else_fails(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        server(ScramMechanism.SCRAM_SHA_256).respond(first)


def test_a_user_may_say_that_he_acts_for_himself() -> None:
    assert isinstance(server(ScramMechanism.SCRAM_SHA_256).respond(b"n,a=alice,n=alice,r=x"), bytes)


@given(position=st.integers(0, 500), byte=st.integers(0, 255))
def test_a_last_message_that_was_changed_in_any_place_fails(position: int, byte: int) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    client = ScramClient(mechanism, "alice", PASSWORD, b"client nonce")
    ours = server(mechanism)
    first = ours.respond(client.begin())
    assert isinstance(first, bytes)
    last = client.respond(first)
    assert last is not None
    changed = bytearray(last)
    changed[position % len(last)] = byte
    if bytes(changed) != last:
        with pytest.raises(AuthenticationFailed):
            ours.respond(bytes(changed))


@given(tokens=st.lists(st.binary(max_size=200), min_size=1, max_size=4))
def test_nonsense_fails_and_does_nothing_else(tokens: list[bytes]) -> None:
    with pytest.raises(AuthenticationFailed):
        for token in (*tokens, b""):
            server(ScramMechanism.SCRAM_SHA_512).respond(token)
