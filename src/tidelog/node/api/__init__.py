"""One file per API: what a node answers. Below is the whole table."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from tidelog.node.api import (
    acls,
    add_offsets_to_txn,
    add_partitions_to_txn,
    add_raft_voter,
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    api_versions,
    assign_replicas_to_dirs,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    consumer_group_describe,
    consumer_group_heartbeat,
    controller_registration,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_quorum_epoch,
    end_txn,
    envelope,
    fetch,
    fetch_snapshot,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    metadata_fetch,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    remove_raft_voter,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    update_raft_voter,
    vote,
    write_txn_markers,
)
from tidelog.node.api.contexts import (
    AdminContext,
    ClusterContext,
    ControllerContext,
    GroupsContext,
    RecordsContext,
    TransactionsContext,
)
from tidelog.node.core.routes import Route, Routes, decoded_route, route, untyped
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import decode_fetch
from tidelog.protocol.messages.create_acls import CreateAclsRequest
from tidelog.protocol.messages.delete_acls import DeleteAclsRequest
from tidelog.protocol.messages.delete_records import DeleteRecordsRequest
from tidelog.protocol.messages.describe_acls import DescribeAclsRequest
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest
from tidelog.protocol.messages.describe_configs import DescribeConfigsRequest
from tidelog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.protocol.messages.describe_producers import DescribeProducersRequest
from tidelog.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.protocol.messages.list_offsets import ListOffsetsRequest
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tidelog.protocol.produce import decode_produce


class Contexts(NamedTuple):
    """What all handlers of a node need of it."""

    records: RecordsContext
    groups: GroupsContext
    transactions: TransactionsContext
    cluster: ClusterContext
    admin: AdminContext
    controller: ControllerContext | None
    """Of nodes that are controllers."""


def routes(contexts: Contexts) -> Routes:
    """What is answered on the listeners of brokers, and some of it also on those of controllers."""
    return {
        **_records_apis(contexts.records),
        **_cluster_apis(contexts.cluster),
        **_admin_apis(contexts.admin),
        **_transactions_apis(contexts.transactions),
        **_groups_apis(contexts.groups),
    }


def _records_apis(context: RecordsContext) -> Routes:
    return {
        ApiKey.PRODUCE: decoded_route(decode_produce, produce.handle, context),
        ApiKey.FETCH: decoded_route(decode_fetch, fetch.handle, context),
        ApiKey.LIST_OFFSETS: route(ListOffsetsRequest, list_offsets.handle, context),
        ApiKey.DELETE_RECORDS: route(DeleteRecordsRequest, delete_records.handle, context),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: route(
            OffsetForLeaderEpochRequest, offset_for_leader_epoch.handle, context
        ),
        ApiKey.DESCRIBE_LOG_DIRS: route(DescribeLogDirsRequest, describe_log_dirs.handle, context),
        ApiKey.DESCRIBE_PRODUCERS: route(
            DescribeProducersRequest, describe_producers.handle, context
        ),
    }


def _cluster_apis(context: ClusterContext) -> Routes:
    return {
        ApiKey.METADATA: route(MetadataRequest, metadata.handle, context),
        ApiKey.API_VERSIONS: decoded_route(api_versions.decode, api_versions.handle, context),
        ApiKey.DESCRIBE_ACLS: route(DescribeAclsRequest, acls.describe, context),
        ApiKey.CREATE_ACLS: route(CreateAclsRequest, acls.create, context),
        ApiKey.DELETE_ACLS: route(DeleteAclsRequest, acls.delete, context),
        ApiKey.DESCRIBE_CONFIGS: route(DescribeConfigsRequest, describe_configs.handle, context),
        ApiKey.DESCRIBE_CLUSTER: route(DescribeClusterRequest, describe_cluster.handle, context),
        ApiKey.FIND_COORDINATOR: route(FindCoordinatorRequest, find_coordinator.handle, context),
        ApiKey.LIST_CONFIG_RESOURCES: route(
            ListConfigResourcesRequest, list_config_resources.handle, context
        ),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: route(
            DescribeTopicPartitionsRequest, describe_topic_partitions.handle, context
        ),
    }


def _admin_apis(context: AdminContext) -> Routes:
    return {
        ApiKey.CREATE_TOPICS: untyped(create_topics.handle, context),
        ApiKey.DELETE_TOPICS: untyped(delete_topics.handle, context),
        ApiKey.ALTER_CONFIGS: untyped(alter_configs.handle, context),
        ApiKey.CREATE_PARTITIONS: untyped(create_partitions.handle, context),
        ApiKey.ELECT_LEADERS: untyped(elect_leaders.handle, context),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: untyped(incremental_alter_configs.handle, context),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: untyped(
            alter_partition_reassignments.handle, context
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: untyped(list_partition_reassignments.handle, context),
        ApiKey.DESCRIBE_QUORUM: untyped(describe_quorum.handle, context),
        ApiKey.UPDATE_FEATURES: untyped(update_features.handle, context),
        ApiKey.UNREGISTER_BROKER: untyped(unregister_broker.handle, context),
        ApiKey.ADD_RAFT_VOTER: untyped(add_raft_voter.handle, context),
        ApiKey.REMOVE_RAFT_VOTER: untyped(remove_raft_voter.handle, context),
    }


def _transactions_apis(context: TransactionsContext) -> Routes:
    return {
        ApiKey.INIT_PRODUCER_ID: untyped(init_producer_id.handle, context),
        ApiKey.ADD_PARTITIONS_TO_TXN: untyped(add_partitions_to_txn.handle, context),
        ApiKey.ADD_OFFSETS_TO_TXN: untyped(add_offsets_to_txn.handle, context),
        ApiKey.END_TXN: untyped(end_txn.handle, context),
        ApiKey.WRITE_TXN_MARKERS: untyped(write_txn_markers.handle, context),
        ApiKey.TXN_OFFSET_COMMIT: untyped(txn_offset_commit.handle, context),
        ApiKey.DESCRIBE_TRANSACTIONS: untyped(describe_transactions.handle, context),
        ApiKey.LIST_TRANSACTIONS: untyped(list_transactions.handle, context),
    }


def _groups_apis(context: GroupsContext) -> Routes:
    return {
        ApiKey.JOIN_GROUP: untyped(join_group.handle, context),
        ApiKey.SYNC_GROUP: untyped(sync_group.handle, context),
        ApiKey.HEARTBEAT: untyped(heartbeat.handle, context),
        ApiKey.LEAVE_GROUP: untyped(leave_group.handle, context),
        ApiKey.OFFSET_COMMIT: untyped(offset_commit.handle, context),
        ApiKey.OFFSET_FETCH: untyped(offset_fetch.handle, context),
        ApiKey.OFFSET_DELETE: untyped(offset_delete.handle, context),
        ApiKey.LIST_GROUPS: untyped(list_groups.handle, context),
        ApiKey.DESCRIBE_GROUPS: untyped(describe_groups.handle, context),
        ApiKey.DELETE_GROUPS: untyped(delete_groups.handle, context),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: untyped(consumer_group_heartbeat.handle, context),
        ApiKey.CONSUMER_GROUP_DESCRIBE: untyped(consumer_group_describe.handle, context),
    }


def controller_routes(contexts: Contexts, of_brokers: Routes) -> Routes:
    """The same on the listeners of controllers, where a fetch is one of the metadata log."""
    context = contexts.controller
    if context is None:
        return {}
    table: dict[ApiKey, Route[Any]] = {
        **of_brokers,
        ApiKey.FETCH: decoded_route(decode_fetch, metadata_fetch.handle, context),
        ApiKey.VOTE: untyped(vote.handle, context),
        ApiKey.BEGIN_QUORUM_EPOCH: untyped(begin_quorum_epoch.handle, context),
        ApiKey.END_QUORUM_EPOCH: untyped(end_quorum_epoch.handle, context),
        ApiKey.ALTER_PARTITION: untyped(alter_partition.handle, context),
        ApiKey.FETCH_SNAPSHOT: untyped(fetch_snapshot.handle, context),
        ApiKey.BROKER_REGISTRATION: untyped(broker_registration.handle, context),
        ApiKey.BROKER_HEARTBEAT: untyped(broker_heartbeat.handle, context),
        ApiKey.ALLOCATE_PRODUCER_IDS: untyped(allocate_producer_ids.handle, context),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: untyped(assign_replicas_to_dirs.handle, context),
        ApiKey.CONTROLLER_REGISTRATION: untyped(controller_registration.handle, context),
        ApiKey.UPDATE_RAFT_VOTER: untyped(update_raft_voter.handle, context),
    }
    table[ApiKey.ENVELOPE] = Route(None, partial(envelope.handle, context, of_brokers))
    return table
