"""One file per API: what a node answers. Below is the whole table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

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
from tidelog.node.core.request import Reply, Request
from tidelog.protocol.apis import ApiKey

Handler: TypeAlias = Callable[[Request], Reply]


class Contexts(NamedTuple):
    """What all handlers of a node need of it."""

    records: RecordsContext
    groups: GroupsContext
    transactions: TransactionsContext
    cluster: ClusterContext
    admin: AdminContext
    controller: ControllerContext | None
    """Of nodes that are controllers."""


def handlers(contexts: Contexts) -> Mapping[ApiKey, Handler]:
    """What is answered on the listeners of brokers, and some of it also on those of controllers."""
    return {
        **_records_apis(contexts.records),
        **_cluster_apis(contexts.cluster),
        **_admin_apis(contexts.admin),
        **_transactions_apis(contexts.transactions),
        **_groups_apis(contexts.groups),
    }


def _records_apis(context: RecordsContext) -> Mapping[ApiKey, Handler]:
    return {
        ApiKey.PRODUCE: partial(produce.handle, context),
        ApiKey.FETCH: partial(fetch.handle, context),
        ApiKey.LIST_OFFSETS: partial(list_offsets.handle, context),
        ApiKey.DELETE_RECORDS: partial(delete_records.handle, context),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: partial(offset_for_leader_epoch.handle, context),
        ApiKey.DESCRIBE_LOG_DIRS: partial(describe_log_dirs.handle, context),
        ApiKey.DESCRIBE_PRODUCERS: partial(describe_producers.handle, context),
    }


def _cluster_apis(context: ClusterContext) -> Mapping[ApiKey, Handler]:
    return {
        ApiKey.METADATA: partial(metadata.handle, context),
        ApiKey.API_VERSIONS: partial(api_versions.handle, context),
        ApiKey.DESCRIBE_ACLS: partial(acls.describe, context),
        ApiKey.CREATE_ACLS: partial(acls.create, context),
        ApiKey.DELETE_ACLS: partial(acls.delete, context),
        ApiKey.DESCRIBE_CONFIGS: partial(describe_configs.handle, context),
        ApiKey.DESCRIBE_CLUSTER: partial(describe_cluster.handle, context),
        ApiKey.FIND_COORDINATOR: partial(find_coordinator.handle, context),
        ApiKey.LIST_CONFIG_RESOURCES: partial(list_config_resources.handle, context),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: partial(describe_topic_partitions.handle, context),
    }


def _admin_apis(context: AdminContext) -> Mapping[ApiKey, Handler]:
    return {
        ApiKey.CREATE_TOPICS: partial(create_topics.handle, context),
        ApiKey.DELETE_TOPICS: partial(delete_topics.handle, context),
        ApiKey.ALTER_CONFIGS: partial(alter_configs.handle, context),
        ApiKey.CREATE_PARTITIONS: partial(create_partitions.handle, context),
        ApiKey.ELECT_LEADERS: partial(elect_leaders.handle, context),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: partial(incremental_alter_configs.handle, context),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: partial(
            alter_partition_reassignments.handle, context
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: partial(list_partition_reassignments.handle, context),
        ApiKey.DESCRIBE_QUORUM: partial(describe_quorum.handle, context),
        ApiKey.UPDATE_FEATURES: partial(update_features.handle, context),
        ApiKey.UNREGISTER_BROKER: partial(unregister_broker.handle, context),
        ApiKey.ADD_RAFT_VOTER: partial(add_raft_voter.handle, context),
        ApiKey.REMOVE_RAFT_VOTER: partial(remove_raft_voter.handle, context),
    }


def _transactions_apis(context: TransactionsContext) -> Mapping[ApiKey, Handler]:
    return {
        ApiKey.INIT_PRODUCER_ID: partial(init_producer_id.handle, context),
        ApiKey.ADD_PARTITIONS_TO_TXN: partial(add_partitions_to_txn.handle, context),
        ApiKey.ADD_OFFSETS_TO_TXN: partial(add_offsets_to_txn.handle, context),
        ApiKey.END_TXN: partial(end_txn.handle, context),
        ApiKey.WRITE_TXN_MARKERS: partial(write_txn_markers.handle, context),
        ApiKey.TXN_OFFSET_COMMIT: partial(txn_offset_commit.handle, context),
        ApiKey.DESCRIBE_TRANSACTIONS: partial(describe_transactions.handle, context),
        ApiKey.LIST_TRANSACTIONS: partial(list_transactions.handle, context),
    }


def _groups_apis(context: GroupsContext) -> Mapping[ApiKey, Handler]:
    return {
        ApiKey.JOIN_GROUP: partial(join_group.handle, context),
        ApiKey.SYNC_GROUP: partial(sync_group.handle, context),
        ApiKey.HEARTBEAT: partial(heartbeat.handle, context),
        ApiKey.LEAVE_GROUP: partial(leave_group.handle, context),
        ApiKey.OFFSET_COMMIT: partial(offset_commit.handle, context),
        ApiKey.OFFSET_FETCH: partial(offset_fetch.handle, context),
        ApiKey.OFFSET_DELETE: partial(offset_delete.handle, context),
        ApiKey.LIST_GROUPS: partial(list_groups.handle, context),
        ApiKey.DESCRIBE_GROUPS: partial(describe_groups.handle, context),
        ApiKey.DELETE_GROUPS: partial(delete_groups.handle, context),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: partial(consumer_group_heartbeat.handle, context),
        ApiKey.CONSUMER_GROUP_DESCRIBE: partial(consumer_group_describe.handle, context),
    }


def controller_handlers(
    contexts: Contexts, of_brokers: Mapping[ApiKey, Handler]
) -> Mapping[ApiKey, Handler]:
    """The same on the listeners of controllers, where a fetch is one of the metadata log."""
    context = contexts.controller
    if context is None:
        return {}
    table: dict[ApiKey, Handler] = {
        **of_brokers,
        ApiKey.FETCH: partial(metadata_fetch.handle, context),
        ApiKey.VOTE: partial(vote.handle, context),
        ApiKey.BEGIN_QUORUM_EPOCH: partial(begin_quorum_epoch.handle, context),
        ApiKey.END_QUORUM_EPOCH: partial(end_quorum_epoch.handle, context),
        ApiKey.ALTER_PARTITION: partial(alter_partition.handle, context),
        ApiKey.FETCH_SNAPSHOT: partial(fetch_snapshot.handle, context),
        ApiKey.BROKER_REGISTRATION: partial(broker_registration.handle, context),
        ApiKey.BROKER_HEARTBEAT: partial(broker_heartbeat.handle, context),
        ApiKey.ALLOCATE_PRODUCER_IDS: partial(allocate_producer_ids.handle, context),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: partial(assign_replicas_to_dirs.handle, context),
        ApiKey.CONTROLLER_REGISTRATION: partial(controller_registration.handle, context),
        ApiKey.UPDATE_RAFT_VOTER: partial(update_raft_voter.handle, context),
    }
    table[ApiKey.ENVELOPE] = partial(envelope.handle, context, of_brokers)
    return table
