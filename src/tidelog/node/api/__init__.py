"""One file per API: what a node answers. `HANDLERS` is the whole table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

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
from tidelog.node.broker_state import BrokerState
from tidelog.node.core.request import Reply, Request
from tidelog.protocol.apis import ApiKey

Handler: TypeAlias = Callable[[BrokerState, Request], Reply]


def _open_envelope(broker: BrokerState, request: Request) -> Reply:
    return envelope.handle(broker, request, HANDLERS)


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.PRODUCE: produce.handle,
        ApiKey.FETCH: fetch.handle,
        ApiKey.LIST_OFFSETS: list_offsets.handle,
        ApiKey.METADATA: metadata.handle,
        ApiKey.API_VERSIONS: api_versions.handle,
        ApiKey.CREATE_TOPICS: create_topics.handle,
        ApiKey.DELETE_TOPICS: delete_topics.handle,
        ApiKey.DELETE_RECORDS: delete_records.handle,
        ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
        ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn.handle,
        ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn.handle,
        ApiKey.END_TXN: end_txn.handle,
        ApiKey.WRITE_TXN_MARKERS: write_txn_markers.handle,
        ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit.handle,
        ApiKey.DESCRIBE_ACLS: acls.describe,
        ApiKey.CREATE_ACLS: acls.create,
        ApiKey.DELETE_ACLS: acls.delete,
        ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
        ApiKey.ALTER_CONFIGS: alter_configs.handle,
        ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
        ApiKey.CREATE_PARTITIONS: create_partitions.handle,
        ApiKey.ELECT_LEADERS: elect_leaders.handle,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments.handle,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments.handle,
        ApiKey.VOTE: vote.handle,
        ApiKey.BEGIN_QUORUM_EPOCH: begin_quorum_epoch.handle,
        ApiKey.END_QUORUM_EPOCH: end_quorum_epoch.handle,
        ApiKey.DESCRIBE_QUORUM: describe_quorum.handle,
        ApiKey.ALTER_PARTITION: alter_partition.handle,
        ApiKey.UPDATE_FEATURES: update_features.handle,
        ApiKey.ENVELOPE: _open_envelope,
        ApiKey.FETCH_SNAPSHOT: fetch_snapshot.handle,
        ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
        ApiKey.DESCRIBE_PRODUCERS: describe_producers.handle,
        ApiKey.BROKER_REGISTRATION: broker_registration.handle,
        ApiKey.BROKER_HEARTBEAT: broker_heartbeat.handle,
        ApiKey.UNREGISTER_BROKER: unregister_broker.handle,
        ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions.handle,
        ApiKey.LIST_TRANSACTIONS: list_transactions.handle,
        ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids.handle,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: assign_replicas_to_dirs.handle,
        ApiKey.CONTROLLER_REGISTRATION: controller_registration.handle,
        ApiKey.FIND_COORDINATOR: find_coordinator.handle,
        ApiKey.JOIN_GROUP: join_group.handle,
        ApiKey.SYNC_GROUP: sync_group.handle,
        ApiKey.HEARTBEAT: heartbeat.handle,
        ApiKey.LEAVE_GROUP: leave_group.handle,
        ApiKey.OFFSET_COMMIT: offset_commit.handle,
        ApiKey.OFFSET_FETCH: offset_fetch.handle,
        ApiKey.OFFSET_DELETE: offset_delete.handle,
        ApiKey.LIST_GROUPS: list_groups.handle,
        ApiKey.DESCRIBE_GROUPS: describe_groups.handle,
        ApiKey.DELETE_GROUPS: delete_groups.handle,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat.handle,
        ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe.handle,
        ApiKey.LIST_CONFIG_RESOURCES: list_config_resources.handle,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.handle,
        ApiKey.ADD_RAFT_VOTER: add_raft_voter.handle,
        ApiKey.REMOVE_RAFT_VOTER: remove_raft_voter.handle,
        ApiKey.UPDATE_RAFT_VOTER: update_raft_voter.handle,
    }
)

CONTROLLER_HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {**HANDLERS, ApiKey.FETCH: metadata_fetch.handle}
)
"""The same on the listeners of controllers, where a fetch is one of the metadata log."""
