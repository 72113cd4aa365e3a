"""Creation and deletion of topics.

Invariant  A topic's records come in the order topic, configs, partitions.
Invariant  One bad topic never stands in the way of the others of its request.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.controller.configs import refused_topic_configs
from tidelog.controller.image import BROKER_CONFIG, TOPIC_CONFIG, ClusterImage
from tidelog.controller.partitions import (
    MAX_PARTITIONS_PER_REQUEST,
    NOT_HOSTED,
    TOO_MANY,
    assignment_refused,
    new_partitions,
)
from tidelog.controller.placement import place, usable_brokers
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import Charge, ControllerResult, free, together
from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import METADATA_TOPIC, ZERO_UUID
from tidelog.model.settings.describe import ConfigEntry, describe_topic
from tidelog.protocol.stored.metadata import (
    ConfigRecord,
    RemoveTopicRecord,
    TopicRecord,
)

MAX_NAME_LENGTH: Final = 249
_INVALID: Final = "Topic name is invalid"
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


class NewTopic(NamedTuple):
    """A request for a topic; -1 takes the cluster's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    """Partition indexes with their replicas, when the client places them itself."""
    configs: Mapping[str, str | None] = MappingProxyType({})


class CreatedTopic(NamedTuple):
    """A topic that now exists (or could, when only validated)."""

    topic_id: UUID
    partitions: int
    replication_factor: int
    configs: Sequence[ConfigEntry]


class TopicDeletion(NamedTuple):
    """What became of a request to delete a topic."""

    name: str | None
    topic_id: UUID
    refusal: Refusal | None


def create_topics(
    image: ClusterImage,
    entropy: Entropy,
    config: NodeConfig,
    requests: Collection[NewTopic],
    *,
    validate_only: bool = False,
    charge: Charge = free,
) -> ControllerResult[list[tuple[str, CreatedTopic | Refusal]]]:
    """Each topic for itself; the reply is in the order of the requests."""
    if _total_partitions(requests, config) > MAX_PARTITIONS_PER_REQUEST:
        return ControllerResult((), [(request.name, TOO_MANY) for request in requests])
    times_named = Counter(request.name for request in requests)
    taken = list(image.topics_by_name)
    records: list[MetadataRecord] = []
    outcome: list[tuple[str, CreatedTopic | Refusal]] = []
    for request in requests:
        refusal = _name_refused(request.name, times_named[request.name], image, taken)
        assignments = refusal or _assignments(image, entropy, config, request)
        if not isinstance(assignments, Refusal):
            assignments = _configs_refused(image, config, request) or assignments
        if not isinstance(assignments, Refusal):
            assignments = charge(len(assignments)) or assignments
        if isinstance(assignments, Refusal):
            outcome.append((request.name, assignments))
            continue
        taken.append(request.name)
        topic_id = ZERO_UUID if validate_only else entropy.uuid()
        outcome.append((request.name, _created(image, config, request, topic_id, assignments)))
        records.extend(_records(image, request, topic_id, assignments))
    return together(() if validate_only else records, outcome)


def _total_partitions(requests: Collection[NewTopic], config: NodeConfig) -> int:
    return sum(
        len(request.assignments)
        or (config.num_partitions if request.partitions == -1 else request.partitions)
        for request in requests
        if request.partitions >= -1
    )


