"""CreateTopics (key 19, versions 2-7): decided by the controller, answered when it is true."""

from __future__ import annotations

from typing import Any

from tidelog.controller.topics import CreatedTopic, NewTopic
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Reply, Request
from tidelog.protocol.entity_messages import field


def handle(context: AdminContext, request: Request[Any]) -> Reply:
    """Create every topic that can be created; the others get their refusal."""
    wishes = [
        NewTopic(
            name=topic.name,
            partitions=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignments=[(each.partition_index, each.broker_ids) for each in topic.assignments],
            configs={config.name: config.value for config in topic.configs},
        )
        for topic in request.body.topics
    ]
    validate_only = field(request.body, "validate_only", False)
    return context.control.decide(
        request,
        lambda controller: controller.create_topics(wishes, validate_only=validate_only),
        # One that is named twice is answered for once.
        lambda outcome: {"topics": [_fields(*each) for each in dict(outcome).items()]},
        lambda refusal: {"topics": [_fields(wish.name, refusal) for wish in wishes]},
    )


def _fields(name: str, result: CreatedTopic | Refusal) -> dict[str, Any]:
    if isinstance(result, Refusal):
        return {
            "name": name,
            "error_code": result.code,
            "error_message": result.why,
            "configs": [],
        }
    return {
        "name": name,
        "error_code": ErrorCode.none,
        "error_message": None,
        "topic_id": result.topic_id,
        "num_partitions": result.partitions,
        "replication_factor": result.replication_factor,
        "configs": [
            {
                "name": entry.name,
                "value": entry.value,
                "read_only": entry.read_only,
                "config_source": int(entry.source),
                "is_sensitive": entry.sensitive,
            }
            for entry in result.configs
        ],
    }
