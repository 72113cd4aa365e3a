"""Settings of one group of the consumer protocol, on top of those of the broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tidelog.model.config import NodeConfig
from tidelog.model.errors import ConfigError
from tidelog.model.settings.describe import ConfigEntry
from tidelog.model.settings.effective import ConfigSource, ConfigSynonym
from tidelog.model.settings.setting import ConfigType, Setting, Settings, at_least


class GroupConfig(Settings):
    """What a group may set for itself; where it does not, the broker's setting counts."""

    consumer_assignment_interval_ms = Setting(
        ConfigType.INT,
        1000,
        "This group gets a new target assignment at most this often.",
        at_least(0),
    )
    consumer_heartbeat_interval_ms = Setting(
        ConfigType.INT,
        5000,
        "How often members of this group are told to report.",
        at_least(1),
    )
    consumer_session_timeout_ms = Setting(
        ConfigType.INT,
        45_000,
        "A member of this group that is silent for this long is removed.",
        at_least(1),
    )


GROUP_SETTINGS: Final[Mapping[str, Setting[Any]]] = GroupConfig.known()
_OF_BROKER: Final = "group."


class GroupTimes(NamedTuple):
    """How a group keeps time."""

    heartbeat_interval_ms: int
    session_timeout_ms: int
    assignment_interval_ms: int
    """Between two target assignments, at least."""


def group_times(own: Mapping[str, str], node: NodeConfig) -> GroupTimes:
    """What counts for a group that has set these for itself, within the broker's bounds."""
    return GroupTimes(
        heartbeat_interval_ms=_within(
            own.get("consumer.heartbeat.interval.ms"),
            node.group_consumer_heartbeat_interval_ms,
            node.group_consumer_min_heartbeat_interval_ms,
            node.group_consumer_max_heartbeat_interval_ms,
        ),
        session_timeout_ms=_within(
            own.get("consumer.session.timeout.ms"),
            node.group_consumer_session_timeout_ms,
            node.group_consumer_min_session_timeout_ms,
            node.group_consumer_max_session_timeout_ms,
        ),
        assignment_interval_ms=_within(
            own.get("consumer.assignment.interval.ms"),
            node.group_consumer_assignment_interval_ms,
            node.group_consumer_min_assignment_interval_ms,
            node.group_consumer_max_assignment_interval_ms,
        ),
    )


def _within(own: str | None, default: int, low: int, high: int) -> int:
    return default if own is None else min(max(int(own), low), high)


def refuse_group_setting(name: str, text: str, node: NodeConfig) -> None:
    """ConfigError when a group must not have this value."""
    value = GROUP_SETTINGS[name].parse(text)
    what = name.removeprefix("consumer.")
    low_key, high_key = f"group.consumer.min.{what}", f"group.consumer.max.{what}"
    low, high = (getattr(node, key.replace(".", "_")) for key in (low_key, high_key))
    if not low <= value <= high:
        raise ConfigError(f"{name} must be between {low_key} {low} and {high_key} {high}")


def describe_group(own: Mapping[str, str], node: NodeConfig) -> list[ConfigEntry]:
    """All settings of a group, sorted by name."""
    entries = []
    for name, setting in sorted(GROUP_SETTINGS.items()):
        broker_key = _OF_BROKER + name
        default = str(getattr(node, broker_key.replace(".", "_")))
        places = [ConfigSynonym(broker_key, default, ConfigSource.DEFAULT_CONFIG)]
        if name in own:
            places.insert(0, ConfigSynonym(name, own[name], ConfigSource.DYNAMIC_GROUP_CONFIG))
        entries.append(
            ConfigEntry(
                name=name,
                value=places[0].value,
                source=places[0].source,
                synonyms=tuple(places),
                type=setting.type,
                doc=setting.doc,
                read_only=False,
                sensitive=setting.sensitive,
            )
        )
    return entries
