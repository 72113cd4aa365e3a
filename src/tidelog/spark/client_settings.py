"""How librdkafka is set up for each of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidelog.spark.options import READ_COMMITTED, ReadOptions, WriteOptions

QUIET: Final = {"log_level": 0}
"""Trouble that passes is waited out, trouble that stays is an exception; nobody reads the log."""

RECOVERY: Final = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.fast.interval.ms": 50,
}
"""A broker that fails is replaced within a second; the client must notice as quickly."""

_CONSUMER_ONLY: Final = ("isolation.level", "group.id", "fetch.", "max.partition.fetch.bytes",
                         "check.crcs", "queued.", "client.rack", "max.poll.", "session.timeout",
                         "heartbeat.")  # fmt: skip


def admin_settings(client: Mapping[str, str]) -> dict[str, Any]:
    """For questions about the cluster."""
    shared = {name: text for name, text in client.items() if not name.startswith(_CONSUMER_ONLY)}
    return {**QUIET, **RECOVERY, **shared}


def consumer_settings(options: ReadOptions) -> dict[str, Any]:
    """For reading one range: large fetches, a queue that refills early, an end that is told."""
    return {
        **QUIET,
        **RECOVERY,
        "group.id": options.group_id_prefix,
        "isolation.level": READ_COMMITTED,
        "check.crcs": True,
        "fetch.error.backoff.ms": 50,
        "fetch.queue.backoff.ms": 5,
        "fetch.message.max.bytes": 4 << 20,
        "queued.max.messages.kbytes": 32 << 10,
        "queued.min.messages": 1_000_000,
        **options.client,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
    }


def producer_settings(options: WriteOptions) -> dict[str, Any]:
    """For writing rows: idempotent, acknowledged by all in-sync replicas."""
    return {
        **QUIET,
        **RECOVERY,
        "linger.ms": 20,
        "batch.size": 1_000_000,
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": 1 << 20,
        "partitioner": "murmur2_random",
        **options.client,
        "enable.idempotence": True,
        "acks": "all",
    }
