"""Changes of dynamic settings: of topics, of groups, of one broker, of all brokers.

Invariant  A resource's change is taken whole or not at all; every stored value can be read.
Invariant  With eligible leader replicas on, the minimum ISR holds for the whole cluster or for a
           topic, never for one broker, and changing it voids what was eligible under the old one
           in every partition that has a leader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.controller.features import MIN_INSYNC_REPLICAS
from tidelog.controller.image import BROKER_CONFIG, GROUP_CONFIG, TOPIC_CONFIG, ClusterImage
from tidelog.controller.image_delta import ConfigResource
from tidelog.controller.leadership import elr_enabled
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import ControllerResult, together
from tidelog.model.config import BROKER_SETTINGS, TOPIC_SETTINGS, NodeConfig
from tidelog.model.errors import ConfigError, ErrorCode, Refusal
from tidelog.model.settings.effective import effective_topic_settings
from tidelog.model.settings.group import GROUP_SETTINGS, refuse_group_setting
from tidelog.model.settings.setting import ConfigType, Scope, Setting, unknown_key
from tidelog.model.settings.without_effect import refused_key
from tidelog.protocol.stored.metadata import (
    ClearElrRecord,
    ConfigRecord,
    PartitionChangeRecord,
)

_DIGITS_MOST: Final = 10
"""Of a node id."""
MAX_VALUE_BYTES: Final = 32_767


class ConfigOp(IntEnum):
    """What to do with one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One operation on one setting."""

    name: str
    op: int
    value: str | None = None


class ResourceChange(NamedTuple):
    """Operations on settings of a topic (2), a broker (4; without a name all) or a group (32)."""

    resource_type: int
    resource_name: str
    changes: Sequence[ConfigChange]

    @property
    def resource(self) -> ConfigResource:
        return self.resource_type, self.resource_name


AlteredConfigs = list[tuple[ConfigResource, Refusal | None]]


def incremental_alter_configs(
    image: ClusterImage,
    config: NodeConfig,
    requests: Collection[ResourceChange],
    *,
    validate_only: bool = False,
) -> ControllerResult[AlteredConfigs]:
    """Change settings one by one; each resource for itself, in the order of the requests."""
    return _alter(image, config, requests, _changed_values, validate_only)


def alter_configs(
    image: ClusterImage,
    config: NodeConfig,
    requests: Collection[ResourceChange],
    *,
    validate_only: bool = False,
) -> ControllerResult[AlteredConfigs]:
    """Replace all settings of each resource by those named, all of them SET."""
    return _alter(image, config, requests, _replaced_values, validate_only)


Outcome = dict[str, str | None] | Refusal
"""The new value of each touched setting, None for one that goes."""


def _alter(
    image: ClusterImage,
    config: NodeConfig,
    requests: Collection[ResourceChange],
    outcome_of: Callable[[Mapping[str, str], ResourceChange], Outcome],
    validate_only: bool,
) -> ControllerResult[AlteredConfigs]:
    times_named = Counter(request.resource for request in requests)
    records: list[MetadataRecord] = []
    reply: AlteredConfigs = []
    for request in requests:
        refusal = _resource_refused(image, request, times_named[request.resource])
        current = image.config(*request.resource)
        touched = refusal or outcome_of(current, request)
        if not isinstance(touched, Refusal):
            touched = _values_refused(image, config, request.resource, touched) or touched
        if isinstance(touched, Refusal):
            reply.append((request.resource, touched))
            continue
        reply.append((request.resource, None))
        records.extend(_records(image, request.resource, touched))
    return together(() if validate_only else records, reply)


def _resource_refused(
    image: ClusterImage, request: ResourceChange, times_named: int
) -> Refusal | None:
    if times_named > 1:
        return Refusal(ErrorCode.invalid_request, "Each resource must appear at most once.")
    name = request.resource_name
    if request.resource_type == TOPIC_CONFIG:
        if name not in image.topics_by_name:
            return Refusal(
                ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
            )
    elif request.resource_type == GROUP_CONFIG:
        if not name:
            return Refusal(ErrorCode.invalid_request, "Default group resources are not allowed.")
    elif request.resource_type != BROKER_CONFIG:
        why = f"Unknown resource type {request.resource_type}"
        return Refusal(ErrorCode.invalid_request, why)
    elif name and not (name.isascii() and name.isdigit()):
        return Refusal(ErrorCode.invalid_request, f"Node id must be an integer, but it is: {name}")
    elif name and (len(name) > _DIGITS_MOST or int(name) not in image.brokers):
        return Refusal(ErrorCode.broker_id_not_registered, f"Broker {name} is not registered.")
    names = [change.name for change in request.changes]
    if len(set(names)) != len(names):
        return Refusal(ErrorCode.invalid_request, "Error due to duplicate config keys")
    for change in request.changes:
        if change.op not in ConfigOp.__members__.values():
            why = f"Unknown operation {change.op} for {change.name}."
            return Refusal(ErrorCode.invalid_request, why)
        if change.op != ConfigOp.DELETE and change.value is None:
            why = f"Null value not supported for : {change.name}"
            return Refusal(ErrorCode.invalid_request, why)
    return None


def _settings_of(resource_type: int) -> Mapping[str, Setting[object]]:
    if resource_type == GROUP_CONFIG:
        return GROUP_SETTINGS
    return TOPIC_SETTINGS if resource_type == TOPIC_CONFIG else BROKER_SETTINGS


def _changed_values(current: Mapping[str, str], request: ResourceChange) -> Outcome:
    known = _settings_of(request.resource_type)
    touched: dict[str, str | None] = {}
    for name, op, value in request.changes:
        given = value or ""
        if op == ConfigOp.DELETE:
            touched[name] = None
        elif op == ConfigOp.SET:
            touched[name] = given
        elif name not in known or known[name].type is not ConfigType.LIST:
            why = f"Can't {ConfigOp(op).name} to key {name} because its type is not LIST."
            return Refusal(ErrorCode.invalid_config, why)
        else:
            before = _elements(current.get(name, known[name].text(known[name].default) or ""))
            named = _elements(given)
            if op == ConfigOp.APPEND:
                after = before + [element for element in named if element not in before]
            else:
                after = [element for element in before if element not in named]
            touched[name] = ",".join(after)
    return touched


def _elements(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _replaced_values(current: Mapping[str, str], request: ResourceChange) -> Outcome:
    gone: dict[str, str | None] = dict.fromkeys(current)
    return gone | {change.name: change.value for change in request.changes}


def _values_refused(
    image: ClusterImage,
    config: NodeConfig,
    resource: ConfigResource,
    touched: Mapping[str, str | None],
) -> Refusal | None:
    resource_type, name = resource
    if resource_type == BROKER_CONFIG:
        return _broker_values_refused(image, config, name, touched)
    if resource_type == GROUP_CONFIG:
        return _group_values_refused(config, touched)
    return refused_topic_configs(image, config, image.config(*resource), touched)


def _too_long(touched: Mapping[str, str | None]) -> Refusal | None:
    for name, value in touched.items():
        if value and len(value.encode("utf-8", "surrogatepass")) > MAX_VALUE_BYTES:
            why = f"The value of {name} is longer than {MAX_VALUE_BYTES} bytes."
            return Refusal(ErrorCode.invalid_config, why)
    return None


def refused_topic_configs(
    image: ClusterImage,
    config: NodeConfig,
    current: Mapping[str, str],
    touched: Mapping[str, str | None],
) -> Refusal | None:
    """Why a topic's settings cannot change like this; None when they can."""
    too_long = _too_long(touched)
    if too_long is not None:
        return too_long
    for name, value in touched.items():
        if value is None:
            continue
        if name not in TOPIC_SETTINGS:
            why = unknown_key(name, TOPIC_SETTINGS, what="topic config name:")
            return Refusal(ErrorCode.invalid_config, why)
        try:
            TOPIC_SETTINGS[name].parse(value)
        except ConfigError as error:
            return Refusal(ErrorCode.invalid_config, str(error))
    after = {**current, **touched}
    settings = effective_topic_settings(
        {name: value for name, value in after.items() if value is not None},
        image.config(BROKER_CONFIG, ""),
        image.config(BROKER_CONFIG, str(config.node_id)),
        config,
    )
    try:
        settings.check_together()
    except ConfigError as error:
        return Refusal(ErrorCode.invalid_config, str(error))
    return None


