"""Produce on the wire: the request a producer sends and the answer it gets."""

from __future__ import annotations

from tidelog.protocol.node_endpoints import NodeEndpoint
from tidelog.protocol.produce_request import (
    ProduceRequest,
    ProduceTopic,
    decode_produce,
    encode_produce,
)
from tidelog.protocol.produce_response import (
    ProducedPartition,
    ProducedTopic,
    ProduceResponse,
    decode_produce_response,
    encode_produce_response,
)

__all__ = [
    "NodeEndpoint",
    "ProduceRequest",
    "ProduceResponse",
    "ProduceTopic",
    "ProducedPartition",
    "ProducedTopic",
    "decode_produce",
    "decode_produce_response",
    "encode_produce",
    "encode_produce_response",
]
