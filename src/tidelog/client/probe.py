"""Is this broker ready? One short question, asked of exactly one address."""

from __future__ import annotations

from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError
from tidelog.client.metadata import read_metadata
from tidelog.wire.apis import ApiKey


def is_unfenced(host: str, port: int, node_id: int, *, timeout_s: float) -> bool:
    """Whether the broker answers and shows itself in its own metadata, which leaves out fenced
    brokers."""
    try:
        connection = Connection(host, port, client_id="tidelog-probe", timeout_s=timeout_s)
        try:
            fields = {"topics": [], "allow_auto_topic_creation": False}
            return node_id in read_metadata(connection.call(ApiKey.METADATA, fields)).brokers
        finally:
            connection.close()
    except ClientError:
        return False
