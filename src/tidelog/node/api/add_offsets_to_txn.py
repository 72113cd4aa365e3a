"""AddOffsetsToTxn (key 25, versions 0-4): the offsets of a group take part in a transaction."""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.internal_topics import OFFSETS_TOPIC
from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.add_partitions import AddPartitionsToTxn
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.node.api.contexts import TransactionsContext
from tidelog.node.coordination.transaction_joining import Verdicts
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from tidelog.security.acls import AclOperation, ResourceType

FENCED_SINCE: Final = 2


def handle(
    context: TransactionsContext, request: Request[AddOffsetsToTxnRequest]
) -> AddOffsetsToTxnResponse | Later:
    """Add the partition that keeps the offsets of the group."""
    body = request.body
    if not context.authorization.allows(
        request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id
    ):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.transactional_id_authorization_failed)
    if not context.authorization.allows(
        request, AclOperation.READ, ResourceType.GROUP, body.group_id
    ):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.group_authorization_failed)
    if not context.groups.topic_exists:
        context.groups.create_topic(request.now)
        return AddOffsetsToTxnResponse(error_code=ErrorCode.coordinator_not_available)
    partition = TopicPartition(OFFSETS_TOPIC, context.groups.partition_of(body.group_id))
    asked = AddPartitionsToTxn(
        body.transactional_id,
        ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
        frozenset({partition}),
    )
    later = request.park()

    def known(verdicts: Verdicts) -> None:
        code = verdicts[partition]
        if code is ErrorCode.producer_fenced and request.api_version < FENCED_SINCE:
            code = ErrorCode.invalid_producer_epoch
        request.answer(AddOffsetsToTxnResponse(error_code=code))

    context.joining.ask_here(request.now, asked, adds=True, then=known)
    return later