def _group_values_refused(config: NodeConfig, touched: Mapping[str, str | None]) -> Refusal | None:
    for name, value in touched.items():
        if name not in GROUP_SETTINGS:
            why = unknown_key(name, GROUP_SETTINGS, what="group config name:")
            return Refusal(ErrorCode.invalid_config, why)
        try:
            if value is not None:
                refuse_group_setting(name, value, config)
        except ConfigError as error:
            return Refusal(ErrorCode.invalid_config, str(error))
    return None


def _broker_values_refused(
    image: ClusterImage, config: NodeConfig, broker: str, touched: Mapping[str, str | None]
) -> Refusal | None:
    too_long = _too_long(touched)
    if too_long is not None:
        return too_long
    stored = image.config(BROKER_CONFIG, broker)
    for name, value in touched.items():
        setting = BROKER_SETTINGS.get(name)
        # Tools take back what they may have set; what another implementation stored may go.
        if value is None and (setting is None or name not in stored):
            continue
        refused = _broker_key_refused(name, setting, broker)
        if refused is not None:
            return refused
    try:
        after = {name: text for name, text in {**stored, **touched}.items() if text is not None}
        config.under(image.config(BROKER_CONFIG, "") if broker else {}, after).check()
        for name, value in touched.items():
            if value is not None:
                BROKER_SETTINGS[name].parse(value)
    except ConfigError as error:
        return Refusal(ErrorCode.invalid_request, str(error))
    if elr_enabled(image) and MIN_INSYNC_REPLICAS in touched:
        if broker:
            why = (
                "With eligible leader replicas on, no broker has a min.insync.replicas of its own."
            )
            return Refusal(ErrorCode.invalid_config, why)
        if touched[MIN_INSYNC_REPLICAS] is None:
            why = "With eligible leader replicas on, the cluster must have a min.insync.replicas."
            return Refusal(ErrorCode.invalid_config, why)
    return None


