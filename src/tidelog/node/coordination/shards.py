"""New coordinators of a node, by its settings and the features of its cluster."""

from __future__ import annotations

from tidelog.controller.features import TRANSACTION_VERSION
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.groups.shard import GroupShard
from tidelog.coordinator.shard import CoordinatorTimer
from tidelog.coordinator.transactions.records import TransactionRecord
from tidelog.coordinator.transactions.shard import TransactionRules, TransactionShard
from tidelog.model.entropy import Entropy
from tidelog.node.control.producer_ids import ProducerIds
from tidelog.node.coordination.coordinated_partition import HostedShard
from tidelog.node.coordination.group_metadata import GroupMetadata
from tidelog.node.coordination.transaction_markers import TransactionMarkers
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.replication.partition import Partition


def group_shard(
    cluster: ClusterView,
    entropy: Entropy,
    partition: Partition,
    timers: CoordinatorTimer[GroupRecord],
) -> HostedShard[GroupShard, GroupRecord]:
    """A new coordinator of groups."""
    metadata = GroupMetadata(cluster)
    shard = GroupShard(
        cluster.config,
        entropy,
        metadata,
        timers,
        metadata.times_of,
        lambda: partition.rules.largest_batch,
    )
    return HostedShard(shard, shard)


def transaction_shard(
    cluster: ClusterView,
    markers: TransactionMarkers,
    producer_ids: ProducerIds,
    partition: Partition,
    timers: CoordinatorTimer[TransactionRecord],
) -> HostedShard[TransactionShard, TransactionRecord]:
    """A new coordinator of transactions; the epoch in which it leads fences the one before it."""
    config = cluster.config
    shard = TransactionShard(
        timers,
        TransactionRules(
            max_timeout_ms=config.transaction_max_timeout_ms,
            timeout_check_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expiration_ms=config.transactional_id_expiration_ms,
            expiration_check_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            join_wait_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
            two_phase_enabled=config.transaction_two_phase_commit_enable,
        ),
        partition.leader_epoch,
        markers,
        lambda: cluster.image.features.get(TRANSACTION_VERSION, 0),
        producer_ids.take,
        lambda: partition.rules.largest_batch,
    )
    return HostedShard(shard, shard)
