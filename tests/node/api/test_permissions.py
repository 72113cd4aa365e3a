"""Who may do what: no API is served without its permission, and a permission that goes is gone.

Everybody is `User:ANONYMOUS` here; rules by address tell clients apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.raw import Topic
from tests.integration.samples import sample_fields
from tests.known_versions import known_versions
from tests.node.conftest import NewBatch, NewBench
from tests.node.node_bench import NodeBench
from tests.node.peer import Peer
from tests.node.transactional_client import SETTINGS as ALONE
from tests.node.transactional_client import Client
from tests.protocol.kio_messages.entity_messages import decode_response, encode_request

from tidelog.model.errors import ErrorCode
from tidelog.model.principal import Principal
from tidelog.model.settings.access import STANDARD_AUTHORIZER
from tidelog.node.core.denials import TOLD_MAX, WINDOW_MS
from tidelog.node.core.permissions import BY_RESOURCE, ON_CLUSTER, OPEN_TO_ALL
from tidelog.observe.access_events import AccessDenied, AccessDeniedToMany
from tidelog.observe.events import ConnectionDropped
from tidelog.protocol.apis import SUPPORTED, ApiKey, ListenerScope
from tidelog.protocol.fetch import FetchPartition
from tidelog.protocol.forwarded_principal import principal_bytes
from tidelog.records.builder import NewRecord, build_batch
from tidelog.security.acls import CLUSTER_NAME, AclOperation, ResourceType

ADMIN, CLIENT, NOBODY = "10.0.0.7", "10.0.0.8", "10.0.0.9"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTION = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
ALL, READ, WRITE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE
DESCRIBE, ACTION = AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
DENIED = ErrorCode.topic_authorization_failed
EVERYTHING = ((CLUSTER, CLUSTER_NAME), (TOPIC, "*"), (GROUP, "*"), (TRANSACTION, "*"))


class Guarded:
    """A node with rules: everything is allowed to `ADMIN`."""

    def __init__(self, bench: NodeBench) -> None:
        self.bench = bench
        self.admin = bench.connect(host=ADMIN)
        for kind, name in EVERYTHING:
            self.allow(ADMIN, ALL, kind, name)

    def allow(self, host: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
        creation = {
            "resource_type": int(kind),
            "resource_name": name,
            "resource_pattern_type": 3,
            "principal": "User:ANONYMOUS",
            "host": host,
            "operation": int(operation),
            "permission_type": 3,
        }
        answer = self.admin.ask(ApiKey.CREATE_ACLS, 3, creations=[creation])
        assert [each.error_code for each in answer.results] == [0]

    def forbid(self, host: str) -> None:
        """Take back what was allowed there."""
        wanted = {
            "resource_type_filter": 1,
            "resource_name_filter": None,
            "pattern_type_filter": 1,
            "principal_filter": None,
            "host_filter": host,
            "operation": 1,
            "permission_type": 1,
        }
        answer = self.admin.ask(ApiKey.DELETE_ACLS, 3, filters=[wanted])
        assert answer.filter_results[0].matching_acls

    def connect(self, host: str = CLIENT, listener: str = "PLAINTEXT") -> Peer:
        return self.bench.connect(listener, host=host)

    @property
    def denials(self) -> list[AccessDenied]:
        return [event for event in self.bench.events if isinstance(event, AccessDenied)]


ACCESS_CONTROL = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "allow_everyone_if_no_acl_found": "true",
}


@pytest.fixture
def guarded(new_bench: NewBench) -> Guarded:
    return Guarded(new_bench(**ALONE, **ACCESS_CONTROL))


def errors_in(answer: Any) -> Iterator[ErrorCode]:
    """Every error code in an answer."""
    for name in getattr(answer, "__dataclass_fields__", ()):
        part = getattr(answer, name)
        if name.endswith("error_code"):
            yield ErrorCode(part)
        for each in part if isinstance(part, tuple) else (part,):
            yield from errors_in(each)


# Every API


def test_every_api_needs_a_permission_or_is_open_to_all() -> None:
    tables = [ON_CLUSTER.keys(), BY_RESOURCE.keys(), OPEN_TO_ALL]
    assert sum(map(len, tables)) == len(SUPPORTED)
    assert set().union(*tables) == SUPPORTED.keys()


SAYS_NOTHING = {
    ApiKey.DESCRIBE_CLUSTER: "that there is a cluster is known to whoever can connect",
    ApiKey.LIST_GROUPS: "there are no groups for whom may not describe them",
    ApiKey.LIST_TRANSACTIONS: "nor are there transactions",
    ApiKey.DESCRIBE_LOG_DIRS: "an old answer has no room for the error and names no directory",
}


@pytest.mark.parametrize("key", [key for key in SUPPORTED if key not in OPEN_TO_ALL])
def test_no_api_is_served_without_its_permission(guarded: Guarded, key: ApiKey) -> None:
    topic = Topic("orders", guarded.bench.create_topic("orders"))
    Client(guarded.bench)
    is_brokers = ListenerScope.BROKER in SUPPORTED[key].scope
    listener = "PLAINTEXT" if is_brokers else "CONTROLLER"
    for version in {SUPPORTED[key].decodable_from, known_versions(key)[-1]}:
        peer = guarded.connect(NOBODY, listener)
        before = guarded.bench.node.cluster.image.end_offset
        peer.send(key, version, **sample_fields(key, topic))
        guarded.bench.end_tick()
        answer = decode_response(key, version, peer.answer())[1]
        refused = [code.name for code in errors_in(answer) if "authorization_failed" in code.name]
        assert refused or key in SAYS_NOTHING, answer
        assert guarded.bench.node.cluster.image.end_offset == before
        if refused:
            assert guarded.denials[-1].host == NOBODY
            assert guarded.denials[-1].api == key.name


def test_without_an_authorizer_everything_is_allowed_and_nothing_is_told(bench: NodeBench) -> None:
    bench.create_topic("orders")
    peer = bench.connect(host=NOBODY)
    described = peer.ask(ApiKey.METADATA, 9, topics=None, include_topic_authorized_operations=True)
    assert described.topics[0].topic_authorized_operations == 3576
    assert peer.produce("orders", bytes(build_batch([NewRecord(b"", b"v", 1)]))).error == 0
    assert not [event for event in bench.events if isinstance(event, AccessDenied)]


# A permission that goes


def test_a_producer_whose_permission_goes_appends_no_more(
    guarded: Guarded, batch: NewBatch
) -> None:
    guarded.bench.create_topic("orders")
    guarded.allow(CLIENT, WRITE, TOPIC, "orders")
    producer = guarded.connect()
    assert producer.produce("orders", batch()).error == ErrorCode.none
    guarded.forbid(CLIENT)
    assert producer.produce("orders", batch()).error == DENIED
    assert guarded.bench.partition("orders").log.end_offset == 1
    guarded.allow(CLIENT, WRITE, TOPIC, "orders")
    assert producer.produce("orders", batch()).error == ErrorCode.none


def test_one_denied_topic_does_not_stop_the_others(guarded: Guarded, batch: NewBatch) -> None:
    for name in ("orders", "payments"):
        guarded.bench.create_topic(name)
    guarded.allow(CLIENT, WRITE, TOPIC, "orders")
    producer = guarded.connect()
    producer.send_produce({("payments", 0): batch(), ("orders", 0): batch()})
    guarded.bench.end_tick()
    errors = {topic.name: topic.partitions[0].error for topic in producer.produced().topics}
    assert errors == {"payments": DENIED, "orders": ErrorCode.none}


def test_a_batch_that_waited_for_its_transaction_is_judged_again(guarded: Guarded) -> None:
    guarded.bench.create_topic("orders")
    producer = Client(guarded.bench)
    producer.init()
    producer.peer = guarded.connect()
    guarded.allow(CLIENT, WRITE, TOPIC, "orders")
    guarded.allow(CLIENT, WRITE, TRANSACTION, "tx")
    held = bytes(
        build_batch(
            [NewRecord(b"", b"v", guarded.bench.now.wall_ms)],
            producer_id=producer.producer.producer_id,
            producer_epoch=producer.producer.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
    )
    producer.peer.send_produce({("orders", 0): held}, version=12, transactional_id="tx")
    assert not producer.peer.frames
    guarded.forbid(CLIENT)
    producer.settle()
    refused = producer.peer.produced(12).topics[0].partitions[0].error
    assert refused == ErrorCode.transactional_id_authorization_failed
    assert guarded.bench.partition("orders").log.end_offset == 0


def test_a_session_hears_at_once_that_a_topic_may_not_be_read_any_more(
    guarded: Guarded, batch: NewBatch
) -> None:
    guarded.bench.create_topic("orders")
    guarded.allow(CLIENT, READ, TOPIC, "orders")
    reader = guarded.connect()
    first = reader.fetch({("orders", 0): 0}, session_epoch=0, max_wait_ms=0)
    again: dict[str, Any] = {"session_id": first.session_id, "max_wait_ms": 0}
    assert reader.fetch(session_epoch=1, **again).topics == []
    guarded.forbid(CLIENT)
    for epoch in (2, 3):
        [denied] = reader.fetch(session_epoch=epoch, **again).topics
        assert denied.partitions[0].error == DENIED
    guarded.allow(CLIENT, READ, TOPIC, "orders")
    guarded.admin.produce("orders", batch())
    [allowed] = reader.fetch(session_epoch=4, **again).topics
    assert allowed.partitions[0].error == ErrorCode.none
    assert allowed.partitions[0].records


def test_a_fetch_that_waits_brings_nothing_of_a_topic_that_may_not_be_read_any_more(
    guarded: Guarded, batch: NewBatch
) -> None:
    guarded.bench.create_topic("orders")
    guarded.allow(CLIENT, READ, TOPIC, "orders")
    reader = guarded.connect()
    reader.send_fetch({("orders", 0): 0}, max_wait_ms=10_000)
    guarded.bench.end_tick()
    assert not reader.frames
    guarded.forbid(CLIENT)
    guarded.admin.produce("orders", batch())
    guarded.bench.end_tick()
    [denied] = reader.fetched().topics
    assert denied.partitions[0].error == DENIED
    assert not denied.partitions[0].records


# Other nodes


def test_who_says_that_he_is_a_follower_needs_to_be_one(guarded: Guarded, batch: NewBatch) -> None:
    """And ends no session of the broker whose number he uses."""
    guarded.bench.create_topic("orders")
    guarded.admin.produce("orders", batch())
    guarded.allow(CLIENT, ACTION, CLUSTER, CLUSTER_NAME)
    node, forger = guarded.connect(), guarded.connect(NOBODY)
    asked = {("orders", 0): FetchPartition(0, -1, 0, -1, -1, 1 << 20)}
    how: dict[str, Any] = {"replica_id": 5, "session_epoch": 0, "max_wait_ms": 0}
    own = node.fetch(asked, **how)
    assert own.session_id
    forged = forger.fetch(asked, **how)
    assert forged.session_id == 0
    assert forged.topics[0].partitions[0].error == DENIED
    sessions = list(guarded.bench.node.rooms.base.sessions.of_follower(5))
    assert [session.session_id for session in sessions] == [own.session_id]


def test_an_envelope_is_opened_for_nodes_alone_and_judged_by_who_is_named_in_it(
    guarded: Guarded,
) -> None:
    asked = {"topics": [{"name": "orders", "num_partitions": 1, "replication_factor": 1}]}
    envelope = {
        "request_data": encode_request(ApiKey.CREATE_TOPICS, 7, 1, "c", {**asked, "timeout": 1000}),
        "request_principal": principal_bytes(Principal("User", "ANONYMOUS")),
        "client_host_address": bytes((10, 0, 0, 9)),
    }
    stranger = guarded.connect(NOBODY, "CONTROLLER")
    refused = stranger.ask(ApiKey.ENVELOPE, 0, **envelope)
    assert refused.error_code == ErrorCode.cluster_authorization_failed
    guarded.allow(CLIENT, ACTION, CLUSTER, CLUSTER_NAME)
    node = guarded.connect(CLIENT, "CONTROLLER")
    for host, code in (("10.0.0.9", DENIED), (ADMIN, ErrorCode.none)):
        envelope["client_host_address"] = bytes(map(int, host.split(".")))
        opened = node.ask(ApiKey.ENVELOPE, 0, **envelope)
        assert opened.error_code == ErrorCode.none
        inner = decode_response(ApiKey.CREATE_TOPICS, 7, opened.response_data)[1]
        assert inner.topics[0].error_code == code


def test_nobody_has_a_node_connect_somewhere_by_asking_for_a_voter(guarded: Guarded) -> None:
    stranger = guarded.connect(NOBODY, "CONTROLLER")
    refused = stranger.ask(
        ApiKey.ADD_RAFT_VOTER,
        0,
        cluster_id=None,
        timeout=1000,
        voter_id=100,
        voter_directory_id=None,
        listeners=[{"name": "CONTROLLER", "host": "10.9.9.9", "port": 22}],
    )
    assert refused.error_code == ErrorCode.cluster_authorization_failed


@pytest.mark.parametrize(("super_users", "served"), [("User:ANONYMOUS", True), ("User:n", False)])
def test_before_the_metadata_is_read_only_super_users_are_served(
    super_users: str, served: bool
) -> None:
    bench = NodeBench({"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": super_users})
    bench.holds_jobs = True
    bench.start()
    assert bench.node.cluster.image.end_offset == 0
    peer = bench.connect("CONTROLLER")
    assert peer.ask(ApiKey.API_VERSIONS, 0).error_code == 0
    peer.send(ApiKey.DESCRIBE_QUORUM, 1, **sample_fields(ApiKey.DESCRIBE_QUORUM, Topic("", None)))
    assert (peer.closed is None) is served
    dropped = [event for event in bench.events if isinstance(event, ConnectionDropped)]
    assert len(dropped) == (not served)
    assert all("is no super user" in event.cause for event in dropped)


# What is hidden


def test_metadata_names_only_what_may_be_described_and_says_what_may_be_done(
    guarded: Guarded,
) -> None:
    ids = {name: guarded.bench.create_topic(name) for name in ("orders", "payments", "secrets")}
    guarded.allow(CLIENT, READ, TOPIC, "orders")
    guarded.allow(CLIENT, DESCRIBE, TOPIC, "payments")
    peer = guarded.connect()
    every = peer.ask(ApiKey.METADATA, 12, topics=None, include_topic_authorized_operations=True)
    told = {topic.name: topic.topic_authorized_operations for topic in every.topics}
    assert told == {"orders": 1 << READ | 1 << DESCRIBE, "payments": 1 << DESCRIBE}
    named = [{"name": None, "topic_id": ids["secrets"]}, {"name": None, "topic_id": ids["orders"]}]
    by_id = peer.ask(ApiKey.METADATA, 12, topics=named, allow_auto_topic_creation=False).topics
    assert [(topic.name, topic.error_code) for topic in by_id] == [(None, DENIED), ("orders", 0)]
    by_name = peer.ask(
        ApiKey.METADATA,
        12,
        topics=[{"name": name, "topic_id": None} for name in ("secrets", "nowhere")],
        allow_auto_topic_creation=True,
    ).topics
    assert {topic.error_code for topic in by_name} == {DENIED}
    assert "nowhere" not in guarded.bench.node.cluster.image.topics_by_name


def test_a_topic_is_created_for_who_may_create_it(guarded: Guarded) -> None:
    guarded.allow(CLIENT, DESCRIBE, TOPIC, "new")
    named = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
    peer = guarded.connect()
    assert peer.ask(ApiKey.METADATA, 8, **named).topics[0].error_code == DENIED
    guarded.allow(CLIENT, AclOperation.CREATE, TOPIC, "new")
    peer.send(ApiKey.METADATA, 8, **named)
    guarded.bench.wait(10)
    assert decode_response(ApiKey.METADATA, 8, peer.answer())[1].topics[0].error_code == 0


def test_a_group_with_topics_that_may_not_be_described_is_not_described(guarded: Guarded) -> None:
    guarded.bench.create_topic("orders")
    Client(guarded.bench)  # waits for the coordinators
    beat = {
        "group_id": "readers",
        "member_id": "a" * 22,
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ("orders",),
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": (),
    }
    guarded.allow(CLIENT, READ, GROUP, "readers")
    member = guarded.connect()
    refused = member.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **beat)
    assert refused.error_code == DENIED
    guarded.allow(CLIENT, DESCRIBE, TOPIC, "orders")
    assert member.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **beat).error_code == 0
    guarded.allow(NOBODY, DESCRIBE, GROUP, "readers")
    for host, code in ((CLIENT, ErrorCode.none), (NOBODY, DENIED)):
        described = guarded.connect(host).ask(
            ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["readers"]
        )
        [group] = described.groups
        assert group.error_code == code
        assert bool(group.members) is not bool(code)


def test_an_expression_matches_only_what_its_member_may_describe(guarded: Guarded) -> None:
    for name in ("orders.eu", "orders.us"):
        guarded.bench.create_topic(name)
    Client(guarded.bench)
    guarded.allow(CLIENT, READ, GROUP, "readers")
    guarded.allow(CLIENT, READ, TOPIC, "orders.eu")
    member = guarded.connect()
    joined = member.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id="readers",
        member_id="a" * 22,
        member_epoch=0,
        instance_id=None,
        rack_id=None,
        rebalance_timeout=60_000,
        subscribed_topic_names=None,
        subscribed_topic_regex="orders\\..*",
        server_assignor=None,
        topic_partitions=(),
    )
    assigned = [each.topic_id for each in joined.assignment.topic_partitions]
    image = guarded.bench.node.cluster.image
    assert assigned == [image.topics_by_name["orders.eu"].topic_id]


# What is told


def test_a_denial_says_who_wanted_what_and_which_rule_would_allow_it(
    guarded: Guarded, batch: NewBatch
) -> None:
    guarded.bench.create_topic("orders")
    guarded.connect().produce("orders", batch())
    [denied] = guarded.denials
    assert (denied.principal, denied.host, denied.api) == ("User:ANONYMOUS", CLIENT, "PRODUCE")
    assert (denied.operation, denied.resource_type, denied.resource_name) == (
        "WRITE",
        "TOPIC",
        "orders",
    )
    assert denied.cause == (
        f"no ACL allows it; this one would: allow User:ANONYMOUS from {CLIENT} WRITE on TOPIC "
        "orders"
    )


def test_the_same_denial_is_told_once_and_then_counted(guarded: Guarded, batch: NewBatch) -> None:
    guarded.bench.create_topic("orders")
    producer = guarded.connect()
    for _ in range(50):
        producer.produce("orders", batch())
    assert [denied.times for denied in guarded.denials] == [1]
    guarded.bench.wait(WINDOW_MS)
    assert [denied.times for denied in guarded.denials] == [1, 49]
    producer.produce("orders", batch())
    assert [denied.times for denied in guarded.denials] == [1, 49, 1]


def test_different_denials_cannot_flood_the_log(guarded: Guarded) -> None:
    peer = guarded.connect()
    names = [{"name": f"topic-{number}"} for number in range(TOLD_MAX + 50)]
    peer.ask(ApiKey.METADATA, 8, topics=names, allow_auto_topic_creation=False)
    assert len(guarded.denials) == TOLD_MAX
    guarded.bench.wait(WINDOW_MS)
    [left_out] = [event for event in guarded.bench.events if isinstance(event, AccessDeniedToMany)]
    assert left_out.times == 50


# Rules survive


def test_rules_hold_after_a_restart_and_a_snapshot(guarded: Guarded, batch: NewBatch) -> None:
    guarded.bench.create_topic("orders")
    guarded.allow(CLIENT, WRITE, TOPIC, "orders")
    again = guarded.bench.again()
    assert again.connect(host=CLIENT).produce("orders", batch()).error == ErrorCode.none
    assert again.connect(host=NOBODY).produce("orders", batch()).error == DENIED
