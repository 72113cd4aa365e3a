"""Producer ids: handed to brokers in blocks, so that no two producers ever share one.

Invariant  The next block starts where the log says, past every block handed out before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.controller.brokers import current_broker
from tidelog.controller.image import ClusterImage
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
MAX_PRODUCER_ID: Final = 2**63 - 1


class ProducerIdBlock(NamedTuple):
    """Producer ids a broker may give away."""

    first: int
    length: int = BLOCK_SIZE


def allocate_producer_ids(
    image: ClusterImage, broker_id: int, broker_epoch: int
) -> ControllerResult[ProducerIdBlock | Refusal]:
    """The next block, for a broker that is who it says it is."""
    broker = current_broker(image, broker_id, broker_epoch)
    if isinstance(broker, Refusal):
        return ControllerResult((), broker)
    first = image.next_producer_id
    if first > MAX_PRODUCER_ID - BLOCK_SIZE:
        why = "All producer ids have been used."
        return ControllerResult((), Refusal(ErrorCode.unknown_server_error, why))
    record = ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return ControllerResult((record,), ProducerIdBlock(first))