def _broker_key_refused(name: str, setting: Setting[object] | None, broker: str) -> Refusal | None:
    """Why this key cannot be changed for one broker, or for all of them when none is named."""
    if setting is None:
        promised = refused_key(name)
        if promised is not None:
            return Refusal(ErrorCode.invalid_request, promised)
        return Refusal(ErrorCode.invalid_config, unknown_key(name, BROKER_SETTINGS))
    if setting.scope is Scope.READ_ONLY:
        why = f"Cannot update these configs dynamically: [{name}]; it is read when a broker starts."
        return Refusal(ErrorCode.invalid_request, why)
    if setting.scope is Scope.PER_BROKER and not broker:
        why = (
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{name}]"
        )
        return Refusal(ErrorCode.invalid_request, why)
    return None


def _records(
    image: ClusterImage, resource: ConfigResource, touched: Mapping[str, str | None]
) -> list[MetadataRecord]:
    resource_type, resource_name = resource
    current = image.config(*resource)
    records: list[MetadataRecord] = [
        ConfigRecord(
            resource_type=resource_type, resource_name=resource_name, name=name, value=value
        )
        for name, value in touched.items()
        # A broker's settings are written even when they stay: it reloads what they point to.
        if value != current.get(name) or (resource_type == BROKER_CONFIG and value is not None)
    ]
    minimum = touched.get(MIN_INSYNC_REPLICAS, current.get(MIN_INSYNC_REPLICAS))
    if elr_enabled(image) and minimum != current.get(MIN_INSYNC_REPLICAS):
        topic_name = resource_name if resource_type == TOPIC_CONFIG else ""
        records.append(ClearElrRecord(topic_name=topic_name))
        records.extend(_still_eligible(image, topic_name))
    return records


def _still_eligible(image: ClusterImage, topic_name: str) -> Iterator[PartitionChangeRecord]:
    """Where nobody leads, nothing is committed under any minimum: who was eligible still is."""
    for name, topic in sorted(image.topics_by_name.items()):
        for index, partition in sorted(topic.partitions.items()):
            if (
                topic_name in ("", name)
                and not partition.has_leader
                and (partition.elr or partition.last_known_elr)
            ):
                yield PartitionChangeRecord(
                    topic_id=topic.topic_id,
                    partition_id=index,
                    eligible_leader_replicas=partition.elr,
                    last_known_elr=partition.last_known_elr,
                )
