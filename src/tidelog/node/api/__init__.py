"""One file per API: what a node answers. Below is the whole table."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.node.api import (
    acls,
    add_offsets_to_txn,
    add_partitions_to_txn,
    add_raft_voter,
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_user_scram_credentials,
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
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
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
    sasl_authenticate,
    sasl_handshake,
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
from tidelog.node.api.guarding import guarded, guarded_fetch
from tidelog.node.core.routes import Route, Routes, decoded_route, route
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import decode_fetch
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest
from tidelog.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tidelog.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from tidelog.protocol.messages.alter_configs import AlterConfigsRequest
from tidelog.protocol.messages.alter_partition import AlterPartitionRequest
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from tidelog.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from tidelog.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from tidelog.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.protocol.messages.broker_registration import BrokerRegistrationRequest
from tidelog.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.protocol.messages.controller_registration import ControllerRegistrationRequest
from tidelog.protocol.messages.create_acls import CreateAclsRequest
from tidelog.protocol.messages.create_partitions import CreatePartitionsRequest
from tidelog.protocol.messages.create_topics import CreateTopicsRequest
from tidelog.protocol.messages.delete_acls import DeleteAclsRequest
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest
from tidelog.protocol.messages.delete_records import DeleteRecordsRequest
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest
from tidelog.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tidelog.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest
from tidelog.protocol.messages.describe_configs import DescribeConfigsRequest
from tidelog.protocol.messages.describe_groups import DescribeGroupsRequest
from tidelog.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tidelog.protocol.messages.describe_producers import DescribeProducersRequest
from tidelog.protocol.messages.describe_quorum import DescribeQuorumRequest
from tidelog.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tidelog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest
from tidelog.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from tidelog.protocol.messages.end_txn import EndTxnRequest
from tidelog.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.protocol.messages.join_group import JoinGroupRequest
from tidelog.protocol.messages.leave_group import LeaveGroupRequest
from tidelog.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tidelog.protocol.messages.list_groups import ListGroupsRequest
from tidelog.protocol.messages.list_offsets import ListOffsetsRequest
from tidelog.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.messages.offset_commit import OffsetCommitRequest
from tidelog.protocol.messages.offset_delete import OffsetDeleteRequest
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequest
from tidelog.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.protocol.messages.sync_group import SyncGroupRequest
from tidelog.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tidelog.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tidelog.protocol.messages.update_features import UpdateFeaturesRequest
from tidelog.protocol.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from tidelog.protocol.messages.vote import VoteRequest, VoteResponse
from tidelog.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
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
        ApiKey.DESCRIBE_LOG_DIRS: route(
            DescribeLogDirsRequest,
            guarded(context.authorization, describe_log_dirs.handle, DescribeLogDirsResponse),
            context,
        ),
        ApiKey.DESCRIBE_PRODUCERS: route(
            DescribeProducersRequest, describe_producers.handle, context
        ),
    }


def _cluster_apis(context: ClusterContext) -> Routes:
    door = context.authorization
    return {
        ApiKey.METADATA: route(MetadataRequest, metadata.handle, context),
        ApiKey.API_VERSIONS: decoded_route(api_versions.decode, api_versions.handle, context),
        ApiKey.SASL_HANDSHAKE: route(SaslHandshakeRequest, sasl_handshake.handle, None),
        ApiKey.SASL_AUTHENTICATE: route(SaslAuthenticateRequest, sasl_authenticate.handle, None),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: route(
            DescribeUserScramCredentialsRequest, describe_user_scram_credentials.handle, context
        ),
        ApiKey.DESCRIBE_ACLS: route(
            DescribeAclsRequest, guarded(door, acls.describe, DescribeAclsResponse), context
        ),
        ApiKey.DESCRIBE_CONFIGS: route(DescribeConfigsRequest, describe_configs.handle, context),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: route(
            DescribeClientQuotasRequest,
            guarded(door, describe_client_quotas.handle, describe_client_quotas.refused),
            context,
        ),
        ApiKey.DESCRIBE_CLUSTER: route(DescribeClusterRequest, describe_cluster.handle, context),
        ApiKey.FIND_COORDINATOR: route(FindCoordinatorRequest, find_coordinator.handle, context),
        ApiKey.LIST_CONFIG_RESOURCES: route(
            ListConfigResourcesRequest,
            guarded(door, list_config_resources.handle, ListConfigResourcesResponse),
            context,
        ),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: route(
            DescribeTopicPartitionsRequest, describe_topic_partitions.handle, context
        ),
    }


def _admin_apis(context: AdminContext) -> Routes:
    return {
        ApiKey.CREATE_ACLS: route(CreateAclsRequest, acls.create, context),
        ApiKey.DELETE_ACLS: route(DeleteAclsRequest, acls.delete, context),
        ApiKey.CREATE_TOPICS: route(CreateTopicsRequest, create_topics.handle, context),
        ApiKey.DELETE_TOPICS: route(DeleteTopicsRequest, delete_topics.handle, context),
        ApiKey.ALTER_CLIENT_QUOTAS: route(
            AlterClientQuotasRequest, alter_client_quotas.handle, context
        ),
        ApiKey.ALTER_CONFIGS: route(AlterConfigsRequest, alter_configs.handle, context),
        ApiKey.CREATE_PARTITIONS: route(CreatePartitionsRequest, create_partitions.handle, context),
        ApiKey.ELECT_LEADERS: route(ElectLeadersRequest, elect_leaders.handle, context),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: route(
            IncrementalAlterConfigsRequest, incremental_alter_configs.handle, context
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: route(
            AlterPartitionReassignmentsRequest, alter_partition_reassignments.handle, context
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: route(
            ListPartitionReassignmentsRequest, list_partition_reassignments.handle, context
        ),
        ApiKey.DESCRIBE_QUORUM: route(DescribeQuorumRequest, describe_quorum.handle, context),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: route(
            AlterUserScramCredentialsRequest, alter_user_scram_credentials.handle, context
        ),
        ApiKey.UPDATE_FEATURES: route(UpdateFeaturesRequest, update_features.handle, context),
        ApiKey.UNREGISTER_BROKER: route(UnregisterBrokerRequest, unregister_broker.handle, context),
        ApiKey.ADD_RAFT_VOTER: route(AddRaftVoterRequest, add_raft_voter.handle, context),
        ApiKey.REMOVE_RAFT_VOTER: route(RemoveRaftVoterRequest, remove_raft_voter.handle, context),
    }


def _transactions_apis(context: TransactionsContext) -> Routes:
    return {
        ApiKey.INIT_PRODUCER_ID: route(InitProducerIdRequest, init_producer_id.handle, context),
        ApiKey.ADD_PARTITIONS_TO_TXN: route(
            AddPartitionsToTxnRequest, add_partitions_to_txn.handle, context
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: route(
            AddOffsetsToTxnRequest, add_offsets_to_txn.handle, context
        ),
        ApiKey.END_TXN: route(EndTxnRequest, end_txn.handle, context),
        ApiKey.WRITE_TXN_MARKERS: route(WriteTxnMarkersRequest, write_txn_markers.handle, context),
        ApiKey.TXN_OFFSET_COMMIT: route(TxnOffsetCommitRequest, txn_offset_commit.handle, context),
        ApiKey.DESCRIBE_TRANSACTIONS: route(
            DescribeTransactionsRequest, describe_transactions.handle, context
        ),
        ApiKey.LIST_TRANSACTIONS: route(ListTransactionsRequest, list_transactions.handle, context),
    }


def _groups_apis(context: GroupsContext) -> Routes:
    return {
        ApiKey.JOIN_GROUP: route(JoinGroupRequest, join_group.handle, context),
        ApiKey.SYNC_GROUP: route(SyncGroupRequest, sync_group.handle, context),
        ApiKey.HEARTBEAT: route(HeartbeatRequest, heartbeat.handle, context),
        ApiKey.LEAVE_GROUP: route(LeaveGroupRequest, leave_group.handle, context),
        ApiKey.OFFSET_COMMIT: route(OffsetCommitRequest, offset_commit.handle, context),
        ApiKey.OFFSET_FETCH: route(OffsetFetchRequest, offset_fetch.handle, context),
        ApiKey.OFFSET_DELETE: route(OffsetDeleteRequest, offset_delete.handle, context),
        ApiKey.LIST_GROUPS: route(ListGroupsRequest, list_groups.handle, context),
        ApiKey.DESCRIBE_GROUPS: route(DescribeGroupsRequest, describe_groups.handle, context),
        ApiKey.DELETE_GROUPS: route(DeleteGroupsRequest, delete_groups.handle, context),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: route(
            ConsumerGroupHeartbeatRequest, consumer_group_heartbeat.handle, context
        ),
        ApiKey.CONSUMER_GROUP_DESCRIBE: route(
            ConsumerGroupDescribeRequest, consumer_group_describe.handle, context
        ),
    }


def controller_routes(contexts: Contexts, of_brokers: Routes) -> Routes:
    """The same on the listeners of controllers, where a fetch is one of the metadata log."""
    context = contexts.controller
    if context is None:
        return {}
    door = context.authorization
    table: dict[ApiKey, Route] = {
        **of_brokers,
        ApiKey.FETCH: decoded_route(
            decode_fetch, guarded_fetch(door, metadata_fetch.handle), context
        ),
        ApiKey.VOTE: route(VoteRequest, guarded(door, vote.handle, VoteResponse), context),
        ApiKey.BEGIN_QUORUM_EPOCH: route(
            BeginQuorumEpochRequest,
            guarded(door, begin_quorum_epoch.handle, BeginQuorumEpochResponse),
            context,
        ),
        ApiKey.END_QUORUM_EPOCH: route(
            EndQuorumEpochRequest,
            guarded(door, end_quorum_epoch.handle, EndQuorumEpochResponse),
            context,
        ),
        ApiKey.ALTER_PARTITION: route(AlterPartitionRequest, alter_partition.handle, context),
        ApiKey.FETCH_SNAPSHOT: route(
            FetchSnapshotRequest,
            guarded(door, fetch_snapshot.handle, FetchSnapshotResponse),
            context,
        ),
        ApiKey.BROKER_REGISTRATION: route(
            BrokerRegistrationRequest, broker_registration.handle, context
        ),
        ApiKey.BROKER_HEARTBEAT: route(BrokerHeartbeatRequest, broker_heartbeat.handle, context),
        ApiKey.ALLOCATE_PRODUCER_IDS: route(
            AllocateProducerIdsRequest, allocate_producer_ids.handle, context
        ),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: route(
            AssignReplicasToDirsRequest, assign_replicas_to_dirs.handle, context
        ),
        ApiKey.CONTROLLER_REGISTRATION: route(
            ControllerRegistrationRequest, controller_registration.handle, context
        ),
        ApiKey.UPDATE_RAFT_VOTER: route(
            UpdateRaftVoterRequest,
            guarded(door, update_raft_voter.handle, UpdateRaftVoterResponse),
            context,
        ),
    }
    opened = envelope.EnvelopeContext(context.plane, of_brokers)
    table[ApiKey.ENVELOPE] = route(
        EnvelopeRequest, guarded(door, envelope.handle, EnvelopeResponse), opened
    )
    return table