def _name_refused(
    name: str, times_named: int, image: ClusterImage, taken: Collection[str]
) -> Refusal | None:
    if times_named > 1:
        return Refusal(ErrorCode.invalid_request, "Duplicate topic name.")
    if name == METADATA_TOPIC:
        why = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        return Refusal(ErrorCode.invalid_request, why)
    why_not = bad_name(name)
    if why_not is not None:
        return Refusal(ErrorCode.invalid_topic_exception, why_not)
    if name in image.topics_by_name:
        return Refusal(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    other = colliding(name, taken)
    if other is not None:
        why = f"Topic '{name}' collides with existing topic: {other}"
        return Refusal(ErrorCode.invalid_topic_exception, why)
    return None


def _assignments(
    image: ClusterImage, entropy: Entropy, config: NodeConfig, request: NewTopic
) -> Sequence[Sequence[int]] | Refusal:
    """The replicas of each partition, given or placed."""
    if request.assignments:
        return _manual_assignments(image, request)
    if request.replication_factor == 0 or request.replication_factor < -1:
        why = "Replication factor must be larger than 0, or -1 to use the default value."
        return Refusal(ErrorCode.invalid_replication_factor, why)
    if request.partitions == 0 or request.partitions < -1:
        why = "Number of partitions was set to an invalid non-positive value."
        return Refusal(ErrorCode.invalid_partitions, why)
    return place(
        usable_brokers(image.brokers.values()),
        config.num_partitions if request.partitions == -1 else request.partitions,
        config.default_replication_factor
        if request.replication_factor == -1
        else request.replication_factor,
        entropy,
    )


def _manual_assignments(
    image: ClusterImage, request: NewTopic
) -> Sequence[Sequence[int]] | Refusal:
    for number, what in (
        (request.replication_factor, "replication factor"),
        (request.partitions, "numPartitions"),
    ):
        if number != -1:
            why = f"A manual partition assignment was specified, but {what} was not set to -1."
            return Refusal(ErrorCode.invalid_request, why)
    by_index = dict(request.assignments)
    if len(by_index) != len(request.assignments) or set(by_index) != set(range(len(by_index))):
        why = "partitions should be a consecutive 0-based integer sequence"
        return Refusal(ErrorCode.invalid_replica_assignment, why)
    assignments = [by_index[index] for index in range(len(by_index))]
    return assignment_refused(image, assignments, len(assignments[0])) or assignments


def _configs_refused(image: ClusterImage, config: NodeConfig, request: NewTopic) -> Refusal | None:
    missing = sorted(name for name, value in request.configs.items() if value is None)
    if missing:
        why = f"Null value not supported for topic configs: {','.join(missing)}"
        return Refusal(ErrorCode.invalid_config, why)
    return refused_topic_configs(image, config, {}, request.configs)


def _given_configs(request: NewTopic) -> dict[str, str]:
    return {name: value for name, value in request.configs.items() if value is not None}


def _created(
    image: ClusterImage,
    config: NodeConfig,
    request: NewTopic,
    topic_id: UUID,
    assignments: Sequence[Sequence[int]],
) -> CreatedTopic:
    entries = describe_topic(
        _given_configs(request),
        image.config(BROKER_CONFIG, ""),
        image.config(BROKER_CONFIG, str(config.node_id)),
        config,
    )
    return CreatedTopic(topic_id, len(assignments), len(assignments[0]), entries)


def _records(
    image: ClusterImage, request: NewTopic, topic_id: UUID, assignments: Sequence[Sequence[int]]
) -> list[MetadataRecord]:
    return [
        TopicRecord(name=request.name, topic_id=topic_id),
        *(
            ConfigRecord(
                resource_type=TOPIC_CONFIG, resource_name=request.name, name=name, value=value
            )
            for name, value in request.configs.items()
        ),
        *new_partitions(image, topic_id, assignments),
    ]


def delete_topics(
    image: ClusterImage,
    config: NodeConfig,
    requests: Collection[tuple[str | None, UUID]],
    charge: Charge = free,
) -> ControllerResult[list[TopicDeletion]]:
    """Each topic, given by name or by id, for itself; the reply is in the order of the requests."""
    found = [_find(image, name, topic_id) for name, topic_id in requests]
    times_named = Counter(topic_id for topic_id in found if isinstance(topic_id, UUID))
    records: list[MetadataRecord] = []
    outcome: list[TopicDeletion] = []
    for (name, asked_id), topic_id in zip(requests, found, strict=True):
        if not config.delete_topic_enable:
            topic_id = Refusal(ErrorCode.topic_deletion_disabled, "Topic deletion is disabled.")
        elif isinstance(topic_id, UUID) and times_named[topic_id] > 1:
            why = "Duplicate topic name."
            topic_id = Refusal(ErrorCode.invalid_request, why)
        if isinstance(topic_id, UUID):
            topic_id = charge(len(image.topics_by_id[topic_id].partitions)) or topic_id
        if isinstance(topic_id, Refusal):
            outcome.append(TopicDeletion(name, asked_id, topic_id))
            continue
        records.append(RemoveTopicRecord(topic_id=topic_id))
        outcome.append(TopicDeletion(image.topics_by_id[topic_id].name, topic_id, None))
    return together(records, outcome)


def _find(image: ClusterImage, name: str | None, topic_id: UUID) -> UUID | Refusal:
    """The id of the topic a client means."""
    if name is None and topic_id == ZERO_UUID:
        return Refusal(ErrorCode.invalid_request, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        return Refusal(
            ErrorCode.invalid_request, "You may not specify both topic name and topic id."
        )
    if name is None:
        known = topic_id in image.topics_by_id
        why = "This server does not host this topic ID."
        return topic_id if known else Refusal(ErrorCode.unknown_topic_id, why)
    topic = image.topics_by_name.get(name)
    if topic is None:
        return Refusal(ErrorCode.unknown_topic_or_partition, NOT_HOSTED)
    return topic.topic_id


def bad_name(name: str) -> str | None:
    """Why a topic cannot have this name; None when it can."""
    if not name:
        return f"{_INVALID}: the empty string is not allowed"
    if name in (".", ".."):
        return f"{_INVALID}: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return (
            f"{_INVALID}: the length of '{name}' is longer than the max allowed length "
            f"{MAX_NAME_LENGTH}"
        )
    if _LEGAL.fullmatch(name) is None:
        return (
            f"{_INVALID}: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def colliding(name: str, others: Iterable[str]) -> str | None:
    """Another name that differs only in '.' and '_', which metrics cannot tell apart."""
    if "." not in name and "_" not in name:
        return None
    folded = name.replace(".", "_")
    return next(
        (other for other in others if other != name and other.replace(".", "_") == folded), None
    )
