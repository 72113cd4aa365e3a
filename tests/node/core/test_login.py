"""Links that have to prove who asks: nothing is asked before, and the proof is renewed in time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.node.link_peer import Peer
from tests.protocol.kio_messages.entity_messages import decode_request, encode_response

from tidelog.model.errors import ErrorCode
from tidelog.node.core.effects import CloseLink, SendOnLink
from tidelog.node.core.login import WITHIN_MS
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.frame import read_request_header
from tidelog.protocol.parts import joined
from tidelog.security.exchange import Proved
from tidelog.security.plain import PlainClient, PlainServer
from tidelog.security.scram import ScramClient, ScramCredential, ScramMechanism, ScramServer

MECHANISM = ScramMechanism.SCRAM_SHA_256


class Server:
    """The peer's side of a login."""

    def __init__(self, peer: Peer, lifetime_ms: int = 0, password: str = "sesame") -> None:
        self.peer = peer
        self.lifetime_ms = lifetime_ms
        salted = MECHANISM.salted(password, b"salt", 4096)
        credential = ScramCredential.of_salted_password(MECHANISM, salted, b"salt", 4096)
        self._credential = credential
        self._exchange = self._begin()
        self.proved: list[str] = []

    def _begin(self) -> ScramServer:
        return ScramServer(MECHANISM, lambda _: self._credential, b"nonce", b"")

    def sent(self) -> list[tuple[ApiKey, int, Any]]:
        """The requests that left since the last time."""
        found = []
        for effect in self.peer.take():
            if isinstance(effect, SendOnLink):
                frame = joined(effect.parts)
                header = read_request_header(frame)
                body = decode_request(
                    header.api_key, header.api_version, frame[header.body_offset :]
                )
                found.append((header.api_key, header.correlation_id, body))
        return found

    def answer_all(self) -> None:
        """Answer requests of the login until there are none."""
        while requests := self.sent():
            for key, number, body in requests:
                if key is ApiKey.SASL_HANDSHAKE:
                    self._exchange = self._begin()
                    self._answer(ApiKey.SASL_HANDSHAKE, number, mechanisms=["SCRAM-SHA-256"])
                elif key is ApiKey.SASL_AUTHENTICATE:
                    self._authenticate(number, bytes(body.auth_bytes))
                else:
                    self.peer.answer(number)

    def _authenticate(self, number: int, token: bytes) -> None:
        step = self._exchange.respond(token)
        if isinstance(step, Proved):
            self.proved.append(step.user)
            self._answer(
                ApiKey.SASL_AUTHENTICATE,
                number,
                auth_bytes=step.token,
                session_lifetime=timedelta(milliseconds=self.lifetime_ms),
            )
        else:
            self._answer(ApiKey.SASL_AUTHENTICATE, number, auth_bytes=step)

    def _answer(self, key: ApiKey, number: int, **fields: Any) -> None:
        self.peer.frame(encode_response(key, 1, number, fields))


def scram_peer() -> Peer:
    return Peer(lambda _: ("SCRAM-SHA-256", ScramClient(MECHANISM, "node", "sesame", b"mine")))


def test_nothing_is_asked_before_the_peer_knows_who_asks() -> None:
    peer = scram_peer()
    server = Server(peer)
    peer.ask("first")
    peer.take()
    peer.opened()
    ((key, _, body),) = server.sent()
    assert key is ApiKey.SASL_HANDSHAKE
    assert body.mechanism == "SCRAM-SHA-256"
    assert not peer.link().is_open


def test_what_waited_is_asked_after_the_login() -> None:
    peer = scram_peer()
    server = Server(peer)
    peer.ask("first")
    peer.opened()
    server.answer_all()
    assert server.proved == ["node"]
    assert peer.answered() == [("first", "c")]
    assert peer.link().is_open


def test_a_login_is_renewed_before_it_is_over_and_between_questions() -> None:
    peer = scram_peer()
    server = Server(peer, lifetime_ms=10_000)
    peer.ask("first")
    peer.opened()
    server.answer_all()
    peer.ask("second", timeout_ms=60_000)
    ((_, second, _),) = server.sent()
    peer.pass_time(8_000)
    peer.ask("third", timeout_ms=60_000)
    assert server.sent() == []
    peer.answer(second)
    server.answer_all()
    assert server.proved == ["node", "node"]
    assert [name for name, _ in peer.answered()] == ["first", "second", "third"]
    peer.pass_time(8_000)
    server.answer_all()
    assert len(server.proved) == 3


def test_a_peer_that_refuses_the_login_is_given_up() -> None:
    peer = Peer(lambda _: ("PLAIN", PlainClient("node", "sesame")))
    peer.ask("first")
    peer.opened()
    peer.take()
    refused = {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": ["GSSAPI"]}
    peer.frame(encode_response(ApiKey.SASL_HANDSHAKE, 1, 0, refused))
    assert peer.lost() == ["first"]
    assert any(isinstance(effect, CloseLink) for effect in peer.take())


def test_a_peer_that_does_not_know_the_password_either_is_given_up() -> None:
    peer = scram_peer()
    peer.ask("first")
    peer.opened()
    peer.take()
    peer.frame(encode_response(ApiKey.SASL_HANDSHAKE, 1, 0, {"mechanisms": ["SCRAM-SHA-256"]}))
    peer.take()
    forged = {"auth_bytes": b"r=bWluZQ==x,s=c2FsdA==,i=4096"}
    peer.frame(encode_response(ApiKey.SASL_AUTHENTICATE, 1, 1, forged))
    assert len(peer.take()) == 1
    peer.frame(encode_response(ApiKey.SASL_AUTHENTICATE, 1, 2, {"auth_bytes": b"v=AAAA"}))
    assert peer.lost() == ["first"]


@pytest.mark.parametrize("number", [7, -1])
def test_a_peer_that_answers_something_else_is_given_up(number: int) -> None:
    peer = scram_peer()
    peer.ask("first")
    peer.opened()
    peer.frame(encode_response(ApiKey.SASL_HANDSHAKE, 1, number, {"mechanisms": []}))
    assert peer.lost() == ["first"]


def test_a_peer_that_is_silent_during_the_login_is_given_up() -> None:
    peer = scram_peer()
    peer.ask("first", timeout_ms=60_000)
    peer.opened()
    peer.take()
    peer.pass_time(WITHIN_MS)
    assert peer.lost() == ["first"]
    assert any(isinstance(effect, CloseLink) for effect in peer.take())


def test_a_login_by_plain_is_complete_with_an_empty_answer() -> None:
    server = PlainServer({"node": "sesame"})
    peer = Peer(lambda _: ("PLAIN", PlainClient("node", "sesame")))
    peer.ask("first")
    peer.opened()
    peer.take()
    peer.frame(encode_response(ApiKey.SASL_HANDSHAKE, 1, 0, {"mechanisms": ["PLAIN"]}))
    (sent,) = (effect for effect in peer.take() if isinstance(effect, SendOnLink))
    frame = joined(sent.parts)
    body = decode_request(
        ApiKey.SASL_AUTHENTICATE, 1, frame[read_request_header(frame).body_offset :]
    )
    assert server.respond(bytes(body.auth_bytes)).user == "node"
    peer.frame(encode_response(ApiKey.SASL_AUTHENTICATE, 1, 1, {"auth_bytes": b""}))
    assert peer.link().is_open
