"""SaslHandshake and SaslAuthenticate on a whole node: what is served before, between and after."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.node.api.test_client_quotas import MILLISECOND, set_quotas, waits_ms
from tests.node.node_bench import NodeBench
from tests.node.peer import Peer

from tidelog.model.errors import ErrorCode
from tidelog.node.core.inputs import RequestTook
from tidelog.observe.events import AuthenticationRefused, ConnectionDropped
from tidelog.protocol.apis import ApiKey
from tidelog.security.exchange import SaslClient
from tidelog.security.plain import PlainClient
from tidelog.security.scram import ScramClient, ScramCredential, ScramMechanism

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listeners": "CLIENTS://localhost:9092,PLAINTEXT://localhost:9094,CONTROLLER://localhost:9093",
    "listener.security.protocol.map": (
        "CLIENTS:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.clients.plain.sasl.jaas.config": (
        f'{PLAIN} required user_alice="sesame" user_bob="open";'
    ),
    "listener.name.clients.connections.max.reauth.ms": "60000",
}


@pytest.fixture
def bench() -> NodeBench:
    made = NodeBench(SETTINGS)
    made.start()
    return made


def add_user(bench: NodeBench, user: str, password: str, mechanism: ScramMechanism) -> None:
    salted = mechanism.salted(password, b"salt", 4096)
    answer = bench.connect().ask(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        deletions=[],
        upsertions=[
            {
                "name": user,
                "mechanism": int(mechanism),
                "iterations": 4096,
                "salt": b"salt",
                "salted_password": salted,
            }
        ],
    )
    assert [each.error_code for each in answer.results] == [ErrorCode.none]


def handshake(peer: Peer, mechanism: str, version: int = 1) -> Any:
    return peer.ask(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)


def log_in(peer: Peer, mechanism: str, client: SaslClient, version: int = 2) -> Any:
    """All of an exchange; its last answer."""
    assert handshake(peer, mechanism).error_code == 0
    token: bytes | None = client.begin()
    while True:
        answer = peer.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)
        if answer.error_code != 0:
            return answer
        token = client.respond(bytes(answer.auth_bytes))
        if token is None:
            return answer


def principal_of(bench: NodeBench, peer: Peer) -> str:
    return str(bench.node._connections[peer.connection].principal)


def is_served(peer: Peer) -> bool:
    peer.send(ApiKey.METADATA, 12, topics=[])
    return peer.closed is None and bool(peer.frames) and bool(peer.answer())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_who_proves_by_plain_who_he_is_is_served(bench: NodeBench, version: int) -> None:
    peer = bench.connect("CLIENTS")
    assert peer.ask(ApiKey.API_VERSIONS, 0).error_code == 0
    answer = log_in(peer, "PLAIN", PlainClient("alice", "sesame"), version)
    assert answer.error_code == 0
    assert version == 0 or answer.session_lifetime == timedelta(seconds=60)
    assert principal_of(bench, peer) == "User:alice"
    assert is_served(peer)


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_who_proves_by_scram_who_he_is_is_served(
    bench: NodeBench, mechanism: ScramMechanism
) -> None:
    add_user(bench, "carol", "tide", mechanism)
    peer = bench.connect("CLIENTS")
    client = ScramClient(mechanism, "carol", "tide", b"nonce")
    assert log_in(peer, mechanism.sasl_name, client).error_code == 0
    assert principal_of(bench, peer) == "User:carol"
    assert is_served(peer)


def test_a_credential_is_good_for_its_own_mechanism_alone(bench: NodeBench) -> None:
    add_user(bench, "carol", "tide", ScramMechanism.SCRAM_SHA_256)
    peer = bench.connect("CLIENTS")
    client = ScramClient(ScramMechanism.SCRAM_SHA_512, "carol", "tide", b"nonce")
    handshake(peer, "SCRAM-SHA-512")
    first = peer.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=client.begin())
    token = client.respond(bytes(first.auth_bytes))
    peer.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
    assert isinstance(bench.events[-1], AuthenticationRefused)


def test_bare_tokens_follow_the_oldest_handshake(bench: NodeBench) -> None:
    peer = bench.connect("CLIENTS")
    assert handshake(peer, "PLAIN", 0).error_code == 0
    peer.send_frame(b"\0alice\0sesame")
    assert peer.answer() == b""
    assert principal_of(bench, peer) == "User:alice"
    assert is_served(peer)


def test_a_bare_token_that_fails_ends_the_connection_without_an_answer(bench: NodeBench) -> None:
    peer = bench.connect("CLIENTS")
    handshake(peer, "PLAIN", 0)
    peer.send_frame(b"\0alice\0guess")
    peer.send_frame(b"\0alice\0sesame")
    assert peer.closed is None
    bench.wait(100)
    assert peer.frames == []
    assert peer.closed == "it did not prove who it is"
    assert principal_of(bench, peer) == "User:ANONYMOUS"


@pytest.mark.parametrize("api", [ApiKey.METADATA, ApiKey.SASL_AUTHENTICATE, ApiKey.LIST_GROUPS])
def test_nothing_else_is_served_before_the_handshake(bench: NodeBench, api: ApiKey) -> None:
    peer = bench.connect("CLIENTS")
    bodies: dict[ApiKey, dict[str, Any]] = {
        ApiKey.SASL_AUTHENTICATE: {"auth_bytes": b"\0alice\0sesame"},
        ApiKey.METADATA: {"topics": []},
        ApiKey.LIST_GROUPS: {"states_filter": []},
    }
    peer.send(api, 0 if api is ApiKey.SASL_AUTHENTICATE else 4, **bodies[api])
    assert peer.frames == []
    assert peer.closed is not None
    assert isinstance(bench.events[-1], ConnectionDropped)
    assert bench.events[-1].cause == (
        f"{api.name} was asked by a peer that has not proved who it is"
    )


def test_between_the_tokens_of_an_exchange_nothing_else_is_served(bench: NodeBench) -> None:
    peer = bench.connect("CLIENTS")
    handshake(peer, "PLAIN")
    peer.send(ApiKey.METADATA, 12, topics=[])
    assert peer.frames == []
    assert peer.closed is not None


def test_a_failure_is_answered_after_a_while_and_ends_the_connection(bench: NodeBench) -> None:
    peer = bench.connect("CLIENTS")
    handshake(peer, "PLAIN")
    peer.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0guess")
    assert peer.frames == []
    peer.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0sesame")
    bench.wait(100)
    answer = peer.frames.pop(0)
    assert answer[5:7] == int(ErrorCode.sasl_authentication_failed).to_bytes(2, "big")
    assert b"Authentication failed: Invalid username or password" in answer
    assert peer.frames == []
    assert peer.closed is not None
    assert principal_of(bench, peer) == "User:ANONYMOUS"
    (refused,) = (each for each in bench.events if isinstance(each, AuthenticationRefused))
    assert (refused.user, refused.mechanism) == ("alice", "PLAIN")
    assert "guess" not in str(refused) + refused.cause


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(bench: NodeBench) -> None:
    peer = bench.connect("CLIENTS")
    peer.send(ApiKey.SASL_HANDSHAKE, 1, mechanism="GSSAPI")
    bench.wait(100)
    frame = peer.frames.pop(0)
    assert frame[4:6] == int(ErrorCode.unsupported_sasl_mechanism).to_bytes(2, "big")
    assert b"SCRAM-SHA-512" in frame
    assert peer.closed is not None


def test_frames_are_small_until_a_peer_has_proved_who_it_is(bench: NodeBench) -> None:
    peer = bench.connect("CLIENTS")
    assert peer.frame_limit == 524_288
    log_in(peer, "PLAIN", PlainClient("alice", "sesame"))
    assert peer.frame_limit == 104_857_600
    assert bench.connect("PLAINTEXT").frame_limit is None


def test_nobody_waits_for_the_time_that_strangers_took(bench: NodeBench) -> None:
    set_quotas(bench.connect(), {"user": None}, request_percentage=1.0)
    for _ in range(2):
        stranger = bench.connect("CLIENTS")
        answer = stranger.ask(
            ApiKey.API_VERSIONS, 3, client_software_name="test", client_software_version="1"
        )
        assert waits_ms(answer) == 0
        bench.step(RequestTook(bench.now, 500 * MILLISECOND))


def test_a_peer_has_half_a_minute(bench: NodeBench) -> None:
    slow, quick = bench.connect("CLIENTS"), bench.connect("CLIENTS")
    log_in(quick, "PLAIN", PlainClient("alice", "sesame"))
    handshake(slow, "PLAIN")
    bench.wait(30_000)
    assert slow.closed == "it did not prove in time who it is"
    assert quick.closed is None


def test_a_session_ends_unless_it_is_renewed(bench: NodeBench) -> None:
    peer = bench.connect("CLIENTS")
    log_in(peer, "PLAIN", PlainClient("alice", "sesame"))
    bench.wait(59_999)
    assert is_served(peer)
    assert log_in(peer, "PLAIN", PlainClient("alice", "sesame")).error_code == 0
    bench.wait(59_999)
    assert is_served(peer)
    bench.wait(1)
    assert not is_served(peer)
    assert peer.closed == "its session is over, and it has not proved itself anew"


def test_a_session_that_is_over_may_still_be_renewed(bench: NodeBench) -> None:
    peer = bench.connect("CLIENTS")
    log_in(peer, "PLAIN", PlainClient("alice", "sesame"))
    bench.wait(70_000)
    assert log_in(peer, "PLAIN", PlainClient("alice", "sesame")).error_code == 0
    assert is_served(peer)


def test_nobody_becomes_another_user_or_changes_the_mechanism_on_the_way(bench: NodeBench) -> None:
    for mechanism, user, password in (("PLAIN", "bob", "open"), ("SCRAM-SHA-256", "alice", "x")):
        peer = bench.connect("CLIENTS")
        log_in(peer, "PLAIN", PlainClient("alice", "sesame"))
        bench.wait(5_000)
        if mechanism == "PLAIN":
            handshake(peer, mechanism)
            token = PlainClient(user, password).begin()
            peer.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
        else:
            peer.send(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)
        bench.wait(100)
        assert peer.closed is not None
        assert principal_of(bench, peer) == "User:alice"


def test_to_renew_at_once_is_not_the_moment(bench: NodeBench) -> None:
    peer = bench.connect("CLIENTS")
    log_in(peer, "PLAIN", PlainClient("alice", "sesame"))
    bench.wait(999)
    assert handshake(peer, "PLAIN").error_code == ErrorCode.illegal_sasl_state
    assert is_served(peer)


def test_where_nobody_has_to_prove_anything_there_is_no_moment_for_it(bench: NodeBench) -> None:
    peer = bench.connect("PLAINTEXT")
    assert handshake(peer, "PLAIN").error_code == ErrorCode.illegal_sasl_state
    answer = peer.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0sesame")
    assert answer.error_code == ErrorCode.illegal_sasl_state
    assert principal_of(bench, peer) == "User:ANONYMOUS"


def test_who_was_removed_proves_nothing_any_more(bench: NodeBench) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    add_user(bench, "carol", "tide", mechanism)
    deletion = {"name": "carol", "mechanism": int(mechanism)}
    bench.connect().ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[deletion], upsertions=[])
    peer = bench.connect("CLIENTS")
    handshake(peer, "SCRAM-SHA-256")
    client = ScramClient(mechanism, "carol", "tide", b"nonce")
    first = peer.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=client.begin())
    token = client.respond(bytes(first.auth_bytes))
    peer.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
    assert isinstance(bench.events[-1], AuthenticationRefused)
    assert bench.events[-1].user == ""


def test_credentials_are_described_and_never_shown(bench: NodeBench) -> None:
    add_user(bench, "carol", "tide", ScramMechanism.SCRAM_SHA_256)
    asked = bench.connect()
    everyone = asked.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None)
    (carol,) = everyone.results
    assert carol.user == "carol"
    assert [(info.mechanism, info.iterations) for info in carol.credential_infos] == [(1, 4096)]
    missing = asked.ask(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=[{"name": "dave"}, {"name": "carol"}]
    )
    codes = {each.user: each.error_code for each in missing.results}
    assert codes == {"dave": ErrorCode.resource_not_found, "carol": ErrorCode.none}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"name": ""}, ErrorCode.unacceptable_credential),
        ({"mechanism": 0}, ErrorCode.unsupported_sasl_mechanism),
        ({"mechanism": 3}, ErrorCode.unsupported_sasl_mechanism),
        ({"iterations": 4095}, ErrorCode.unacceptable_credential),
        ({"iterations": 16385}, ErrorCode.unacceptable_credential),
    ],
)
def test_a_credential_that_is_no_good_is_refused(
    bench: NodeBench, change: dict[str, Any], code: ErrorCode
) -> None:
    good = {
        "name": "carol",
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": b"salted",
    }
    answer = bench.connect().ask(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[{**good, **change}]
    )
    assert [each.error_code for each in answer.results] == [code]
    assert bench.node.cluster.image.access.credentials == {}


def test_a_user_is_changed_once_in_a_request(bench: NodeBench) -> None:
    add_user(bench, "carol", "tide", ScramMechanism.SCRAM_SHA_256)
    answer = bench.connect().ask(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        deletions=[
            {"name": "carol", "mechanism": 1},
            {"name": "carol", "mechanism": 2},
            {"name": "dave", "mechanism": 1},
        ],
        upsertions=[],
    )
    codes = {each.user: each.error_code for each in answer.results}
    assert codes == {
        "carol": ErrorCode.duplicate_resource,
        "dave": ErrorCode.resource_not_found,
    }
    assert len(bench.node.cluster.image.access.credentials) == 1


def test_credentials_do_not_show_their_keys() -> None:
    shown = repr(ScramCredential(b"salt", b"stored", b"server", 4096))
    assert shown == "ScramCredential(hidden)"


FRAMES = st.one_of(
    st.binary(max_size=300),
    st.tuples(
        st.sampled_from([b"\x00\x11\x00\x01", b"\x00\x24\x00\x02", b"\x00\x12\x00\x03"]),
        st.binary(max_size=120),
    ).map(b"".join),
)


@settings(max_examples=200, deadline=None)
@given(frames=st.lists(FRAMES, max_size=6), version=st.sampled_from([None, 0, 1]))
def test_nothing_that_is_sent_before_a_proof_makes_anybody_somebody(
    frames: list[bytes], version: int | None
) -> None:
    bench = _shared_bench()
    peer = bench.connect("CLIENTS")
    if version is not None:
        handshake(peer, "SCRAM-SHA-512", version)
    for frame in frames:
        if peer.closed is None and frame:
            peer.send_frame(frame)
    bench.wait(100)
    assert principal_of(bench, peer) == "User:ANONYMOUS"


_SHARED: list[NodeBench] = []


def _shared_bench() -> NodeBench:
    if not _SHARED:
        _SHARED.append(NodeBench(SETTINGS))
        _SHARED[0].start()
    return _SHARED[0]
