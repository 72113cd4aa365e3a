"""WriteTxnMarkers (key 27, versions 1-2): a coordinator has the end of transactions written.

A coordinator of ours says besides which of its decisions this is, and which leader it means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.node.api.contexts import TransactionsContext
from tidelog.node.coordination.marker_writing import ANY_LEADER_EPOCH, MarkerOrder
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.replication.written_ends import TransactionEnd
from tidelog.security.acls import AclOperation


def handle(
    context: TransactionsContext, request: Request[WriteTxnMarkersRequest]
) -> WriteTxnMarkersResponse | Later:
    """Write every marker, and answer when the outcome of each is known."""
    authorization = context.authorization
    if not authorization.allows_on_cluster(
        request, AclOperation.ALTER, quietly=True
    ) and not authorization.allows_on_cluster(request, AclOperation.CLUSTER_ACTION):
        return _response(request.body, _Denied())
    outcomes: dict[tuple[int, TopicPartition], ErrorCode] = {}
    wanted = {
        (at, TopicPartition(topic.name, index)): MarkerOrder(end, leader_epoch)
        for at, marker in enumerate(request.body.markers)
        for end in [_end(marker)]
        for topic in marker.topics
        for index, leader_epoch in zip(topic.partition_indexes, _leader_epochs(topic), strict=True)
    }
    waits: Later | None = None

    def written(place: tuple[int, TopicPartition], code: ErrorCode) -> None:
        outcomes[place] = code
        if len(outcomes) == len(wanted) and waits is not None:
            request.answer(_response(request.body, outcomes))

    for place, order in wanted.items():
        context.markers.write(request.now, place[1], order, partial(written, place))
    if len(outcomes) == len(wanted):
        return _response(request.body, outcomes)
    waits = request.park()
    return waits


class _Denied(dict[tuple[int, TopicPartition], ErrorCode]):
    """The outcome of every marker where none may be written."""

    def __missing__(self, place: tuple[int, TopicPartition]) -> ErrorCode:
        return ErrorCode.cluster_authorization_failed


def _end(marker: WritableTxnMarker) -> TransactionEnd:
    return TransactionEnd(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        decided_ms=marker.decided_ms,
    )


def _leader_epochs(topic: WritableTxnMarkerTopic) -> Sequence[int]:
    """One for each partition; none is known when there is not one for each."""
    count = len(topic.partition_indexes)
    known = topic.leader_epochs
    return known if len(known) == count else (ANY_LEADER_EPOCH,) * count


def _response(
    body: WriteTxnMarkersRequest, outcomes: Mapping[tuple[int, TopicPartition], ErrorCode]
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=outcomes[at, TopicPartition(topic.name, index)],
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for at, marker in enumerate(body.markers)
        ]
    )
