"""Groups and their offsets, as clients of every version meet them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from tests.node.node_bench import NodeBench
from tests.node.peer import Peer
from tests.protocol.kio_messages.entity_messages import decode_response

from tidelog.coordinator.internal_topics import partition_of
from tidelog.model.errors import ErrorCode
from tidelog.observe.coordinator_events import CoordinatorLoaded, InternalTopicMissing
from tidelog.protocol.apis import SUPPORTED, ApiKey

OFFSETS_TOPIC = "__consumer_offsets"
NewBench = Callable[..., NodeBench]
SETTINGS = {
    "offsets_topic_num_partitions": "4",
    "offsets_topic_replication_factor": "1",
    "group_initial_rebalance_delay_ms": "0",
}


def versions(api: ApiKey) -> list[int]:
    return list(range(SUPPORTED[api].min, SUPPORTED[api].max + 1))


@pytest.fixture
def bench(new_bench: NewBench) -> NodeBench:
    started = new_bench(**SETTINGS)
    started.create_topic("orders", partitions=2)
    return started


@pytest.fixture
def peer(bench: NodeBench) -> Peer:
    """A client that has found its coordinator."""
    client = bench.connect()
    client.ask(ApiKey.FIND_COORDINATOR, 1, key="group", key_type=0)
    assert client.ask(ApiKey.FIND_COORDINATOR, 1, key="group", key_type=0).error_code == 0
    return client


def topic_id(bench: NodeBench, name: str = "orders") -> UUID:
    return bench.node.cluster.image.topics_by_name[name].topic_id


def join(peer: Peer, version: int = 5, **fields: Any) -> Any:
    wish = {
        "group_id": "group",
        "session_timeout": 10_000,
        "rebalance_timeout": 30_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"meta"}],
        "reason": None,
        **fields,
    }
    peer.send(ApiKey.JOIN_GROUP, version, **wish)
    peer.bench.wait(0)
    peer.bench.end_tick()
    return decode_response(ApiKey.JOIN_GROUP, version, peer.answer())[1]


def joined(peer: Peer, version: int = 5, **fields: Any) -> Any:
    """Join, with the id that a first try may give."""
    reply = join(peer, version, **fields)
    if reply.error_code == ErrorCode.member_id_required:
        reply = join(peer, version, **{**fields, "member_id": reply.member_id})
    assert reply.error_code == 0
    return reply


def synced(peer: Peer, member: Any, version: int = 3, **fields: Any) -> Any:
    return peer.ask(
        ApiKey.SYNC_GROUP,
        version,
        group_id="group",
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=None,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": member.member_id, "assignment": b"everything"}],
        **fields,
    )


def commit(peer: Peer, version: int, offset: int, **fields: Any) -> Any:
    partition = {
        "partition_index": 1,
        "committed_offset": offset,
        "committed_leader_epoch": 0,
        "committed_metadata": "note",
    }
    topic = {"name": "orders", "topic_id": topic_id(peer.bench), "partitions": [partition]}
    if version >= 10:
        del topic["name"]
    else:
        del topic["topic_id"]
    wish = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    wish |= {"retention_time": -1, **fields}
    answer = peer.ask(ApiKey.OFFSET_COMMIT, version, group_id="group", topics=[topic], **wish)
    [answered] = answer.topics
    [result] = answered.partitions
    return result.error_code


def fetch_offset(peer: Peer, version: int) -> Any:
    [partition] = fetch_offsets(peer, version, [1])
    return partition


def fetch_offsets(peer: Peer, version: int, indexes: list[int]) -> Any:
    wanted = {"name": "orders", "topic_id": topic_id(peer.bench), "partition_indexes": indexes}
    del wanted["name" if version >= 10 else "topic_id"]
    if version >= 8:
        group = {"group_id": "group", "member_id": None, "member_epoch": -1, "topics": [wanted]}
        if version < 9:
            del group["member_id"], group["member_epoch"]
        answer = peer.ask(ApiKey.OFFSET_FETCH, version, groups=[group], require_stable=True)
        [answer] = answer.groups
    else:
        answer = peer.ask(
            ApiKey.OFFSET_FETCH, version, group_id="group", topics=[wanted], require_stable=True
        )
    [topic] = answer.topics
    return topic.partitions


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
def test_the_offsets_topic_is_created_when_somebody_looks_for_a_coordinator(
    bench: NodeBench, version: int
) -> None:
    peer = bench.connect()

    def find() -> Any:
        if version >= 4:
            answer = peer.ask(
                ApiKey.FIND_COORDINATOR, version, key_type=0, coordinator_keys=["group"]
            )
            return answer.coordinators[0]
        return peer.ask(ApiKey.FIND_COORDINATOR, version, key="group", key_type=0)

    first = find()
    assert first.error_code in (ErrorCode.coordinator_not_available, ErrorCode.none)
    found = find()
    assert (found.error_code, found.node_id, found.port) == (ErrorCode.none, 100, 9092)
    topic = bench.node.cluster.image.topics_by_name[OFFSETS_TOPIC]
    assert len(topic.partitions) == 4
    configs = bench.node.cluster.image.config(2, OFFSETS_TOPIC)
    assert configs["cleanup.policy"] == "compact"


def test_there_is_no_coordinator_of_a_type_that_nobody_knows(peer: Peer) -> None:
    answer = peer.ask(ApiKey.FIND_COORDINATOR, 6, key_type=2, coordinator_keys=["share"])
    assert answer.coordinators[0].error_code == ErrorCode.invalid_request


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_members_join_in_every_version(peer: Peer, version: int) -> None:
    member = joined(peer, version)
    assert (member.generation_id, member.leader) == (1, member.member_id)
    assert member.members[0].metadata == b"meta"


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_refusals_of_a_join_can_be_said_in_every_version(peer: Peer, version: int) -> None:
    assert join(peer, version, group_id="").error_code == ErrorCode.invalid_group_id
    for timeout in (5999, 1_800_001):
        refused = join(peer, version, session_timeout=timeout)
        assert refused.error_code == ErrorCode.invalid_session_timeout
    assert join(peer, version, member_id="nobody").error_code == ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
def test_members_get_their_assignment_in_every_version(peer: Peer, version: int) -> None:
    member = joined(peer)
    assert synced(peer, member, version).assignment == b"everything"
    stale = synced(peer, join(peer, member_id="nobody"), version)
    assert stale.error_code == ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
def test_heartbeats_are_answered_in_every_version(peer: Peer, version: int) -> None:
    member = joined(peer)
    beat = {"group_id": "group", "generation_id": 1, "group_instance_id": None}
    answer = peer.ask(ApiKey.HEARTBEAT, version, member_id=member.member_id, **beat)
    assert answer.error_code == ErrorCode.none
    answer = peer.ask(ApiKey.HEARTBEAT, version, member_id="nobody", **beat)
    assert answer.error_code == ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
def test_members_leave_in_every_version(peer: Peer, version: int) -> None:
    member = joined(peer)
    if version < 3:
        answer = peer.ask(ApiKey.LEAVE_GROUP, version, group_id="group", member_id=member.member_id)
        assert answer.error_code == ErrorCode.none
        return
    leavers = [
        {"member_id": member_id, "group_instance_id": None, "reason": None}
        for member_id in (member.member_id, "nobody")
    ]
    answer = peer.ask(ApiKey.LEAVE_GROUP, version, group_id="group", members=leavers)
    assert [each.error_code for each in answer.members] == [0, ErrorCode.unknown_member_id]


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_offsets_are_committed_in_every_version(peer: Peer, version: int) -> None:
    assert commit(peer, version, 42) == ErrorCode.none
    assert fetch_offset(peer, 5).committed_offset == 42
    assert commit(peer, version, 1, member_id="nobody", generation_id_or_member_epoch=3) in (
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
    )


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_offsets_are_read_back_in_every_version(peer: Peer, version: int) -> None:
    missing = fetch_offset(peer, version)
    assert (missing.committed_offset, missing.metadata, missing.error_code) == (-1, "", 0)
    commit(peer, 8, 42)
    fetched = fetch_offset(peer, version)
    assert (fetched.committed_offset, fetched.metadata) == (42, "note")
    if version >= 5:
        assert fetched.committed_leader_epoch == 0


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_a_topic_is_answered_once_whether_or_not_all_its_partitions_have_offsets(
    peer: Peer, version: int
) -> None:
    commit(peer, 8, 42)
    fetched = fetch_offsets(peer, version, [1, 0])
    assert [(each.partition_index, each.committed_offset) for each in fetched] == [(1, 42), (0, -1)]


def test_offsets_of_topics_that_do_not_exist_are_refused(peer: Peer) -> None:
    nowhere = {
        "name": "nowhere",
        "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": None}],
    }
    answer = peer.ask(
        ApiKey.OFFSET_COMMIT,
        5,
        group_id="group",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[nowhere],
    )
    refused = answer.topics[0].partitions[0].error_code
    assert refused == ErrorCode.unknown_topic_or_partition


def test_unknown_topic_ids_are_named_as_such(peer: Peer) -> None:
    group = {
        "group_id": "group",
        "member_id": None,
        "member_epoch": -1,
        "topics": [{"topic_id": UUID(int=77), "partition_indexes": [0]}],
    }
    answer = peer.ask(ApiKey.OFFSET_FETCH, 10, groups=[group], require_stable=False)
    partition = answer.groups[0].topics[0].partitions[0]
    assert partition.error_code == ErrorCode.unknown_topic_id


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_groups_are_listed_in_every_version(peer: Peer, version: int) -> None:
    synced(peer, joined(peer))
    filters: dict[str, list[str]] = {"states_filter": [], "types_filter": []}
    [group] = peer.ask(ApiKey.LIST_GROUPS, version, **filters).groups
    assert (group.group_id, group.protocol_type) == ("group", "consumer")
    if version >= 5:
        filters = {"states_filter": ["empty"], "types_filter": ["classic"]}
        assert peer.ask(ApiKey.LIST_GROUPS, version, **filters).groups == ()


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_groups_are_described_in_every_version(peer: Peer, version: int) -> None:
    synced(peer, joined(peer))
    known, unknown = peer.ask(
        ApiKey.DESCRIBE_GROUPS,
        version,
        groups=["group", "unknown"],
        include_authorized_operations=True,
    ).groups
    assert (known.group_state, known.protocol_data) == ("Stable", "range")
    assert known.members[0].member_assignment == b"everything"
    assert known.members[0].client_host == "/10.0.0.7"
    assert unknown.group_state == "Dead"
    not_found = ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none
    assert unknown.error_code == not_found


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_groups_are_deleted_in_every_version(peer: Peer, version: int) -> None:
    commit(peer, 8, 42)
    answer = peer.ask(ApiKey.DELETE_GROUPS, version, groups_names=["group", "unknown"])
    assert [each.error_code for each in answer.results] == [0, ErrorCode.group_id_not_found]
    assert fetch_offset(peer, 5).committed_offset == -1


def test_offsets_are_deleted(peer: Peer) -> None:
    commit(peer, 8, 42)
    topics = [{"name": "orders", "partitions": [{"partition_index": n} for n in (1, 9)]}]
    answer = peer.ask(ApiKey.OFFSET_DELETE, 0, group_id="group", topics=topics)
    codes = {each.partition_index: each.error_code for each in answer.topics[0].partitions}
    assert codes == {1: ErrorCode.none, 9: ErrorCode.unknown_topic_or_partition}
    assert fetch_offset(peer, 5).committed_offset == -1


@pytest.mark.parametrize(
    ("api", "version"),
    [
        (api, version)
        for api in (
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.HEARTBEAT,
            ApiKey.LEAVE_GROUP,
            ApiKey.OFFSET_DELETE,
            ApiKey.DELETE_GROUPS,
            ApiKey.DESCRIBE_GROUPS,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
        )
        for version in versions(api)
    ],
)
def test_a_broker_that_is_not_the_coordinator_says_so_in_every_version(
    bench: NodeBench, api: ApiKey, version: int
) -> None:
    bodies: dict[ApiKey, dict[str, Any]] = {
        ApiKey.JOIN_GROUP: {"session_timeout": 10_000, "protocol_type": "consumer"},
        ApiKey.SYNC_GROUP: {"protocol_type": "consumer", "protocol_name": "range"},
        ApiKey.LEAVE_GROUP: {"members": []} if version >= 3 else {},
        ApiKey.DELETE_GROUPS: {"groups_names": ["group"]},
        ApiKey.DESCRIBE_GROUPS: {"groups": ["group"]},
        ApiKey.CONSUMER_GROUP_DESCRIBE: {"group_ids": ["group"]},
        ApiKey.CONSUMER_GROUP_HEARTBEAT: {"member_id": "member", "member_epoch": 1},
    }
    body = bodies.get(api, {})
    if not any(name.startswith("group") for name in body):
        body["group_id"] = "group"
    answer = bench.connect().ask(api, version, **body)
    groups = getattr(answer, "groups", None) or getattr(answer, "results", None) or [answer]
    assert groups[0].error_code == ErrorCode.not_coordinator


def test_offsets_of_a_group_elsewhere_are_refused_in_every_version(bench: NodeBench) -> None:
    peer = bench.connect()
    for version in versions(ApiKey.OFFSET_COMMIT):
        assert commit(peer, version, 1) == ErrorCode.not_coordinator
    assert fetch_offset(peer, 1).error_code == ErrorCode.not_coordinator
    for version in versions(ApiKey.OFFSET_FETCH)[1:]:
        wish: dict[str, Any] = {"group_id": "group", "topics": []}
        if version >= 8:
            group = {"group_id": "group", "topics": None}
            [answer] = peer.ask(ApiKey.OFFSET_FETCH, version, groups=[group]).groups
        else:
            answer = peer.ask(ApiKey.OFFSET_FETCH, version, **wish)
        assert answer.error_code == ErrorCode.not_coordinator


def test_a_restarted_coordinator_knows_what_it_promised(bench: NodeBench, peer: Peer) -> None:
    member = joined(peer)
    synced(peer, member)
    own = {"member_id": member.member_id, "generation_id_or_member_epoch": 1}
    commit(peer, 8, 42, **own)
    bench.stop()

    again = bench.again().connect()
    assert fetch_offset(again, 5).committed_offset == 42
    assert synced(again, member).assignment == b"everything"
    index = partition_of("group", 4)
    [loaded] = again.bench.of_kind(CoordinatorLoaded)
    assert loaded.partition == (OFFSETS_TOPIC, index)


def test_it_is_said_once_why_there_can_be_no_coordinator(new_bench: NewBench) -> None:
    bench = new_bench(offsets_topic_replication_factor="3")
    for _ in range(2):
        found = bench.connect().ask(ApiKey.FIND_COORDINATOR, 1, key="group", key_type=0)
        assert found.error_code == ErrorCode.coordinator_not_available
    [missing] = bench.of_kind(InternalTopicMissing)
    assert missing.topic == OFFSETS_TOPIC and "3" in missing.cause
