"""Every API, asked by clients with different permissions: Apache Kafka and Tidelog give the same
answers, what must be hidden included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.acl_situations import ADMIN, CLIENTS, SETTINGS, allow
from tests.integration.raw import HungUp, Peer, Topic, until
from tests.integration.samples import ANY_ACL, sample_fields
from tests.integration.told_answers import told
from tests.known_versions import known_versions
from tests.spark.apache_kafka import apache_kafka

from tidelog.client.blocking import Client
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import SUPPORTED, ApiKey, ListenerScope
from tidelog.testing.cluster import Cluster

NOBODYS = {"producer_id": -1, "producer_epoch": -1}
DRAWN = {"member_id", "producer_id", "producer_epoch", "session_id", "transaction_start_time"}
OWN_WORDS = {
    ApiKey.API_VERSIONS: "each has APIs and features of its own",
    ApiKey.DESCRIBE_CLUSTER: "each has an address of its own",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "each has a number of its own",
    ApiKey.DESCRIBE_CONFIGS: "each has settings of its own",
    ApiKey.DESCRIBE_LOG_DIRS: "each has directories of its own",
    ApiKey.DESCRIBE_QUORUM: "each has a log of its own",
    ApiKey.LIST_CONFIG_RESOURCES: "each has a number of its own",
    ApiKey.METADATA: "each has an address of its own",
    ApiKey.FETCH: "each has written its own",
    ApiKey.FIND_COORDINATOR: "each has an address of its own",
}
"""Of these, what is compared is what may be seen and what is refused, not what it says."""
BETWEEN_NODES = {
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.UPDATE_RAFT_VOTER,
}
"""Of these, what is compared is whether they are served at all: the samples are odd ones."""
AUTO_CREATING = {"a topic to be created", "hidden and missing topics"}
WAITED_FOR = {"to whom one topic and one group is forbidden", "who may do all but to the cluster"}
"""They may create topics; here the answer waits until these are there, and says so."""
KEPT = ("error_code", "operations", "name", "topic", "group_id")
PASSED_OVER = {
    "aborted_transactions",
    "api_keys",
    "configs",
    "finalized_features",
    "supported_features",
    "topic_id",
}
ALL_SINCE = {ApiKey.METADATA: 1, ApiKey.OFFSET_FETCH: 2}
"""From this version on null stands for all topics."""
SEVERAL: Mapping[ApiKey, Mapping[str, Mapping[str, Any]]] = {
    ApiKey.METADATA: {
        "all topics": {
            "topics": None,
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": True,
        },
        "hidden and missing topics": {
            "topics": [{"name": "hidden"}, {"name": "missing"}, {"name": "orders"}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        },
        "a topic to be created": {
            "topics": [{"name": "not.created"}],
            "allow_auto_topic_creation": True,
        },
    },
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {
        "all topics": {"topics": [], "response_partition_limit": 100, "cursor": None},
        "hidden and missing topics": {
            "topics": [{"name": "hidden"}, {"name": "missing"}, {"name": "orders"}],
            "response_partition_limit": 100,
            "cursor": None,
        },
    },
    ApiKey.DESCRIBE_CONFIGS: {
        "of brokers, topics and groups": {
            "resources": [
                {"resource_type": 2, "resource_name": "hidden", "configuration_keys": ["a"]},
                {"resource_type": 2, "resource_name": "missing", "configuration_keys": ["a"]},
                {"resource_type": 4, "resource_name": "", "configuration_keys": ["a"]},
                {"resource_type": 32, "resource_name": "no-such-group", "configuration_keys": []},
            ]
        }
    },
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {
        "of brokers, topics and groups": {
            "resources": [
                {"resource_type": kind, "resource_name": name, "configs": []}
                for kind, name in ((2, "missing"), (2, "hidden"), (4, ""), (32, "no-such-group"))
            ],
            "validate_only": True,
        }
    },
    ApiKey.CREATE_TOPICS: {
        "twice, and the metadata's own": {
            "topics": [
                {"name": name, "num_partitions": 1, "replication_factor": 1}
                for name in ("one", "one", "orders", "ord-1", "__cluster_metadata", "hid-1")
            ],
            "timeout": 1000,
            "validate_only": True,
        }
    },
    ApiKey.DELETE_TOPICS: {
        "hidden ones cannot be told from missing ones": {
            "topics": [{"name": "missing"}, {"name": "missing.too"}],
            "topic_names": ["missing"],
            "timeout": 1000,
        }
    },
    ApiKey.INIT_PRODUCER_ID: {
        "for transactions": {"transactional_id": "other", "transaction_timeout": 1000}
    },
    ApiKey.FIND_COORDINATOR: {
        "of transactions": {
            "key": "no-such-id",
            "key_type": 1,
            "coordinator_keys": ["no-such-id", "other"],
        }
    },
    ApiKey.OFFSET_FETCH: {
        "all offsets of a group": {
            "group_id": "some-group",
            "topics": None,
            "groups": [{"group_id": name, "topics": None} for name in ("some-group", "no-such-1")],
        }
    },
    ApiKey.LIST_GROUPS: {"every group": {}},
    ApiKey.DESCRIBE_GROUPS: {
        "groups that are there": {
            "groups": ["some-group", "no-such-1"],
            "include_authorized_operations": True,
        }
    },
    ApiKey.LIST_TRANSACTIONS: {"every transaction": {}},
    ApiKey.DESCRIBE_TRANSACTIONS: {
        "transactions that are there": {"transactional_ids": ["some-id", "no-such-2"]}
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        "topics of every kind": {
            "v3_and_below_transactional_id": "no-such-2",
            "v3_and_below_producer_id": 424_242,
            "v3_and_below_producer_epoch": 1,
            "v3_and_below_topics": [
                {"name": name, "partitions": [0]} for name in ("orders", "hidden", "missing")
            ],
            "transactions": [
                {
                    "transactional_id": "no-such-3",
                    "producer_id": 424_242,
                    "producer_epoch": 1,
                    "verify_only": True,
                    "topics": [{"name": "orders", "partitions": [0]}],
                }
            ],
        }
    },
    ApiKey.DELETE_RECORDS: {
        "topics of every kind": {
            "topics": [
                {"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}
                for name in ("orders", "hidden", "missing")
            ],
            "timeout": 1000,
        }
    },
    ApiKey.DESCRIBE_PRODUCERS: {
        "topics of every kind": {
            "topics": [
                {"name": name, "partition_indexes": [0]} for name in ("hidden", "missing", "a/b")
            ]
        }
    },
    ApiKey.DELETE_ACLS: {
        "of somebody else": {"filters": [{**ANY_ACL, "principal_filter": "User:somebody-else"}]}
    },
}
INSTEAD = {ApiKey.DELETE_ACLS}
"""Only what stands in `SEVERAL` is asked of these."""


class Judged:
    """A broker with topics, coordinators that are loaded, and rules."""

    def __init__(self, bootstrap: str, controller: str) -> None:
        self.bootstrap = bootstrap
        self.controller = controller
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for name in ("orders", "hidden"):
            admin.create_topics([NewTopic(name, 3, 1)])[name].result(20)
        with Client(bootstrap) as client:
            topic_id = client.retrying(lambda: client.refresh(["orders"]).topic("orders").topic_id)
        self.topic = Topic("orders", topic_id)
        until(self._finds_coordinators, within_s=60)
        self._fill()
        allow(bootstrap)
        until(self._knows_the_rules, within_s=30)

    def _finds_coordinators(self) -> bool:
        with Peer(self.bootstrap) as peer:
            wishes = [{"key": "anybody", "key_type": kind} for kind in (0, 1)]
            found = [peer.call(ApiKey.FIND_COORDINATOR, 1, wish).error_code for wish in wishes]
            return found == [0, 0]

    def _fill(self) -> None:
        """Groups with offsets, and transactions, of topics that not everybody may describe."""
        with Peer(self.bootstrap, source=ADMIN) as peer:
            for group in ("some-group", "no-such-1"):
                self._commit(peer, group)
            for transactional_id in ("some-id", "no-such-2"):
                self._begin(peer, transactional_id)

    def _commit(self, peer: Peer, group: str) -> None:
        offsets = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
        committed = {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": name, "partitions": offsets} for name in ("orders", "hidden")],
        }
        until(lambda: not _codes(peer.call(ApiKey.OFFSET_COMMIT, 8, committed)), within_s=30)

    def _begin(self, peer: Peer, transactional_id: str) -> None:
        asked = {"transactional_id": transactional_id, "transaction_timeout": 600_000}
        given: list[Any] = []

        def is_there() -> bool:
            given[:] = [peer.call(ApiKey.INIT_PRODUCER_ID, 4, {**asked, **NOBODYS})]
            return int(given[0].error_code) == 0

        until(is_there, within_s=30)
        begun = {
            "v3_and_below_transactional_id": transactional_id,
            "v3_and_below_producer_id": given[0].producer_id,
            "v3_and_below_producer_epoch": given[0].producer_epoch,
            "v3_and_below_topics": [
                {"name": name, "partitions": [0]} for name in ("orders", "hidden")
            ],
        }
        until(lambda: not _codes(peer.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, begun)), within_s=30)

    def _knows_the_rules(self) -> bool:
        denied = self.answer(CLIENTS["who may do nothing"], ApiKey.DESCRIBE_ACLS, 3, ANY_ACL)
        return "cluster_authorization_failed" in repr(denied)

    def newest(self, key: ApiKey) -> int:
        """The newest version that it shows."""
        is_brokers = ListenerScope.BROKER in SUPPORTED[key].scope
        with Peer(self.bootstrap if is_brokers else self.controller, source=ADMIN) as peer:
            shown = peer.call(ApiKey.API_VERSIONS, 0, {}).api_keys
        return next(int(each.max_version) for each in shown if each.api_key == key)

    def answer(self, source: str, key: ApiKey, version: int, asked: Mapping[str, Any]) -> object:
        """What it says once its coordinators know."""
        said: list[object] = []
        is_brokers = ListenerScope.BROKER in SUPPORTED[key].scope

        def is_settled() -> bool:
            address = self.bootstrap if is_brokers else self.controller
            try:
                with Peer(address, timeout_s=30, source=source) as peer:
                    answer = peer.call(key, version, asked)
                    said[:] = [_told(key, answer)]
            except HungUp:
                said[:] = ["hung up"]
            return not any(
                repr(code) in repr(said)
                for code in (
                    ErrorCode.coordinator_load_in_progress,
                    ErrorCode.coordinator_not_available,
                )
            )

        until(is_settled, within_s=60)
        return said[0]


def _codes(answer: Any) -> list[int]:
    """Every error in an answer."""
    found = []
    for name in getattr(answer, "__dataclass_fields__", ()):
        part = getattr(answer, name)
        if name.endswith("error_code") and part:
            found.append(int(part))
        for each in part if isinstance(part, tuple) else ():
            found += _codes(each)
    return found


def _told(key: ApiKey, answer: Any) -> object:
    if key in BETWEEN_NODES:
        return "authorization_failed" in repr(answer)
    return seen(answer) if key in OWN_WORDS else told(answer, DRAWN)


def seen(answer: Any) -> object:
    """What an answer names, and which errors are in it."""
    if is_dataclass(answer):
        kept: dict[str, object] = {}
        for each in fields(answer):
            value = getattr(answer, each.name)
            if each.name in PASSED_OVER:
                continue
            if isinstance(value, tuple):
                kept[each.name] = sorted((seen(part) for part in value), key=repr)
            elif any(word in each.name for word in KEPT):
                kept[each.name] = repr(value)
        return kept
    return None


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Judged, Judged]]:
    alone = {"group.initial.rebalance.delay.ms": "0"}
    with (
        apache_kafka(tmp_path_factory.mktemp("apache"), settings=SETTINGS) as apache,
        Cluster(tmp_path_factory.mktemp("tidelog"), settings={**alone, **SETTINGS}) as cluster,
    ):
        controller = cluster.local.descriptions[100].controller_listener or ""
        yield (
            Judged(apache.bootstrap, apache.controller),
            Judged(cluster.bootstrap, controller),
        )


def requests_of(key: ApiKey, version: int, topic: Topic) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if key not in INSTEAD:
        yield "a valid request", sample_fields(key, topic)
    for what, asked in SEVERAL.get(key, {}).items():
        if version >= ALL_SINCE.get(key, 0) or asked.get("topics", ()) is not None:
            yield what, asked


@pytest.mark.parametrize("key", SUPPORTED, ids=lambda key: key.name)
def test_permissions_are_asked_for_as_apache_kafka_does(
    brokers: tuple[Judged, Judged], key: ApiKey
) -> None:
    apache, tidelog = brokers
    different = []
    newest = min(known_versions(key)[-1], apache.newest(key))
    for version in sorted({SUPPORTED[key].decodable_from, newest}):
        pairs = zip(
            requests_of(key, version, apache.topic),
            requests_of(key, version, tidelog.topic),
            strict=True,
        )
        for (what, there), (_, here) in pairs:
            for who, source in CLIENTS.items():
                if key is ApiKey.METADATA and what in AUTO_CREATING and who in WAITED_FOR:
                    continue
                expected = apache.answer(source, key, version, there)
                found = tidelog.answer(source, key, version, here)
                if found != expected:
                    different.append(f"version {version}, {what}, {who}:\n{expected}\n{found}")
    assert not different, "\n".join(different)


RULE: Mapping[str, Any] = {
    "resource_type": 2,
    "resource_name": "somewhere",
    "resource_pattern_type": 3,
    "principal": "User:somebody-else",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
NAMED: tuple[Mapping[str, Any], ...] = (
    *({**RULE, "resource_type": kind} for kind in range(2, 8)),
    *({**RULE, "resource_pattern_type": pattern} for pattern in (3, 4)),
    *({**RULE, "operation": operation} for operation in range(2, 16)),
    *({**RULE, "permission_type": permission} for permission in (2, 3)),
    *({**RULE, "principal": name} for name in ("", "somebody", "Group:all", "User:a:b")),
    {**RULE, "resource_name": ""},
    {**RULE, "host": ""},
    {**RULE, "host": "::1"},
    {**RULE, "resource_type": 4, "resource_name": "kafka-cluster"},
    {**RULE, "resource_type": 4, "resource_name": "*"},
    {**RULE, "resource_type": 4, "resource_name": "kafka-", "resource_pattern_type": 4},
    {**RULE, "resource_name": "*", "resource_pattern_type": 4},
    {**RULE, "resource_name": "some", "resource_pattern_type": 4},
)
SEVERAL_AT_ONCE: tuple[Mapping[str, Any], ...] = (
    {**RULE, "resource_type": 1, "permission_type": 1},
    {**RULE, "resource_pattern_type": 1},
    {**RULE, "resource_pattern_type": 2, "operation": 1, "permission_type": 1},
    {**RULE, "resource_pattern_type": 2, "resource_name": "*", "operation": 1},
    {**RULE, "resource_pattern_type": 2, "resource_name": None, "operation": 1},
    {**RULE, "resource_name": None, "principal": "User:somebody-else", "operation": 1},
    {**RULE, "principal": "User:*", "operation": 1},
    {**RULE, "host": None, "operation": 1},
)
"""Words that only filters know."""


def _filter_of(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "resource_type_filter": rule["resource_type"],
        "resource_name_filter": rule["resource_name"],
        "pattern_type_filter": rule["resource_pattern_type"],
        "principal_filter": rule["principal"],
        "host_filter": rule["host"],
        "operation": rule["operation"],
        "permission_type": rule["permission_type"],
    }


@pytest.mark.parametrize(
    "key",
    [ApiKey.CREATE_ACLS, ApiKey.DESCRIBE_ACLS, ApiKey.DELETE_ACLS],
    ids=lambda key: key.name,
)
def test_odd_rules_and_filters_are_answered_as_apache_kafka_does(
    brokers: tuple[Judged, Judged], key: ApiKey
) -> None:
    apache, tidelog = brokers
    different = []
    for version in (1, 3):
        for rule in NAMED if key is ApiKey.CREATE_ACLS else (*SEVERAL_AT_ONCE, *NAMED):
            asked = _filter_of(rule)
            if key is ApiKey.CREATE_ACLS:
                asked = {"creations": [RULE, rule, rule]}
            elif key is ApiKey.DELETE_ACLS:
                asked = {"filters": [asked, asked]}
            expected = apache.answer(ADMIN, key, version, asked)
            found = tidelog.answer(ADMIN, key, version, asked)
            if found != expected:
                different.append(f"version {version}, {rule}:\n{expected}\n{found}")
    assert not different, "\n".join(different)


def test_the_administrator_may_do_everything(brokers: tuple[Judged, Judged]) -> None:
    for judged in brokers:
        assert "failed" not in repr(judged.answer(ADMIN, ApiKey.DESCRIBE_ACLS, 3, ANY_ACL))
