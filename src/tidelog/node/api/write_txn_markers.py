"""WriteTxnMarkers (key 27, versions 1-2): a coordinator has the end of transactions written.

A coordinator of ours says besides which of its decisions this is, and which leader it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.node.api.contexts import TransactionsContext
from tidelog.node.coordination.marker_writing import ANY_LEADER_EPOCH, MarkerOrder
from tidelog.node.core.request import Fields, Later, Reply, Request
from tidelog.protocol.entity_messages import field
from tidelog.replication.written_ends import TransactionEnd


def handle(context: TransactionsContext, request: Request[Any]) -> Reply:
    """Write every marker, and answer when the outcome of each is known."""
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
            request.answer(_fields(request, outcomes))

    for place, order in wanted.items():
        context.markers.write(request.now, place[1], order, partial(written, place))
    if len(outcomes) == len(wanted):
        return _fields(request, outcomes)
    waits = request.park()
    return waits


def _end(marker: Any) -> TransactionEnd:
    return TransactionEnd(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=field(marker, "transaction_version", 0),
        decided_ms=marker.decided_ms,
    )


def _leader_epochs(topic: Any) -> Sequence[int]:
    """One for each partition; none is known when there is not one for each."""
    count = len(topic.partition_indexes)
    told: Sequence[int] = topic.leader_epochs
    return told if len(told) == count else (ANY_LEADER_EPOCH,) * count


def _fields(request: Request[Any], outcomes: dict[tuple[int, TopicPartition], ErrorCode]) -> Fields:
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {
                                "partition_index": index,
                                "error_code": outcomes[at, TopicPartition(topic.name, index)],
                            }
                            for index in topic.partition_indexes
                        ],
                    }
                    for topic in marker.topics
                ],
            }
            for at, marker in enumerate(request.body.markers)
        ]
    }
