"""DescribeClientQuotas and AlterClientQuotas, and what their quotas do to clients."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.node.core.inputs import RequestTook
from tidelog.node.inspection.metrics import node_metrics
from tidelog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from uuid import UUID

    from tests.node.conftest import NewBatch
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

    from tidelog.protocol.fetch import FetchResponse

MILLISECOND = 1_000_000


def set_quotas(
    peer: Peer, entity: dict[str, str | None], *, version: int = 1, **quotas: float | None
) -> int:
    """Set quotas of one entity, or take away those without a value; the error code."""
    answer = peer.ask(
        ApiKey.ALTER_CLIENT_QUOTAS,
        version,
        entries=[
            {
                "entity": [
                    {"entity_type": kind, "entity_name": name} for kind, name in entity.items()
                ],
                "ops": [
                    {"key": key, "value": value or 0.0, "remove": value is None}
                    for key, value in quotas.items()
                ],
            }
        ],
        validate_only=False,
    )
    [entry] = answer.entries
    return int(entry.error_code)


def describe(peer: Peer, version: int = 1, *filters: tuple[str, int, str | None]) -> Any:
    return peer.ask(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        version,
        components=[
            {"entity_type": kind, "match_type": how, "match": match} for kind, how, match in filters
        ],
        strict=False,
    )


def waits_ms(answer: Any) -> int:
    """How long the answer tells to wait."""
    return int(answer.throttle_time.total_seconds() * 1000)


@pytest.fixture
def orders(bench: NodeBench) -> UUID:
    return bench.create_topic("orders")


@pytest.mark.parametrize("version", [0, 1])
def test_what_was_altered_is_described(peer: Peer, version: int) -> None:
    entity = {"user": "ann", "client-id": None}
    assert set_quotas(peer, entity, version=version, producer_byte_rate=512.0) == 0
    answer = describe(peer, version, ("user", 0, "ann"))
    assert (answer.error_code, answer.error_message) == (0, None)
    [entry] = answer.entries
    assert {part.entity_type: part.entity_name for part in entry.entity} == entity
    assert [(value.key, value.value) for value in entry.values] == [("producer_byte_rate", 512.0)]


@pytest.mark.parametrize("version", [0, 1])
def test_what_is_wrong_is_refused_in_every_version(peer: Peer, version: int) -> None:
    refused = set_quotas(peer, {"user": "ann"}, version=version, producer_byte_rate=-1.0)
    assert refused == ErrorCode.invalid_request
    answer = describe(peer, version, ("user", 0, None))
    assert answer.error_code == ErrorCode.invalid_request
    assert answer.entries is None


# Produce


def produced_bytes(peer: Peer, batch: bytes, **how: Any) -> tuple[int, int]:
    """The size of the request, and how long its answer says to wait."""
    peer.send_produce({("orders", 0): batch}, **how)
    peer.bench.end_tick()
    return len(peer.sent), peer.produced().throttle_ms


def test_a_producer_over_its_quota_is_answered_at_once_and_not_read_for_the_time_it_is_told(
    bench: NodeBench, peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    set_quotas(peer, {"client-id": "test"}, producer_byte_rate=1000.0)
    size, told_ms = produced_bytes(peer, batch(b"x" * 20_000), acks=1)
    assert told_ms == round(size / 10_000 * 10_000 - 10_000)
    assert not peer.is_read
    bench.wait(told_ms - 1)
    assert not peer.is_read
    bench.wait(1)
    assert peer.is_read


def test_a_producer_below_its_quota_is_read_on(peer: Peer, batch: NewBatch, orders: UUID) -> None:
    set_quotas(peer, {"client-id": "test"}, producer_byte_rate=100_000.0)
    assert produced_bytes(peer, batch(b"x" * 20_000))[1] == 0
    assert peer.is_read


def test_a_producer_that_wants_no_answer_is_throttled_too(
    bench: NodeBench, peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    set_quotas(peer, {"client-id": "test"}, producer_byte_rate=1000.0)
    peer.send_produce({("orders", 0): batch(b"x" * 20_000)}, acks=0)
    bench.end_tick()
    assert peer.frames == []
    assert not peer.is_read
    bench.wait(11_000)
    assert peer.is_read


def test_connections_of_one_entity_share_its_rate_and_others_do_not(
    bench: NodeBench, peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    set_quotas(peer, {"client-id": "test"}, producer_byte_rate=10_000.0)
    assert produced_bytes(peer, batch(b"x" * 60_000))[1] == 0
    sibling, stranger = bench.connect(), bench.connect(client_id="other")
    assert produced_bytes(sibling, batch(b"x" * 60_000))[1] > 0
    assert produced_bytes(stranger, batch(b"x" * 60_000))[1] == 0
    assert peer.is_read


def test_a_quota_that_is_taken_away_bounds_nobody_any_more(
    bench: NodeBench, peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    set_quotas(peer, {"client-id": None}, producer_byte_rate=1000.0)
    assert produced_bytes(peer, batch(b"x" * 20_000))[1] > 0
    set_quotas(peer, {"client-id": None}, producer_byte_rate=None)
    assert produced_bytes(peer, batch(b"x" * 20_000))[1] == 0
    assert not bench.node.rooms.base.throttles.are_set


def test_quotas_are_there_again_after_a_restart(
    bench: NodeBench, peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    set_quotas(peer, {"client-id": "test"}, producer_byte_rate=1000.0)
    bench.stop()
    again = bench.again()
    again.wait(1_000)
    assert produced_bytes(again.connect(), batch(b"x" * 20_000))[1] > 0


# Fetch


def fetch_patiently(peer: Peer, offset: int, **how: Any) -> tuple[int, FetchResponse]:
    """Fetch again after each wait until records come; how long that took, and the answer."""
    waited_ms = 0
    answer = peer.fetch({("orders", 0): offset}, **how)
    while answer.throttle_ms > 0:
        assert (answer.error, answer.topics) == (0, [])
        assert not peer.is_read
        waited_ms += answer.throttle_ms
        assert waited_ms < 30_000
        peer.bench.wait(answer.throttle_ms)
        assert peer.is_read
        if "session_epoch" in how:
            how["session_epoch"] += 1
        answer = peer.fetch({("orders", 0): offset}, **how)
    return waited_ms, answer


def test_a_consumer_over_its_quota_gets_empty_answers_and_the_records_later(
    peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    for _ in range(3):
        peer.produce("orders", batch(b"x" * 20_000))
    set_quotas(peer, {"client-id": "test"}, consumer_byte_rate=2_100.0)
    waits = []
    for offset in range(3):
        waited_ms, answer = fetch_patiently(peer, offset)
        assert len(answer.topics) == 1
        waits.append(waited_ms)
    assert waits[0] < 100  # for what an answer says besides records
    assert 9_000 < waits[1] < 22_000
    assert 9_000 < waits[2] < 22_000


def test_a_fetch_asks_for_no_more_than_the_windows_allow(
    peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    for _ in range(10):
        peer.produce("orders", batch(b"x" * 1_000))
    set_quotas(peer, {"client-id": "test"}, consumer_byte_rate=400.0)
    waited_ms, answer = fetch_patiently(peer, 0)
    assert waited_ms < 200
    [topic] = answer.topics
    assert len(topic.partitions[0].records or b"") == 4_000


def test_a_session_goes_on_after_throttled_fetches_and_has_missed_nothing(
    peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    opened = peer.fetch({("orders", 0): 0}, session_epoch=0, max_wait_ms=0)
    session: dict[str, Any] = {"session_id": opened.session_id, "max_wait_ms": 0}
    peer.produce("orders", batch(b"x" * 20_000))
    set_quotas(peer, {"client-id": "test"}, consumer_byte_rate=2_100.0)
    assert len(peer.fetch(session_epoch=1, **session).topics) == 1
    peer.produce("orders", batch(b"y" * 20_000))
    waited_ms, after = fetch_patiently(peer, 1, session_epoch=2, **session)
    assert waited_ms > 9_000
    assert (after.error, after.session_id) == (0, opened.session_id)
    [topic] = after.topics
    assert topic.partitions[0].records


def test_a_session_that_would_begin_throttled_does_not_begin(
    bench: NodeBench, peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    peer.produce("orders", batch(b"x" * 20_000))
    set_quotas(peer, {"client-id": "test"}, consumer_byte_rate=2_100.0)
    peer.fetch({("orders", 0): 0})
    answer = peer.fetch({("orders", 0): 0}, session_epoch=0, max_wait_ms=0)
    assert (answer.session_id, answer.topics) == (0, [])
    assert answer.throttle_ms > 0
    assert len(bench.node.rooms.base.sessions) == 0


# The time of requests


def test_requests_are_measured_only_while_somebody_has_a_quota_of_time(
    bench: NodeBench, peer: Peer
) -> None:
    assert not bench.measures_requests
    set_quotas(peer, {"client-id": "test"}, producer_byte_rate=1.0)
    assert not bench.measures_requests
    set_quotas(peer, {"client-id": "test"}, request_percentage=1.0)
    assert bench.measures_requests
    set_quotas(peer, {"client-id": "test"}, request_percentage=None)
    assert not bench.measures_requests


def test_who_took_too_much_of_the_nodes_time_waits_for_at_most_one_window(
    bench: NodeBench, peer: Peer
) -> None:
    set_quotas(peer, {"client-id": "test"}, request_percentage=1.0)
    assert waits_ms(peer.ask(ApiKey.METADATA, 12, **ALL_TOPICS)) == 0
    bench.step(RequestTook(bench.now, 101 * MILLISECOND))
    assert waits_ms(peer.ask(ApiKey.METADATA, 12, **ALL_TOPICS)) == 100
    assert not peer.is_read
    bench.step(RequestTook(bench.now, 5_000 * MILLISECOND))
    assert waits_ms(peer.ask(ApiKey.METADATA, 12, **ALL_TOPICS)) == 1_000
    bench.wait(1_000)
    assert peer.is_read


ALL_TOPICS = {
    "topics": None,
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}


def test_time_counts_for_whoever_took_it(bench: NodeBench, peer: Peer) -> None:
    set_quotas(peer, {"client-id": None}, request_percentage=1.0)
    stranger = bench.connect(client_id="other")
    stranger.ask(ApiKey.METADATA, 12, **ALL_TOPICS)
    bench.step(RequestTook(bench.now, 500 * MILLISECOND))
    assert waits_ms(peer.ask(ApiKey.METADATA, 12, **ALL_TOPICS)) == 0
    assert waits_ms(stranger.ask(ApiKey.METADATA, 12, **ALL_TOPICS)) > 0


def test_time_of_what_was_no_request_counts_for_nobody(bench: NodeBench, peer: Peer) -> None:
    set_quotas(peer, {"client-id": None}, request_percentage=1.0)
    peer.ask(ApiKey.METADATA, 12, **ALL_TOPICS)
    bench.step(RequestTook(bench.now, 0))
    bench.step(RequestTook(bench.now, 500 * MILLISECOND))
    assert waits_ms(peer.ask(ApiKey.METADATA, 12, **ALL_TOPICS)) == 0


def test_every_kind_of_answer_tells_the_time_in_every_version(
    bench: NodeBench, peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    set_quotas(peer, {"client-id": "test"}, request_percentage=1.0)
    peer.ask(ApiKey.METADATA, 12, **ALL_TOPICS)
    bench.step(RequestTook(bench.now, 1_000 * MILLISECOND))
    for version in range(3, 14):
        fields = {
            key: value for key, value in ALL_TOPICS.items() if key in METADATA_FIELDS[version]
        }
        assert waits_ms(peer.ask(ApiKey.METADATA, version, **fields)) > 0
    assert waits_ms(describe(peer)) > 0
    assert peer.fetch({("orders", 0): 0}, max_wait_ms=0).throttle_ms > 0
    assert produced_bytes(peer, batch())[1] > 0
    answer = peer.ask(
        ApiKey.API_VERSIONS, 3, client_software_name="test", client_software_version="1"
    )
    assert waits_ms(answer) > 0


METADATA_FIELDS = {
    version: {
        "topics",
        *(["allow_auto_topic_creation"] if version >= 4 else []),
        *(["include_topic_authorized_operations"] if version >= 8 else []),
    }
    for version in range(14)
}


def test_what_is_done_for_followers_on_controllers_listeners_and_without_an_answer_is_exempt(
    bench: NodeBench, peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    set_quotas(peer, {"client-id": None}, request_percentage=1.0)
    exempt = bench.node.rooms.base.throttles.exempt
    controllers = bench.connect("CONTROLLER")
    controllers.ask(
        ApiKey.API_VERSIONS, 3, client_software_name="test", client_software_version="1"
    )
    bench.step(RequestTook(bench.now, 1_000 * MILLISECOND))
    assert exempt.per_second(bench.now.monotonic_ms) == pytest.approx(10)
    peer.fetch({("orders", 0): 0}, replica_id=2, max_wait_ms=0)
    bench.step(RequestTook(bench.now, 1_000 * MILLISECOND))
    assert exempt.per_second(bench.now.monotonic_ms) == pytest.approx(20)
    peer.send_produce({("orders", 0): batch()}, acks=0)
    bench.step(RequestTook(bench.now, 1_000 * MILLISECOND))
    assert exempt.per_second(bench.now.monotonic_ms) == pytest.approx(30)
    assert waits_ms(peer.ask(ApiKey.METADATA, 12, **ALL_TOPICS)) == 0


# Changes that the controller makes


def create(peer: Peer, *topics: tuple[str, int], version: int = 7) -> tuple[list[int], int]:
    """Create topics with so many partitions; the error codes, and how long to wait."""
    answer = peer.ask(
        ApiKey.CREATE_TOPICS,
        version,
        topics=[
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": 1,
                "assignments": [],
                "configs": [],
            }
            for name, partitions in topics
        ],
        timeout=timedelta(seconds=1),
        validate_only=False,
    )
    return [int(topic.error_code) for topic in answer.topics], waits_ms(answer)


EXCEEDED = int(ErrorCode.throttling_quota_exceeded)


def test_who_has_used_up_its_tokens_is_refused_the_rest_and_told_how_long_to_wait(
    bench: NodeBench, peer: Peer
) -> None:
    set_quotas(peer, {"client-id": "test"}, controller_mutation_rate=1.0)
    assert create(peer, ("a", 12), ("b", 1)) == ([0, EXCEEDED], 1_000)
    assert not peer.is_read
    bench.wait(1_000)
    assert peer.is_read
    assert create(peer, ("b", 1)) == ([0], 0)


def test_a_client_that_does_not_know_the_error_gets_what_it_asks_for_and_waits(
    peer: Peer,
) -> None:
    set_quotas(peer, {"client-id": "test"}, controller_mutation_rate=1.0)
    assert create(peer, ("a", 12), ("b", 1), version=5) == ([0, 0], 2_000)
    assert not peer.is_read


def test_deletions_and_new_partitions_are_counted_like_creations(
    bench: NodeBench, peer: Peer
) -> None:
    assert create(peer, ("a", 12), ("b", 1)) == ([0, 0], 0)
    set_quotas(peer, {"client-id": "test"}, controller_mutation_rate=1.0)
    grown = peer.ask(
        ApiKey.CREATE_PARTITIONS,
        3,
        topics=[{"name": "b", "count": 13, "assignments": None}],
        timeout=timedelta(seconds=1),
        validate_only=False,
    )
    assert [topic.error_code for topic in grown.results] == [0]
    named = [{"name": "a", "topic_id": None}]
    refused = peer.ask(ApiKey.DELETE_TOPICS, 6, topics=named, timeout=timedelta(seconds=1))
    assert [topic.error_code for topic in refused.responses] == [EXCEEDED]
    assert waits_ms(refused) == 1_000
    old = peer.ask(ApiKey.DELETE_TOPICS, 4, topic_names=["a"], timeout=timedelta(seconds=1))
    assert [topic.error_code for topic in old.responses] == [0]
    assert waits_ms(old) == 13_000


def test_brokers_that_ask_a_controller_for_topics_are_not_bounded(
    bench: NodeBench, peer: Peer
) -> None:
    set_quotas(peer, {"client-id": None}, controller_mutation_rate=1.0)
    broker = bench.connect("CONTROLLER", "broker-1")
    assert create(broker, ("a", 12), ("b", 1)) == ([0, 0], 0)


# Connections


def test_quotas_of_addresses_are_told_to_the_shell(bench: NodeBench, peer: Peer) -> None:
    set_quotas(peer, {"ip": "10.0.0.1"}, connection_creation_rate=3.0)
    set_quotas(peer, {"ip": None}, connection_creation_rate=20.0)
    assert (bench.limits[-1].rate_per_host, bench.limits[-1].rates_of_hosts) == (
        20,
        {"10.0.0.1": 3},
    )
    told = len(bench.limits)
    set_quotas(peer, {"client-id": "test"}, producer_byte_rate=3.0)
    assert len(bench.limits) == told
    set_quotas(peer, {"ip": "10.0.0.1"}, connection_creation_rate=None)
    assert bench.limits[-1].rates_of_hosts == {}


def test_metrics_tell_how_often_and_how_long_clients_had_to_wait(
    bench: NodeBench, peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    set_quotas(peer, {"client-id": "test"}, producer_byte_rate=1000.0)
    waited_ms = produced_bytes(peer, batch(b"x" * 20_000))[1]
    surveying = bench.node.inspection.survey()
    with pytest.raises(StopIteration) as surveyed:
        while True:
            next(surveying)
    told = {
        (metric.family.name, *labels): value
        for metric in node_metrics(bench.node.inspection, surveyed.value.value, bench.now)
        for labels, value in metric.values
    }
    assert told["kafka_server_clientquotamanager_throttled_total", "Produce"] == 1
    assert told["kafka_server_clientquotamanager_throttletimems_total", "Produce"] == waited_ms
    assert told["kafka_server_clientquotamanager_throttled_total", "Fetch"] == 0


def test_the_longest_time_that_an_answer_can_tell_is_the_longest_to_wait(
    peer: Peer, batch: NewBatch, orders: UUID
) -> None:
    set_quotas(peer, {"client-id": "test"}, producer_byte_rate=1.0)
    for _ in range(5):
        told_ms = produced_bytes(peer, batch(b"x" * 500_000))[1]
    assert told_ms == 2**31 - 1
