"""Damaged and endless beginnings of connections: nobody crashes, nobody is let in, memory stays."""

from __future__ import annotations

import os
import random
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.integration.nodes import Nodes
from tests.integration.raw import until
from tests.integration.test_sasl import CLUSTER_ID, USERS, client_of, secured
from tests.integration.test_tls import alive
from tests.tiers import examples

from tidelog.local.ports import free_ports
from tidelog.protocol.codec import encode_request
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest

ROUNDS = examples(300)
MORE_MEMORY_AT_MOST = 60_000_000


class Secured:
    """A node with its client's settings."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, authority: Authority) -> None:
        self.process = process
        self.port = port
        self.authority = authority
        self._context = ssl.create_default_context(cafile=str(authority.trusted))

    def connect(self) -> ssl.SSLSocket:
        below = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        return self._context.wrap_socket(below, server_hostname="127.0.0.1")

    def resident_bytes(self) -> int:
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def is_well(self) -> bool:
        client = client_of(self.authority, self.port, "SCRAM-SHA-512")
        return self.process.poll() is None and alive(client) == {1}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    ports = free_ports(2)
    with Nodes(tmp_path_factory.mktemp("nodes"), CLUSTER_ID) as nodes:
        process = nodes.start("tidelog", secured(authority, 1, ports[0], ports[1]), *USERS)
        made = Secured(process, ports[0], authority)
        until(made.is_well, within_s=60)
        yield made


def client_hello(node: Secured) -> bytes:
    """The first bytes of a client that would be let in."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = node._context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def mutated(sample: bytes, dice: random.Random) -> bytes:
    changed = bytearray(sample)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(changed))
        match dice.randrange(4):
            case 0:
                changed[at] = dice.randrange(256)
            case 1:
                del changed[at:]
                changed += b"\0"
            case 2:
                changed[at:at] = dice.randbytes(dice.randint(1, 40))
            case _:
                changed[at : at + 4] = dice.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
    return bytes(changed)


def swallow(peer: socket.socket) -> None:
    """Read until the node hangs up, or for a moment."""
    peer.settimeout(0.05)
    try:
        while peer.recv(65_536):
            pass
    except OSError:
        pass
    finally:
        peer.close()


def test_damaged_handshakes_of_tls_harm_nobody(node: Secured) -> None:
    hello = client_hello(node)
    dice = random.Random(1)
    before = node.resident_bytes()
    for _ in range(ROUNDS):
        peer = socket.create_connection(("127.0.0.1", node.port), timeout=10)
        peer.sendall(mutated(hello, dice))
        swallow(peer)
    assert node.is_well()
    assert node.resident_bytes() - before < MORE_MEMORY_AT_MOST


def test_damaged_requests_before_a_proof_harm_nobody_and_let_nobody_in(node: Secured) -> None:
    requests = [
        encode_request(ApiVersionsRequest(client_software_name="x"), 3, 1, "fuzz"),
        encode_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1, 2, "fuzz"),
        encode_request(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=x"), 2, 3, "fuzz"),
        encode_request(SaslAuthenticateRequest(auth_bytes=b"c=biws,r=x,p=AAAA"), 2, 4, "fuzz"),
    ]
    framed = [len(each).to_bytes(4, "big") + each for each in requests]
    dice = random.Random(2)
    before = node.resident_bytes()
    for _ in range(ROUNDS):
        at = dice.randrange(len(framed))
        with_damage = [*framed[:at], mutated(framed[at], dice), *framed[at + 1 :]]
        peer = node.connect()
        with suppress(OSError):
            peer.sendall(b"".join(with_damage))
        swallow(peer)
    assert node.is_well()
    assert node.resident_bytes() - before < MORE_MEMORY_AT_MOST


def test_who_claims_a_large_frame_before_a_proof_is_hung_up_on(node: Secured) -> None:
    before = node.resident_bytes()
    peers = [node.connect() for _ in range(40)]
    for peer in peers:
        peer.sendall((524_288).to_bytes(4, "big") + bytes(1000))
    for peer in peers[:20]:
        peer.sendall(bytes(10_000))
    assert node.resident_bytes() - before < MORE_MEMORY_AT_MOST
    greedy = node.connect()
    greedy.sendall((524_289).to_bytes(4, "big"))
    assert greedy.recv(1) == b""
    for peer in (*peers, greedy):
        peer.close()
    assert node.is_well()


def test_half_a_handshake_from_many_peers_keeps_nobody_else_out(
    node: Secured, tmp_path: Path
) -> None:
    hello = client_hello(node)
    peers = [socket.create_connection(("127.0.0.1", node.port), timeout=10) for _ in range(200)]
    for peer in peers:
        peer.sendall(hello[: len(hello) // 2])
    assert node.is_well()
    for peer in peers:
        peer.close()
