"""Metadata (key 3, versions 0-13): brokers, topics, partitions and their leaders.

Answers come from this broker's own image of the cluster, whose topics are encoded once. A client
that names a topic which does not exist may have it created (`auto.create.topics.enable`); its
answer then waits for the topic. One that asks for a leader which has just gone is answered when it
is decided who leads instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from tidelog.controller.topics import NewTopic, bad_name
from tidelog.coordinator.internal_topics import internal_topic
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import INTERNAL_TOPICS
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.coordination.coordinators import as_new_topic
from tidelog.node.core.authorization import EVERY_OPERATION
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from tidelog.protocol.metadata_response import encode_topic, topics_array
from tidelog.security.acls import AclOperation, ResourceType

OPERATIONS_NOT_ASKED: Final = -(2**31)
TOPIC_IDS_SINCE: Final = 12


def handle(context: ClusterContext, request: Request[MetadataRequest]) -> MetadataResponse | Later:
    """Answer at once, or after the missing topics have been created."""
    if request.api_version < TOPIC_IDS_SINCE and _asks_by_id(request):
        return _refused(request)
    missing = _to_create(context, request)
    denied = _not_to_create(context, request, missing)
    missing = [name for name in missing if name not in denied]
    if not missing:
        return _answer_when_decided(context, request, denied)
    later = request.park()
    context.control.create_topics(
        request.now,
        [_new_topic(context, name) for name in missing],
        lambda refusals: request.answer(
            _answer(context, request, denied | {name: why.code for name, why in refusals.items()})
        ),
    )
    return later


def _not_to_create(
    context: ClusterContext, request: Request[MetadataRequest], missing: Iterable[str]
) -> dict[str, ErrorCode]:
    """Topics that are not there and that the client may not have created.

    Who may not describe them is not told that they are not there, and creates nothing either.
    """
    authorization = context.authorization
    if authorization.authorizer is None:
        return {}
    create, describe, kind = AclOperation.CREATE, AclOperation.DESCRIBE, ResourceType.TOPIC
    hidden = authorization.denied(request, describe, kind, missing, quietly=True)
    denied: frozenset[str] = frozenset()
    if not authorization.allows_on_cluster(request, create, quietly=True):
        seen = [name for name in missing if name not in hidden]
        denied = authorization.denied(request, create, kind, seen)
    return dict.fromkeys(hidden | denied, ErrorCode.topic_authorization_failed)


def _answer_when_decided(
    context: ClusterContext, request: Request[MetadataRequest], denied: dict[str, ErrorCode]
) -> MetadataResponse | Later:
    """At once, unless the answer would have to leave out a leader that is about to be replaced."""
    doubtful = _leaders_in_doubt(context, request)
    if not doubtful:
        return _answer(context, request, denied)
    departures = context.departures
    ends_ms = [departures.doubt_ends_ms(leader) or 0 for leader in doubtful]
    decided = context.delayed_requests.delay(
        request.now,
        lambda: bool(_leaders_in_doubt(context, request)),
        max(ends_ms) - request.now.monotonic_ms,
    )
    return request.answer_with(decided.map(lambda _: _answer(context, request, denied)))


def _leaders_in_doubt(context: ClusterContext, request: Request[MetadataRequest]) -> set[int]:
    """Of the leaders that the answer names, those who may be gone."""
    in_doubt = set(context.departures.in_doubt)
    if not in_doubt:
        return in_doubt
    image, asked = context.cluster.image, request.body.topics
    if asked is None or (request.api_version == 0 and not asked):
        topics = list(image.topics_by_name.values())
    else:
        found = (
            image.topics_by_name.get(entry.name or "")
            if entry.topic_id is None
            else image.topics_by_id.get(entry.topic_id)
            for entry in asked
        )
        topics = [topic for topic in found if topic is not None]
    leaders = {partition.leader for topic in topics for partition in topic.partitions.values()}
    return leaders & in_doubt


def _new_topic(context: ClusterContext, name: str) -> NewTopic:
    internal = internal_topic(name, context.cluster.config)
    return NewTopic(name) if internal is None else as_new_topic(internal)


def _asks_by_id(request: Request[MetadataRequest]) -> bool:
    """Versions 10 and 11 have a field for it, but their answers cannot leave out a name."""
    topics = request.body.topics or ()
    return any(topic.name is None or topic.topic_id is not None for topic in topics)


def _refused(request: Request[MetadataRequest]) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=ErrorCode.invalid_request, name=topic.name or "")
            for topic in request.body.topics or ()
        ]
    )


def _to_create(context: ClusterContext, request: Request[MetadataRequest]) -> list[str]:
    topics = request.body.topics
    allowed = request.body.allow_auto_topic_creation
    if not topics or not allowed or not context.cluster.config.auto_create_topics_enable:
        return []
    missing = {
        topic.name: None
        for topic in topics
        if topic.name is not None
        and topic.topic_id is None
        and topic.name not in context.cluster.image.topics_by_name
    }
    return list(missing)


def _answer(
    context: ClusterContext, request: Request[MetadataRequest], refused: dict[str, ErrorCode]
) -> MetadataResponse:
    body, version, listener = request.body, request.api_version, request.connection.listener
    operations: int | list[int] = OPERATIONS_NOT_ASKED
    cluster_operations = OPERATIONS_NOT_ASKED
    if body.topics is None or (version == 0 and not body.topics):
        topics, names = _all_topics(context, request)
    else:
        topics, names = _asked_topics(context, request, body.topics, refused)
    if body.include_topic_authorized_operations:
        operations = _operations(context, request, names)
    if body.include_cluster_authorized_operations:
        cluster_operations = context.authorization.cluster_operations(request)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
            )
            for node in context.cluster.brokers(listener)
            if not node.is_fenced or context.departures.is_lately_fenced(node.node_id)
        ],
        cluster_id=context.cluster.cluster_id,
        controller_id=context.cluster.passes_on(listener),
        topics=topics_array(topics, version, operations),
        cluster_authorized_operations=cluster_operations,
    )


def _operations(
    context: ClusterContext, request: Request[MetadataRequest], names: Sequence[str | None]
) -> int | list[int]:
    """What may be done to each topic; nothing is said of one that may not be described."""
    authorization = context.authorization
    if authorization.authorizer is None:
        return EVERY_OPERATION[ResourceType.TOPIC]
    return [
        OPERATIONS_NOT_ASKED
        if name is None
        else authorization.operations(request, ResourceType.TOPIC, name)
        for name in names
    ]


def _all_topics(
    context: ClusterContext, request: Request[MetadataRequest]
) -> tuple[list[bytes], list[str | None]]:
    """Every topic that may be described, and their names."""
    version, listener = request.api_version, request.connection.listener
    authorization, known = context.authorization, context.cluster.image.topics_by_name
    if authorization.authorizer is None:
        return context.encoded_topics.all(version, listener), []
    describe, kind = AclOperation.DESCRIBE, ResourceType.TOPIC
    denied = authorization.denied(request, describe, kind, known, quietly=True)
    seen = [topic for name, topic in sorted(known.items()) if name not in denied]
    topics = context.encoded_topics.some(seen, version, listener)
    return topics, [topic.name for topic in seen]


def _asked_topics(
    context: ClusterContext,
    request: Request[MetadataRequest],
    asked: Sequence[MetadataRequestTopic],
    refused: dict[str, ErrorCode],
) -> tuple[list[bytes], list[str | None]]:
    """The topics that were named, each once, and what is wrong with those that are not there.

    With them the names of those of which may be told what may be done to them.
    """
    version, image = request.api_version, context.cluster.image
    named = dict.fromkeys((entry.name, entry.topic_id) for entry in asked)
    found = {
        (name, topic_id): topic
        for name, topic_id in named
        if (
            topic := image.topics_by_name.get(name or "")
            if topic_id is None
            else image.topics_by_id.get(topic_id)
        )
        is not None
    }
    names = {each: found[each].name if each in found else each[0] for each in named}
    denied = context.authorization.denied(
        request,
        AclOperation.DESCRIBE,
        ResourceType.TOPIC,
        (name for name in names.values() if name is not None),
    )
    seen = {each: topic for each, topic in found.items() if topic.name not in denied}
    encoded = context.encoded_topics.some(seen.values(), version, request.connection.listener)
    there = dict(zip(seen, encoded, strict=True))
    topics = [
        there[each]
        if each in there
        else encode_topic(
            _denied(*each) if names[each] in denied else _missing(*each, refused), version
        )
        for each in named
    ]
    shown = [
        None if name in denied or (name in refused and each not in there) else name
        for each, name in names.items()
    ]
    return topics, shown


def _denied(name: str | None, topic_id: UUID | None) -> MetadataResponseTopic:
    """As it was named, and nothing more."""
    return MetadataResponseTopic(
        error_code=ErrorCode.topic_authorization_failed,
        name=None if topic_id is not None else name,
        topic_id=topic_id,
    )


def _missing(
    name: str | None, topic_id: UUID | None, refused: dict[str, ErrorCode]
) -> MetadataResponseTopic:
    if topic_id is not None:
        return MetadataResponseTopic(
            error_code=ErrorCode.unknown_topic_id, name=None, topic_id=topic_id
        )
    error = refused.get(name or "") or unknown_topic(name or "")
    return MetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)


def unknown_topic(name: str) -> ErrorCode:
    """What to say of a topic that is not there: perhaps none could have this name."""
    if bad_name(name) is not None:
        return ErrorCode.invalid_topic_exception
    return ErrorCode.unknown_topic_or_partition
