"""WriteTxnMarkers (key 27, versions 1-2): a coordinator has the end of transactions written."""

from __future__ import annotations

from functools import partial

from tidelog.coordinator.decision import Producer
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.node.broker_state import BrokerState
from tidelog.node.marker_writing import MarkerOrder, write_marker
from tidelog.node.request import Fields, Later, Reply, Request
from tidelog.wire.messages import field


def handle(broker: BrokerState, request: Request) -> Reply:
    """Write every marker, and answer when the outcome of each is known."""
    outcomes: dict[tuple[int, TopicPartition], ErrorCode] = {}
    wanted = dict.fromkeys(
        (at, TopicPartition(topic.name, index))
        for at, marker in enumerate(request.body.markers)
        for topic in marker.topics
        for index in topic.partition_indexes
    )
    waits: Later | None = None

    def written(place: tuple[int, TopicPartition], code: ErrorCode) -> None:
        outcomes[place] = code
        if len(outcomes) == len(wanted) and waits is not None:
            request.answer(_fields(request, outcomes))

    for place in wanted:
        at, name = place
        marker = request.body.markers[at]
        order = MarkerOrder(
            Producer(marker.producer_id, marker.producer_epoch),
            marker.transaction_result,
            marker.coordinator_epoch,
            field(marker, "transaction_version", 0),
        )
        write_marker(broker, request.now, name, order, partial(written, place))
    if len(outcomes) == len(wanted):
        return _fields(request, outcomes)
    waits = request.park()
    return waits


def _fields(request: Request, outcomes: dict[tuple[int, TopicPartition], ErrorCode]) -> Fields:
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
