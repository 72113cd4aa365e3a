"""Well-formed requests for what is not there or not allowed: coded errors, nothing else."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.integration.raw import (
    FETCH_VERSIONS,
    PRODUCE_VERSIONS,
    Peer,
    Topic,
    batch_of,
    create_topic,
    delete_topic,
    end_offset,
    fetch,
    fetch_answer,
    fetch_from,
    forget_peak,
    peak_bytes,
    produce,
    resident_bytes,
    start_offset,
)

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.testing.cluster import Cluster

MIB = 1 << 20
ABSENT = Topic("absent", UUID(int=99))

pytestmark = pytest.mark.usefixtures("others_are_served")


@pytest.fixture(scope="module")
def filled(bootstrap: str) -> Topic:
    """A topic with the offsets 2 to 4."""
    with Peer(bootstrap) as peer:
        made = create_topic(peer, "filled")
        for value in (b"a", b"b", b"c", b"d", b"e"):
            produce(peer, made, batch_of(value))
        asked = {"partition_index": 0, "offset": 2}
        fields = {"topics": [{"name": made.name, "partitions": [asked]}], "timeout": 1000}
        (answer,) = peer.call(ApiKey.DELETE_RECORDS, 2, fields).topics[0].partitions
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.none, 2)
        return made


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_only_offsets_from_the_log_start_to_its_end_can_be_fetched(
    peer: Peer, filled: Topic, version: int
) -> None:
    for offset in (-(2**63), -1, 0, 1, 6, 2**63 - 1):
        out_of_range = fetch(peer, filled, offset, version=version)
        assert out_of_range.error == ErrorCode.offset_out_of_range
        assert not out_of_range.records
    assert fetch(peer, filled, 2, version=version).records
    at_the_end = fetch(peer, filled, 5, version=version)
    assert (at_the_end.error, at_the_end.high_watermark) == (ErrorCode.none, 5)
    assert not at_the_end.records


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_unknown_topic_is_refused_by_name_or_by_identity(peer: Peer, version: int) -> None:
    expected = ErrorCode.unknown_topic_or_partition if version < 13 else ErrorCode.unknown_topic_id
    assert fetch(peer, ABSENT, 0, version=version).error == expected


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_record_for_an_unknown_topic_is_refused(peer: Peer, version: int) -> None:
    expected = ErrorCode.unknown_topic_or_partition if version < 13 else ErrorCode.unknown_topic_id
    assert produce(peer, ABSENT, batch_of(b"x"), version=version).error == expected


@pytest.mark.parametrize("version", [each for each in FETCH_VERSIONS if each >= 7])
def test_a_fetch_session_is_used_by_its_number_and_next_epoch_only(
    peer: Peer, filled: Topic, version: int
) -> None:
    def ask(session: tuple[int, int], *, named: bool) -> tuple[int, int]:
        body = fetch_from(version, filled, 5, session=session, named=named)
        answer = fetch_answer(peer, version, body)
        return answer.error, answer.session_id

    assert ask((12345, 1), named=True) == (ErrorCode.fetch_session_id_not_found, 0)
    error, session_id = ask((0, 0), named=True)
    assert error == ErrorCode.none and session_id > 0
    assert ask((session_id, 2), named=False) == (ErrorCode.invalid_fetch_session_epoch, 0)
    assert ask((session_id, 1), named=False) == (ErrorCode.none, session_id)
    assert ask((session_id, 1), named=False) == (ErrorCode.invalid_fetch_session_epoch, 0)
    assert ask((session_id, 2), named=False) == (ErrorCode.none, session_id)
    assert ask((session_id, -1), named=True) == (ErrorCode.none, 0)
    assert ask((session_id, 3), named=False) == (ErrorCode.fetch_session_id_not_found, 0)


@pytest.mark.parametrize("version", [13, 18])
def test_a_session_notices_that_its_topic_was_replaced(
    peer: Peer, topic: str, version: int
) -> None:
    old = create_topic(peer, topic)
    session = fetch_answer(peer, version, fetch_from(version, old, 0, session=(0, 0))).session_id
    delete_topic(peer, old)
    create_topic(peer, topic)
    again = fetch_from(version, old, 0, session=(session, 1), named=False)
    (told,) = fetch_answer(peer, version, again).topics
    assert told.partitions[0].error == ErrorCode.inconsistent_topic_id
    assert fetch(peer, old, 0, version=version).error == ErrorCode.unknown_topic_id


@pytest.mark.parametrize("version", [each for each in FETCH_VERSIONS if each >= 9])
def test_a_reader_from_the_future_is_told_so(peer: Peer, filled: Topic, version: int) -> None:
    ahead = fetch(peer, filled, 3, version=version, leader_epoch=1)
    assert ahead.error == ErrorCode.unknown_leader_epoch
    assert fetch(peer, filled, 3, version=version, leader_epoch=0).error == ErrorCode.none


def test_offsets_are_not_told_to_a_reader_from_the_future(peer: Peer, filled: Topic) -> None:
    asked = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": 1}
    fields = {"replica_id": -1, "topics": [{"name": filled.name, "partitions": [asked]}]}
    for version in range(4, 12):
        (told,) = peer.call(ApiKey.LIST_OFFSETS, version, fields).topics[0].partitions
        assert told.error_code == ErrorCode.unknown_leader_epoch
    ending = {"partition": 0, "current_leader_epoch": 1, "leader_epoch": 0}
    question = {"replica_id": -1, "topics": [{"topic": filled.name, "partitions": [ending]}]}
    for version in range(2, 5):
        answer = peer.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, question)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.unknown_leader_epoch


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("replica_id", [100, 101, 2**31 - 1])
def test_whoever_is_no_replica_cannot_fetch_as_one(
    peer: Peer, filled: Topic, version: int, replica_id: int
) -> None:
    """It could move the high watermark otherwise."""
    stranger = fetch(peer, filled, 5, version=version, replica_id=replica_id)
    assert stranger.error == ErrorCode.not_leader_or_follower
    if version >= 9:
        known = fetch(peer, filled, 5, version=version, replica_id=replica_id, leader_epoch=0)
        assert known.error == ErrorCode.unknown_leader_epoch
    assert fetch(peer, filled, 5, version=version).high_watermark == 5


@pytest.mark.parametrize(
    "limits",
    [
        {"max_wait_ms": -1, "min_bytes": 1 << 30},
        {"max_wait_ms": -(2**31), "min_bytes": 1 << 30},
        {"max_wait_ms": 2**31 - 1, "min_bytes": 0},
        {"max_wait_ms": 2**31 - 1, "min_bytes": -(2**31)},
    ],
)
def test_a_fetch_with_odd_limits_is_answered_at_once(
    peer: Peer, filled: Topic, limits: dict[str, int]
) -> None:
    peer.socket.settimeout(1.0)
    for version in FETCH_VERSIONS:
        assert fetch(peer, filled, 5, version=version, **limits).error == ErrorCode.none


@pytest.mark.parametrize("partition", [-1, 1, 2**31 - 1, -(2**31)])
def test_a_partition_that_does_not_exist_is_unknown(
    peer: Peer, filled: Topic, partition: int
) -> None:
    asked: dict[str, Any] = {"partition_index": partition, "timestamp": -1, "offset": 0}
    listed = {"partition_index": partition, "timestamp": -1}
    fields: dict[str, Any] = {"topics": [{"name": filled.name, "partitions": [listed]}]}
    (told,) = peer.call(ApiKey.LIST_OFFSETS, 5, {"replica_id": -1, **fields}).topics[0].partitions
    assert told.error_code == ErrorCode.unknown_topic_or_partition
    del asked["timestamp"]
    fields = {"topics": [{"name": filled.name, "partitions": [asked]}], "timeout": 1000}
    (told,) = peer.call(ApiKey.DELETE_RECORDS, 2, fields).topics[0].partitions
    assert told.error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("offset", [6, 2**63 - 1, -2, -(2**63)])
def test_records_that_are_not_there_cannot_be_deleted(
    peer: Peer, filled: Topic, offset: int
) -> None:
    asked = {"partition_index": 0, "offset": offset}
    fields = {"topics": [{"name": filled.name, "partitions": [asked]}], "timeout": 1000}
    (told,) = peer.call(ApiKey.DELETE_RECORDS, 2, fields).topics[0].partitions
    assert told.error_code == ErrorCode.offset_out_of_range
    assert (start_offset(peer, filled), end_offset(peer, filled)) == (2, 5)


TOPIC_WISHES: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "too many partitions": ({"num_partitions": 2**31 - 1}, ErrorCode.policy_violation),
    "no partitions": ({"num_partitions": 0}, ErrorCode.invalid_partitions),
    "negative partitions": ({"num_partitions": -(2**31)}, ErrorCode.invalid_partitions),
    "more replicas than brokers": (
        {"replication_factor": 2},
        ErrorCode.invalid_replication_factor,
    ),
    "no replicas": ({"replication_factor": 0}, ErrorCode.invalid_replication_factor),
    "no name": ({"name": ""}, ErrorCode.invalid_topic_exception),
    "name of a directory": ({"name": ".."}, ErrorCode.invalid_topic_exception),
    "name with a slash": ({"name": "../../etc/passwd"}, ErrorCode.invalid_topic_exception),
    "name with a zero": ({"name": "a\x00b"}, ErrorCode.invalid_topic_exception),
    "name too long": ({"name": "x" * 250}, ErrorCode.invalid_topic_exception),
    "metadata topic": ({"name": "__cluster_metadata"}, ErrorCode.invalid_request),
    "unknown config": (
        {"configs": [{"name": "retention.hours", "value": "1"}]},
        ErrorCode.invalid_config,
    ),
    "absurd config": (
        {"configs": [{"name": "segment.bytes", "value": "-99999999999999999999"}]},
        ErrorCode.invalid_config,
    ),
    "replica on an unknown broker": (
        {
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 0, "broker_ids": [4711]}],
        },
        ErrorCode.invalid_replica_assignment,
    ),
}


@pytest.mark.parametrize("case", TOPIC_WISHES)
def test_a_topic_that_cannot_be_is_refused_in_every_version(
    cluster: Cluster, peer: Peer, case: str
) -> None:
    changed, code = TOPIC_WISHES[case]
    wish: dict[str, Any] = {"name": "impossible", "num_partitions": 1, "replication_factor": 1}
    pid = cluster.node().pid or 0
    before = resident_bytes(pid)
    forget_peak(pid)
    for version in range(2, 8):
        fields = {"topics": [wish | changed], "timeout": 1000}
        (refused,) = peer.call(ApiKey.CREATE_TOPICS, version, fields).topics
        assert refused.error_code == code, f"version {version}: {refused}"
    assert peak_bytes(pid) - before < 64 * MIB
    listed = peer.call(ApiKey.METADATA, 9, {"topics": None}).topics
    assert "impossible" not in {each.name for each in listed}


@pytest.mark.parametrize("count", [2**31 - 1, 1, 0, -1])
def test_a_topic_cannot_grow_beyond_all_bounds_nor_shrink(
    peer: Peer, filled: Topic, count: int
) -> None:
    fields = {"topics": [{"name": filled.name, "count": count}], "timeout": 1000}
    for version in range(4):
        (refused,) = peer.call(ApiKey.CREATE_PARTITIONS, version, fields).results
        expected = ErrorCode.policy_violation if count > 1 else ErrorCode.invalid_partitions
        assert refused.error_code == expected


def test_a_client_that_names_itself_oddly_is_refused(peer: Peer) -> None:
    for version in (3, 4):
        for name in ("", " ", "a b", "-a", "a\n"):
            fields = {"client_software_name": name, "client_software_version": "1"}
            answer = peer.call(ApiKey.API_VERSIONS, version, fields)
            assert answer.error_code == ErrorCode.invalid_request


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_is_not_given_by_identity_before_version_12(
    peer: Peer, filled: Topic, version: int
) -> None:
    for asked in ({"name": None}, {"name": filled.name, "topic_id": filled.topic_id}):
        (told,) = peer.call(ApiKey.METADATA, version, {"topics": [asked]}).topics
        assert told.error_code == ErrorCode.invalid_request


def test_a_short_question_does_not_get_an_endless_answer(cluster: Cluster, peer: Peer) -> None:
    pid = cluster.node().pid or 0
    before = resident_bytes(pid)
    forget_peak(pid)
    resource = {"resource_type": 4, "resource_name": "100", "configuration_keys": None}
    fields = {"resources": [resource] * 20_000, "include_documentation": True}
    peer.socket.settimeout(2.0)
    first, *others = peer.call(ApiKey.DESCRIBE_CONFIGS, 4, fields).results
    assert first.error_code == ErrorCode.none and first.configs
    assert {each.error_code for each in others} == {ErrorCode.invalid_request}
    assert peak_bytes(pid) - before < 64 * MIB
