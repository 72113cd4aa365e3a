"""InitProducerId (key 22, versions 0-5): an identity for a producer that never repeats itself.

Ids come from blocks that the controller hands out, so no id is given twice, ever, by any broker.
A transactional id belongs to a transaction coordinator, which this node does not run.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.broker_state import BrokerState
from tidelog.node.request import Reply, Request


def handle(broker: BrokerState, request: Request) -> Reply:
    """Give the next free id; wait for a new block when the current one is used up."""
    if request.body.transactional_id is not None:
        if not request.body.transactional_id:
            return _refused(ErrorCode.invalid_request)
        return _refused(ErrorCode.not_coordinator)
    producer_id = broker.producer_ids.take()
    if producer_id is not None:
        return _given(producer_id)
    later = request.park()

    def block_arrived(refusal: Refusal | None) -> None:
        taken = None if refusal is not None else broker.producer_ids.take()
        if taken is None:
            request.answer(_refused(ErrorCode.coordinator_load_in_progress))
        else:
            request.answer(_given(taken))

    broker.producer_ids.refill(request.now, block_arrived)
    return later


def _given(producer_id: int) -> dict[str, object]:
    return {"error_code": ErrorCode.none, "producer_id": producer_id, "producer_epoch": 0}


def _refused(error: ErrorCode) -> dict[str, object]:
    return {"error_code": error, "producer_id": -1, "producer_epoch": -1}
