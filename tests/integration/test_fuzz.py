"""Valid requests of every API and version with a byte changed, against a live broker.

Each is answered or costs its own connection; the broker goes on, and others are served. Longer
runs: TIDELOG_FUZZ_SEED and TIDELOG_FUZZ_MUTATIONS."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import pytest
from tests.integration.conftest import SETTINGS
from tests.integration.raw import (
    HungUp,
    Peer,
    Topic,
    api_versions,
    batch_of,
    correlation_id,
    create_topic,
    forget_peak,
    peak_bytes,
    produce,
    request,
    resident_bytes,
)
from tests.integration.samples import listener_of, sample, sample_fields
from tests.integration.variations import variations
from tests.known_versions import known_versions
from tests.tiers import examples

from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.testing.cluster import Cluster

MIB = 1 << 20
SEED = int(os.environ.get("TIDELOG_FUZZ_SEED", "20260114"))
MUTATIONS_PER_REQUEST = int(os.environ.get("TIDELOG_FUZZ_MUTATIONS", examples(30)))
LAST = 0x7ABCDEF0
"""The correlation id of the request behind a changed one: its answer shows that all is well."""
ODD_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)

pytestmark = pytest.mark.usefixtures("others_are_served")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One of its own: nobody else meets what odd requests have changed."""
    with Cluster(tmp_path_factory.mktemp("cluster"), settings=SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def victim(bootstrap: str) -> Topic:
    with Peer(bootstrap) as peer:
        made = create_topic(peer, "victim")
        produce(peer, made, batch_of(b"first", b"second"))
        return made


def changed(body: bytes, dice: random.Random) -> Iterator[bytes]:
    """The same request with one byte replaced, cut out, put in, or everything behind it gone."""
    for _ in range(MUTATIONS_PER_REQUEST):
        position = dice.randrange(len(body))
        match dice.randrange(8):
            case 0:
                yield body[:position] + body[position + 1 :]
            case 1:
                yield body[:position] + bytes((dice.choice(ODD_BYTES),)) + body[position:]
            case 2:
                yield body[: position + 1]
            case 3 | 4:
                flipped = body[position] ^ (1 << dice.randrange(8))
                yield body[:position] + bytes((flipped,)) + body[position + 1 :]
            case _:
                odd = bytes((dice.choice(ODD_BYTES),))
                yield body[:position] + odd + body[position + 1 :]


class Prober:
    """Sends changed requests one after the other, on a new connection when one was closed."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._peer: Peer | None = None
        self.answered = 0
        self.closed = 0

    def send(self, body: bytes) -> None:
        if self._peer is None:
            self._peer = Peer(self._address, timeout_s=2.0)
        self._peer.send_frame(body, api_versions(LAST))
        try:
            while correlation_id(self._peer.receive()) != LAST:
                continue
            self.answered += 1
        except HungUp:
            self.closed += 1
            self.close()

    def close(self) -> None:
        if self._peer is not None:
            self._peer.socket.close()
        self._peer = None


@pytest.mark.parametrize("key", SUPPORTED, ids=lambda key: key.name.lower())
def test_a_changed_request_is_answered_or_costs_its_own_connection(
    cluster: Cluster, victim: Topic, key: ApiKey
) -> None:
    pid = cluster.node().pid or 0
    before = resident_bytes(pid)
    forget_peak(pid)
    dice = random.Random(SEED + key)
    prober = Prober(listener_of(cluster, key))
    with Peer(cluster.bootstrap, timeout_s=1.0) as other:
        for version in known_versions(key):
            body = sample(key, version, victim)
            prober.send(body)
            assert prober.closed == 0 or prober.answered > 0, "the request as it was is refused"
            for mutated in changed(body, dice):
                try:
                    prober.send(mutated)
                except TimeoutError:
                    pytest.fail(f"no answer to {key.name} version {version}: {mutated.hex()}")
            assert correlation_id(other.ask(api_versions(version))) == version
    prober.close()
    assert cluster.node().pid == pid, cluster.log_text()[-3000:]
    assert peak_bytes(pid) - before < 64 * MIB


@pytest.mark.parametrize("key", SUPPORTED, ids=lambda key: key.name.lower())
def test_a_request_with_an_odd_field_is_answered_or_costs_its_own_connection(
    cluster: Cluster, victim: Topic, key: ApiKey
) -> None:
    pid = cluster.node().pid or 0
    before = resident_bytes(pid)
    forget_peak(pid)
    prober = Prober(listener_of(cluster, key))
    with Peer(cluster.bootstrap, timeout_s=1.0) as other:
        for version in known_versions(key):
            for what, fields in variations(key, version, sample_fields(key, victim)):
                try:
                    prober.send(request(key, version, fields))
                except TimeoutError:
                    pytest.fail(f"no answer to {key.name} version {version} with {what}")
            assert correlation_id(other.ask(api_versions(version))) == version
    prober.close()
    assert prober.answered > prober.closed
    assert cluster.node().pid == pid, cluster.log_text()[-3000:]
    assert peak_bytes(pid) - before < 64 * MIB


def test_a_changed_batch_is_refused_or_reads_as_it_was_checked(
    cluster: Cluster, peer: Peer, victim: Topic
) -> None:
    """Changes behind the checksum are made good in it, so that what follows is tried too."""
    from tidelog.records.batch import CHECKED_FROM, HEADER_SIZE, read_header, write_header
    from tidelog.records.compression import CompressionType

    dice = random.Random(SEED)
    deadline = time.monotonic() + 5
    for codec in CompressionType:
        whole = bytes(batch_of(*(b"%d" % number * 9 for number in range(9)), codec=codec))
        for mutated in changed(whole, dice):
            produce(peer, victim, mutated)
        for _ in range(100):
            batch = bytearray(whole)
            position = dice.randrange(CHECKED_FROM, len(batch))
            batch[position] = dice.choice(ODD_BYTES)
            if len(batch) >= HEADER_SIZE:
                write_header(batch, read_header(batch))
            produce(peer, victim, batch)
    assert time.monotonic() < deadline
    assert cluster.state() == "running"
