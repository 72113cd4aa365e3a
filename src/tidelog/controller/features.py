"""Features of the cluster: what nodes support, which levels are final, how those change.

Invariant  A finalized level lies within the range of every registered broker and controller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from tidelog.controller.image import BROKER_CONFIG, METADATA_VERSION, ClusterImage
from tidelog.controller.leadership import ELR_FEATURE
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import ControllerResult
from tidelog.model.config import NodeConfig
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    RegisteredFeature,
)

GROUP_VERSION: Final = "group.version"
"""At level 1 groups may use the consumer protocol (KIP-848)."""
LATEST_METADATA_VERSION: Final = 30
TRANSACTION_VERSION: Final = "transaction.version"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class LevelRange(NamedTuple):
    """The levels of a feature a node can live with."""

    lowest: int
    highest: int

    def holds(self, level: int) -> bool:
        return self.lowest <= level <= self.highest


SUPPORTED_FEATURES: Final[Mapping[str, LevelRange]] = MappingProxyType(
    {
        METADATA_VERSION: LevelRange(LATEST_METADATA_VERSION, LATEST_METADATA_VERSION),
        ELR_FEATURE: LevelRange(0, 1),
        GROUP_VERSION: LevelRange(0, 1),
        TRANSACTION_VERSION: LevelRange(0, 2),
    }
)
"""What this version of Tidelog supports. Its metadata records are those of version 30."""
KRAFT_VERSION: Final = "kraft.version"
"""The quorum's own feature, whose level stands in a control record of the metadata log."""
NODE_FEATURES: Final = MappingProxyType({**SUPPORTED_FEATURES, KRAFT_VERSION: LevelRange(0, 1)})
"""What a node says of itself."""

_ABSENT: Final = LevelRange(0, 0)


class UpgradeType(IntEnum):
    """What a change of a level may do."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A request to finalize a feature at a level; level 0 switches it off."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def default_features() -> tuple[FeatureLevelRecord, ...]:
    """The levels a new cluster starts with: the latest of everything."""
    return tuple(
        FeatureLevelRecord(name=name, feature_level=supported.highest)
        for name, supported in SUPPORTED_FEATURES.items()
    )


def declared_ranges(features: Collection[RegisteredFeature]) -> dict[str, LevelRange]:
    """The ranges of a registration by name."""
    return {
        feature.name: LevelRange(feature.min_supported_version, feature.max_supported_version)
        for feature in features
    }


def unsupported_by(image: ClusterImage, features: Collection[RegisteredFeature]) -> str | None:
    """Why a node with these ranges cannot live with the finalized levels; None when it can."""
    ranges = declared_ranges(features)
    for name, level in sorted(image.features.items()):
        supported = ranges.get(name, _ABSENT)
        if level != 0 and not supported.holds(level):
            return (
                f"it supports {name} from {supported.lowest} to {supported.highest}, "
                f"but the cluster is at {level}"
            )
    return None


def update_features(
    image: ClusterImage,
    config: NodeConfig,
    updates: Collection[FeatureUpdate],
    *,
    validate_only: bool = False,
) -> ControllerResult[dict[str, Refusal | None]]:
    """All updates or none; the reply has one entry per feature."""
    outcome: dict[str, Refusal | None] = {}
    records: list[MetadataRecord] = []
    for update in updates:
        if update.name in outcome:
            outcome[update.name] = _refused(update, "it is named twice in one request")
            continue
        why = _why_not(image, update)
        outcome[update.name] = None if why is None else _refused(update, why)
        if why is None and update.level != image.features.get(update.name, 0):
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
            if update.name == ELR_FEATURE and update.level == 1:
                records.extend(elr_safety_records(image, config))
    if validate_only or any(refusal is not None for refusal in outcome.values()):
        records.clear()
    return ControllerResult(tuple(records), outcome)


def elr_safety_records(image: ClusterImage, config: NodeConfig) -> Iterator[ConfigRecord]:
    """With eligible leader replicas one minimum holds for the whole cluster, set explicitly."""
    if MIN_INSYNC_REPLICAS not in image.config(BROKER_CONFIG, ""):
        yield ConfigRecord(
            resource_type=BROKER_CONFIG,
            resource_name="",
            name=MIN_INSYNC_REPLICAS,
            value=str(config.min_insync_replicas),
        )
    for (kind, name), values in sorted(image.configs.items()):
        if kind == BROKER_CONFIG and name and MIN_INSYNC_REPLICAS in values:
            yield ConfigRecord(
                resource_type=kind, resource_name=name, name=MIN_INSYNC_REPLICAS, value=None
            )


def _refused(update: FeatureUpdate, why: str) -> Refusal:
    return Refusal(
        ErrorCode.invalid_update_version,
        f"Feature {update.name} cannot be at level {update.level}: {why}.",
    )


def _why_not(image: ClusterImage, update: FeatureUpdate) -> str | None:
    if update.upgrade_type not in UpgradeType.__members__.values():
        return f"{update.upgrade_type} is no type of upgrade"
    if update.level < 0:
        return "levels are not negative"
    for node, ranges in _nodes(image):
        supported = ranges.get(update.name, _ABSENT)
        if not supported.holds(update.level):
            if supported == _ABSENT:
                return f"{node} does not know this feature"
            return f"{node} supports levels {supported.lowest} to {supported.highest}"
    current = image.features.get(update.name, 0)
    upgrades = update.upgrade_type == UpgradeType.UPGRADE
    if update.level < current and upgrades:
        return f"to go down from {current} must be asked for as a downgrade"
    if update.level > current and not upgrades:
        return f"a downgrade from {current} cannot go up"
    if update.name == ELR_FEATURE and update.level < current and _elr_in_use(image):
        return "partitions still depend on eligible leader replicas"
    return None


def _nodes(image: ClusterImage) -> Iterator[tuple[str, Mapping[str, LevelRange]]]:
    yield "the controller", SUPPORTED_FEATURES
    for broker_id, broker in sorted(image.brokers.items()):
        yield f"broker {broker_id}", declared_ranges(broker.features)
    for controller_id, controller in sorted(image.controllers.items()):
        yield f"controller {controller_id}", declared_ranges(controller.features)


def _elr_in_use(image: ClusterImage) -> bool:
    return any(
        partition.elr or partition.last_known_elr
        for topic in image.topics_by_name.values()
        for partition in topic.partitions.values()
    )
