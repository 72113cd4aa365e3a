"""The reference of all settings as Markdown, so that the documentation cannot drift."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidelog.model.config import NodeConfig
from tidelog.model.settings.setting import MAX_INT, MAX_LONG, Setting
from tidelog.model.settings.topic import TopicSettings
from tidelog.model.settings.without_effect import REFUSED, WITHOUT_EFFECT

_LARGEST: Final[Mapping[object, str]] = {MAX_INT: "2^31−1", MAX_LONG: "2^63−1"}


def topic_reference() -> str:
    """A Markdown table of all topic settings."""
    header = ("Key", "Type", "Default", "Must be", "Falls back to", "Meaning")
    return _table(
        header,
        (
            (*_common(setting), _keys(setting.synonyms), setting.doc)
            for setting in _sorted(TopicSettings.known())
        ),
    )


def broker_reference() -> str:
    """A Markdown table of all broker and controller settings that something reads."""
    header = ("Key", "Type", "Default", "Must be", "Changeable", "Meaning")
    return _table(
        header,
        (
            (*_common(setting), setting.scope.value, setting.doc)
            for setting in _sorted(NodeConfig.known())
        ),
    )


def without_effect_reference() -> str:
    """A Markdown table of the keys that Apache Kafka has and nothing here reads."""
    header = ("Key", "Type", "Default", "Must be", "Changeable", "Meaning")
    return _table(
        header,
        (
            (*_common(setting), setting.scope.value, setting.doc)
            for setting in _sorted(WITHOUT_EFFECT)
        ),
    )


def refused_reference() -> str:
    """A Markdown table of the keys that keep a node from starting."""
    rows = ((f"`{name}`", reason) for name, reason in sorted(REFUSED.items()))
    return _table(("Key", "Why it cannot be kept here"), rows)


def _sorted(known: Mapping[str, Setting[Any]]) -> list[Setting[Any]]:
    return [known[name] for name in sorted(known)]


def _common(setting: Setting[Any]) -> tuple[str, str, str, str]:
    default = _LARGEST.get(setting.default) or setting.text(setting.default)
    shown = f"`{default}`" if default else "–"
    limit = setting.limit.words if setting.limit is not None else ""
    return f"`{setting.name}`", setting.type.name.lower(), shown, limit


def _keys(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
