"""Which value counts: a topic's own, then the cluster's dynamic ones, the file's, the default.

Invariant  A topic key that its own configuration names never looks at a broker key.
Invariant  Of several broker keys (ms, minutes, hours) the first that is set anywhere counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar, cast

from tidelog.model.config import BROKER_SETTINGS, NodeConfig
from tidelog.model.settings.setting import Setting
from tidelog.model.settings.topic import TopicSettings

T = TypeVar("T")

_UNIT_MS: Final = {".hours": 3_600_000, ".minutes": 60_000}


class ConfigSource(IntEnum):
    """Where a value comes from, by the number DescribeConfigs reports."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    """One place that gives a setting a value; `value` is None when it must not be shown."""

    name: str
    value: str | None
    source: ConfigSource


class BrokerLayers(NamedTuple):
    """The places a broker key takes its value from, strongest first."""

    broker_dynamic: Mapping[str, str]
    cluster_dynamic: Mapping[str, str]
    node_config: NodeConfig

    def places(self, name: str) -> Iterator[ConfigSynonym]:
        """Every place that gives this broker key a readable value, strongest first."""
        setting = BROKER_SETTINGS[name]
        layers = (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, self.broker_dynamic),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self.cluster_dynamic),
            (ConfigSource.STATIC_BROKER_CONFIG, self.node_config.given),
        )
        for source, values in layers:
            text = values.get(name)
            if text is not None and setting.reads(text):
                yield ConfigSynonym(name, text, source)
        default = setting.text(setting.default)
        if default is not None:
            yield ConfigSynonym(name, default, ConfigSource.DEFAULT_CONFIG)


def broker_places(setting: Setting[Any], layers: BrokerLayers) -> list[ConfigSynonym]:
    """Every place that gives a topic setting its value through a broker key, strongest first."""
    places = [place for name in setting.synonyms for place in layers.places(name)]
    set_somewhere = [place for place in places if place.source is not ConfigSource.DEFAULT_CONFIG]
    defaults = [place for place in places if place.source is ConfigSource.DEFAULT_CONFIG]
    return set_somewhere + defaults


def effective_topic_settings(
    topic_overrides: Mapping[str, str],
    cluster_dynamic: Mapping[str, str],
    broker_dynamic: Mapping[str, str],
    node_config: NodeConfig,
) -> TopicSettings:
    """The settings one topic has on one broker."""
    layers = BrokerLayers(broker_dynamic, cluster_dynamic, node_config)
    return TopicSettings(
        {
            name: effective_topic_value(setting, topic_overrides, layers)
            for name, setting in TopicSettings.known().items()
        }
    )


def effective_topic_value(
    setting: Setting[T], topic_overrides: Mapping[str, str], layers: BrokerLayers
) -> T:
    """The value of one topic setting; cheap enough to ask once per partition."""
    own = topic_overrides.get(setting.name)
    if own is not None and setting.reads(own):
        return setting.parse(own)
    if not setting.synonyms:
        return setting.default
    return cast(T, _in_topic_units(broker_places(setting, layers)[0]))


def _in_topic_units(place: ConfigSynonym) -> object:
    """The value of a broker key in the unit of the topic key it stands for."""
    value = BROKER_SETTINGS[place.name].parse(place.value or "")
    for suffix, unit_ms in _UNIT_MS.items():
        if place.name.endswith(suffix):
            return -1 if value < 0 else value * unit_ms
    return value
