"""FetchSnapshot (key 59, versions 0-1): a node begins with a snapshot of the metadata."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC, ZERO_UUID
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Request
from tidelog.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotResponseLeaderIdAndEpoch,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseSnapshotId,
    FetchSnapshotResponseTopicSnapshot,
)
from tidelog.quorum.fetching import SnapshotFetch
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.snapshots import SnapshotId


def handle(
    context: ControllerContext, request: Request[FetchSnapshotRequest]
) -> FetchSnapshotResponse:
    """Give the piece that is asked for; its bytes may end anywhere."""
    body = request.body
    if body.cluster_id is not None and body.cluster_id != context.cluster.cluster_id:
        return FetchSnapshotResponse(error_code=ErrorCode.inconsistent_cluster_id)
    if len(body.topics) != 1 or len(body.topics[0].partitions) != 1:
        return FetchSnapshotResponse(error_code=ErrorCode.invalid_request)
    [topic] = body.topics
    [asked] = topic.partitions
    if topic.name != METADATA_TOPIC or asked.partition != 0:
        return FetchSnapshotResponse(error_code=ErrorCode.unknown_topic_or_partition)
    fetches = context.plane.fetches
    snapshot = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
    wanted = SnapshotFetch(
        replica=ReplicaKey(body.replica_id, asked.replica_directory_id or ZERO_UUID),
        leader_epoch=asked.current_leader_epoch,
        snapshot=snapshot,
        position=asked.position,
        max_bytes=body.max_bytes,
    )
    piece = fetches.snapshot_piece(wanted, request.now)
    leader_id, leader_epoch = fetches.leader
    partition = FetchSnapshotResponsePartitionSnapshot(
        index=asked.partition,
        error_code=ErrorCode(piece.error),
        snapshot_id=FetchSnapshotResponseSnapshotId(
            end_offset=snapshot.offset, epoch=snapshot.epoch
        ),
        current_leader=FetchSnapshotResponseLeaderIdAndEpoch(
            leader_id=leader_id, leader_epoch=leader_epoch
        ),
        size=piece.size,
        position=piece.position,
        unaligned_records=piece.data,
    )
    return FetchSnapshotResponse(
        topics=[FetchSnapshotResponseTopicSnapshot(name=topic.name, partitions=[partition])]
    )
