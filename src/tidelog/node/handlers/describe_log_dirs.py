"""DescribeLogDirs (key 35, versions 1-5): what lies where on this broker's disks."""

from __future__ import annotations

from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.node.broker_state import BrokerState
from tidelog.node.request import Reply, Request


def handle(broker: BrokerState, request: Request) -> Reply:
    """List the logs of every directory, or those of the topics that were named."""
    asked = request.body.topics
    wanted: set[tuple[str, int]] | None = None
    if asked is not None:
        wanted = {(topic.topic, index) for topic in asked for index in topic.partitions}
    results = []
    for directory in broker.directories:
        topics: dict[str, list[dict[str, Any]]] = {}
        for partition in broker.replicas:
            name = partition.name
            if partition.log.directory.rpartition("/")[0] != directory.path:
                continue
            if wanted is not None and tuple(name) not in wanted:
                continue
            topics.setdefault(name.topic, []).append(
                {
                    "partition_index": name.partition,
                    "partition_size": partition.log.size_bytes,
                    "offset_lag": max(
                        0, partition.high_watermark.offset - partition.log.end_offset
                    ),
                    "is_future_key": False,
                }
            )
        offline = directory.offline_reason is not None
        total, usable = (-1, -1) if offline else broker.files.space(directory.path)
        results.append(
            {
                "error_code": ErrorCode.kafka_storage_error if offline else ErrorCode.none,
                "log_dir": directory.path,
                "topics": [{"name": name, "partitions": topics[name]} for name in sorted(topics)],
                "total_bytes": total,
                "usable_bytes": usable,
            }
        )
    return {"error_code": ErrorCode.none, "results": results}
