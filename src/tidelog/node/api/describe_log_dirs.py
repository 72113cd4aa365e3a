"""DescribeLogDirs (key 35, versions 1-5): what lies where on this broker's disks."""

from __future__ import annotations

from typing import Any

from tidelog.model.errors import DiskError, ErrorCode
from tidelog.node.api.contexts import RecordsContext
from tidelog.node.core.request import Reply, Request
from tidelog.storage.log_directory import LogDirectory


def handle(context: RecordsContext, request: Request[Any]) -> Reply:
    """List the logs of every directory, or those of the partitions that were named."""
    asked = request.body.topics
    wanted: set[tuple[str, int]] | None = None
    if asked is not None:
        wanted = {(topic.topic, index) for topic in asked for index in topic.partitions}
    return {
        "error_code": ErrorCode.none,
        "results": [_directory(context, directory, wanted) for directory in context.directories],
    }


def _directory(
    context: RecordsContext, directory: LogDirectory, wanted: set[tuple[str, int]] | None
) -> dict[str, Any]:
    failed = {"log_dir": directory.path, "error_code": ErrorCode.kafka_storage_error, "topics": []}
    if directory.offline_reason is not None:
        return failed
    try:
        total, usable = context.runtime.files.space(directory.path)
    except DiskError:
        return failed
    return {
        "log_dir": directory.path,
        "error_code": ErrorCode.none,
        "topics": _topics(context, directory, wanted),
        "total_bytes": total,
        "usable_bytes": usable,
    }


def _topics(
    context: RecordsContext, directory: LogDirectory, wanted: set[tuple[str, int]] | None
) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for name in sorted(directory.logs):
        hosted = context.replicas.get(name)
        if hosted is None or (wanted is not None and name not in wanted):
            continue
        topics.setdefault(name.topic, []).append(
            {
                "partition_index": name.partition,
                "partition_size": hosted.log.size_bytes,
                "offset_lag": max(0, hosted.high_watermark.offset - hosted.log.end_offset),
                "is_future_key": False,
            }
        )
    return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
