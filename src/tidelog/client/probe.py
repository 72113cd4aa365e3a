"""Is this node ready? One short question, asked of exactly one address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError
from tidelog.client.metadata import read_metadata
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest
from tidelog.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from tidelog.client.security import ClientSecurity

_CONTROLLERS: Final = 2


def is_unfenced(
    host: str, port: int, node_id: int, *, timeout_s: float, security: ClientSecurity | None = None
) -> bool:
    """Whether the broker answers and shows itself in its own metadata, which leaves out fenced
    brokers."""
    try:
        connection = Connection(
            host, port, client_id="tidelog-probe", timeout_s=timeout_s, security=security
        )
        try:
            request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
            return node_id in read_metadata(connection.call(request)).brokers
        finally:
            connection.close()
    except ClientError:
        return False


def known_controller(
    host: str, port: int, *, timeout_s: float, security: ClientSecurity | None = None
) -> int | None:
    """Whom the controller at that address takes for the active one; None when for nobody."""
    try:
        connection = Connection(
            host, port, client_id="tidelog-probe", timeout_s=timeout_s, security=security
        )
        try:
            answer = connection.call(DescribeClusterRequest(endpoint_type=_CONTROLLERS))
            return None if answer.controller_id < 0 else answer.controller_id
        finally:
            connection.close()
    except ClientError:
        return None
