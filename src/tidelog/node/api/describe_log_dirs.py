"""DescribeLogDirs (key 35, versions 1-5): what lies where on this broker's disks."""

from __future__ import annotations

from tidelog.model.errors import DiskError, ErrorCode
from tidelog.node.api.contexts import RecordsContext
from tidelog.node.core.request import Request
from tidelog.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tidelog.storage.log_directory import LogDirectory


def handle(
    context: RecordsContext, request: Request[DescribeLogDirsRequest]
) -> DescribeLogDirsResponse:
    """List the logs of every directory, or those of the partitions that were named."""
    asked = request.body.topics
    wanted: set[tuple[str, int]] | None = None
    if asked is not None:
        wanted = {(topic.topic, index) for topic in asked for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[_directory(context, directory, wanted) for directory in context.directories]
    )


def _directory(
    context: RecordsContext, directory: LogDirectory, wanted: set[tuple[str, int]] | None
) -> DescribeLogDirsResult:
    failed = DescribeLogDirsResult(log_dir=directory.path, error_code=ErrorCode.kafka_storage_error)
    if directory.offline_reason is not None:
        return failed
    try:
        total, usable = context.runtime.files.space(directory.path)
    except DiskError:
        return failed
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=_topics(context, directory, wanted),
        total_bytes=total,
        usable_bytes=usable,
    )


def _topics(
    context: RecordsContext, directory: LogDirectory, wanted: set[tuple[str, int]] | None
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for name in sorted(directory.logs):
        hosted = context.replicas.get(name)
        if hosted is None or (wanted is not None and name not in wanted):
            continue
        topics.setdefault(name.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=name.partition,
                partition_size=hosted.log.size_bytes,
                offset_lag=max(0, hosted.high_watermark.offset - hosted.log.end_offset),
            )
        )
    return [
        DescribeLogDirsTopic(name=name, partitions=partitions)
        for name, partitions in topics.items()
    ]
