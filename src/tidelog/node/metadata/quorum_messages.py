"""The metadata log in Kafka's requests: one topic, one partition, no session.

Both ends are here, so that what one writes the other reads.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.config import NodeConfig
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID
from tidelog.protocol.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FileRegion,
    NodeEndpoint,
    Part,
    encode_fetch_response,
)
from tidelog.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
    FetchSnapshotResponse,
)
from tidelog.quorum.fetching import MetadataFetch, MetadataFetchResponse, SnapshotFetchResponse
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.snapshots import SnapshotDownload, SnapshotId
from tidelog.storage.log_values import LogSlice

FETCH_VERSION: Final = 18
"""The first one in which a follower says how far it knows the log to be committed (KIP-1166)."""
SNAPSHOT_VERSION: Final = 1
MAX_WAIT_MS: Final = 500
_NO_SESSION: Final = -1


def longest_wait_ms(config: NodeConfig) -> int:
    """How long a fetch waits for records: not until a voter would stand for want of an answer."""
    return min(MAX_WAIT_MS, config.controller_quorum_fetch_timeout_ms // 2)


def fetch_request(asked: MetadataFetch, cluster_id: str, max_wait_ms: int) -> FetchRequest:
    """The question of a follower, which waits so long for an answer with something in it."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=asked.leader_epoch,
        fetch_offset=asked.offset,
        last_fetched_epoch=asked.last_epoch,
        log_start_offset=-1,
        max_bytes=asked.max_bytes,
        replica_directory_id=asked.directory_id,
        high_watermark=asked.high_watermark,
    )
    return FetchRequest(
        replica_id=asked.replica_id,
        replica_epoch=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=0,
        max_bytes=asked.max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=_NO_SESSION,
        topics=[FetchTopic(METADATA_TOPIC, METADATA_TOPIC_ID, [partition])],
        forgotten=[],
        rack_id="",
        cluster_id=cluster_id,
    )


def asked_for(request: FetchRequest, cluster_id: str) -> MetadataFetch | ErrorCode:
    """The question behind a request; whatever is no question about the metadata is refused."""
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        return ErrorCode.inconsistent_cluster_id
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return ErrorCode.invalid_request
    [topic] = request.topics
    [partition] = topic.partitions
    named = topic.topic_id == METADATA_TOPIC_ID or topic.name == METADATA_TOPIC
    if not named or partition.partition != 0 or request.max_wait_ms < 0:
        return ErrorCode.invalid_request
    return MetadataFetch(
        replica_id=request.replica_id,
        directory_id=partition.replica_directory_id or ZERO_UUID,
        leader_epoch=partition.current_leader_epoch,
        offset=partition.fetch_offset,
        last_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_bytes=min(partition.max_bytes, request.max_bytes),
    )


def fetch_response(
    version: int, correlation_id: int, answer: MetadataFetchResponse[LogSlice]
) -> list[Part]:
    """The answer of the leader, or of somebody who knows where it is found."""
    records = answer.records
    leader = []
    if answer.leader_address is not None:
        leader.append(NodeEndpoint(answer.leader_id, *answer.leader_address, None))
    partition = FetchedPartition(
        index=0,
        error=answer.error,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        records=None if records is None else FileRegion(*records),
        diverging_epoch=answer.diverging,
        current_leader=(answer.leader_id, answer.leader_epoch),
        snapshot_id=answer.snapshot,
    )
    topics = [(METADATA_TOPIC, METADATA_TOPIC_ID, [partition])]
    return encode_fetch_response(version, correlation_id, ErrorCode.none, 0, topics, leader, 0)


def fetched(response: FetchResponse) -> MetadataFetchResponse[memoryview] | ErrorCode:
    """What the leader said; an error when it did not speak of the metadata at all."""
    if response.error:
        return ErrorCode(response.error)
    if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        return ErrorCode.unknown_server_error
    [partition] = response.topics[0].partitions
    if response.topics[0].topic_id != METADATA_TOPIC_ID or partition.index != 0:
        return ErrorCode.unknown_server_error
    leader_id, leader_epoch = partition.current_leader or (-1, -1)
    records = partition.records
    found = [point for point in response.node_endpoints if point.node_id == leader_id]
    return MetadataFetchResponse(
        error=partition.error,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        leader_address=(found[0].host, found[0].port) if found else None,
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        records=records if isinstance(records, memoryview) and records else None,
        diverging=partition.diverging_epoch,
        snapshot=None if partition.snapshot_id is None else SnapshotId(*partition.snapshot_id),
    )


def snapshot_request(
    download: SnapshotDownload, own: ReplicaKey, epoch: int, cluster_id: str, max_bytes: int
) -> FetchSnapshotRequest:
    """The question for the next piece of a snapshot."""
    partition = FetchSnapshotRequestPartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=FetchSnapshotRequestSnapshotId(
            end_offset=download.id.offset, epoch=download.id.epoch
        ),
        position=download.position,
        replica_directory_id=own.directory_id,
    )
    topic = FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    return FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=own.id, max_bytes=max_bytes, topics=[topic]
    )


def snapshot_piece(answer: FetchSnapshotResponse) -> SnapshotFetchResponse:
    """The piece in an answer."""
    if answer.error_code or len(answer.topics) != 1 or len(answer.topics[0].partitions) != 1:
        return SnapshotFetchResponse(answer.error_code or ErrorCode.unknown_server_error)
    [partition] = answer.topics[0].partitions
    return SnapshotFetchResponse(
        partition.error_code,
        partition.size,
        partition.position,
        partition.unaligned_records or b"",
    )
