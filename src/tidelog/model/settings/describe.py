"""Settings as DescribeConfigs shows them: value, source, synonyms, type, meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.model.config import BROKER_SETTINGS, NodeConfig
from tidelog.model.settings.effective import (
    BrokerLayers,
    ConfigSource,
    ConfigSynonym,
    broker_places,
    effective_topic_settings,
)
from tidelog.model.settings.setting import ConfigType, Scope, Setting


class ConfigEntry(NamedTuple):
    """One setting of a described resource."""

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[ConfigSynonym, ...]
    """Every place that has a value, the one that counts first."""
    type: ConfigType
    doc: str
    read_only: bool
    sensitive: bool


def describe_topic(
    topic_overrides: Mapping[str, str],
    cluster_dynamic: Mapping[str, str],
    broker_dynamic: Mapping[str, str],
    node_config: NodeConfig,
) -> list[ConfigEntry]:
    """All settings of a topic, sorted by name."""
    layers = BrokerLayers(broker_dynamic, cluster_dynamic, node_config)
    effective = effective_topic_settings(
        topic_overrides, cluster_dynamic, broker_dynamic, node_config
    )
    entries = []
    for setting, value in effective.items():
        places = broker_places(setting, layers)
        if setting.name in topic_overrides:
            own = ConfigSynonym(
                setting.name, setting.text(value), ConfigSource.DYNAMIC_TOPIC_CONFIG
            )
            places.insert(0, own)
        entries.append(_entry(setting, setting.text(value), places, read_only=False))
    return sorted(entries)


def describe_broker(
    cluster_dynamic: Mapping[str, str],
    broker_dynamic: Mapping[str, str],
    node_config: NodeConfig,
) -> list[ConfigEntry]:
    """All settings of a broker, sorted by name."""
    layers = BrokerLayers(broker_dynamic, cluster_dynamic, node_config)
    entries = []
    for name, setting in BROKER_SETTINGS.items():
        places = list(layers.places(name))
        if setting.hidden and all(place.source is ConfigSource.DEFAULT_CONFIG for place in places):
            continue
        value = setting.text(setting.parse(places[0].value or "")) if places else None
        read_only = setting.scope is Scope.READ_ONLY
        entries.append(_entry(setting, value, places, read_only=read_only))
    return sorted(entries)


def describe_cluster_default(cluster_dynamic: Mapping[str, str]) -> list[ConfigEntry]:
    """What the cluster sets for all its brokers, sorted by name."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        _entry(BROKER_SETTINGS[name], text, [ConfigSynonym(name, text, source)], read_only=False)
        for name, text in sorted(cluster_dynamic.items())
        if name in BROKER_SETTINGS
    ]


def _entry(
    setting: Setting[Any], value: str | None, places: list[ConfigSynonym], *, read_only: bool
) -> ConfigEntry:
    if setting.sensitive:
        value = None
        places = [place._replace(value=None) for place in places]
    return ConfigEntry(
        name=setting.name,
        value=value,
        source=places[0].source if places else ConfigSource.DEFAULT_CONFIG,
        synonyms=tuple(places),
        type=setting.type,
        doc=setting.doc,
        read_only=read_only,
        sensitive=setting.sensitive,
    )
