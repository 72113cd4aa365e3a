"""Declarations of settings: parsing, limits, text forms."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.model.config import BROKER_SETTINGS, TOPIC_SETTINGS
from tidelog.model.errors import ConfigError, InvariantBroken
from tidelog.model.settings.setting import (
    ConfigType,
    Setting,
    Settings,
    at_least,
    between,
    each_of,
    one_of,
)

ALL = [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()]
MUST_BE_GIVEN = {"node.id"}


class Harbour(Settings):
    berths = Setting(ConfigType.INT, 4, "Places for ships.", at_least(1))
    flags = Setting[tuple[str, ...]](
        ConfigType.LIST, ("red",), "Flags flown.", each_of("red", "blue")
    )
    name = Setting[str | None](ConfigType.STRING, None, "What it is called.", one_of("a", "b"))
    depth = Setting(ConfigType.DOUBLE, 2.5, "In fathoms.", between(0, 9))
    open = Setting(ConfigType.BOOLEAN, True, "Whether ships may enter.")
    far = Setting(ConfigType.LONG, 0, "A large number.")
    near = Setting(ConfigType.SHORT, 0, "A small number.")
    secret = Setting[str | None](ConfigType.PASSWORD, None, "Only for pilots.")


def test_the_attribute_name_with_dots_is_the_key() -> None:
    assert TOPIC_SETTINGS["min.insync.replicas"].name == "min.insync.replicas"
    assert Harbour.berths.name == "berths"


def test_on_the_class_an_attribute_is_the_declaration_and_on_an_instance_the_value() -> None:
    harbour = Harbour({"berths": 7})

    assert Harbour.berths.default == 4
    assert harbour.berths == 7
    assert harbour.depth == 2.5
    assert harbour.value("flags") == ("red",)


def test_values_cannot_be_changed_once_checked() -> None:
    harbour = Harbour({})

    with pytest.raises(AttributeError):
        setattr(harbour, "berths", 9)  # noqa: B010


def test_settings_with_equal_values_are_equal() -> None:
    assert Harbour({"berths": 4}) == Harbour({})
    assert hash(Harbour({"berths": 4})) == hash(Harbour({}))
    assert Harbour({"berths": 5}) != Harbour({})
    assert Harbour({}) != "Harbour()"


def test_repr_tells_what_differs_from_the_defaults_and_hides_secrets() -> None:
    assert repr(Harbour({"berths": 5, "secret": "x"})) == "Harbour(berths=5, secret=hidden)"


def test_a_value_missing_from_an_instance_is_broken_reasoning() -> None:
    harbour = object.__new__(Harbour)

    with pytest.raises(InvariantBroken):
        _ = harbour.berths


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (Harbour.berths, " 12 ", 12),
        (Harbour.far, "-9223372036854775808", -(2**63)),
        (Harbour.near, "32767", 32767),
        (Harbour.open, "FALSE", False),
        (Harbour.depth, "1e0", 1.0),
        (Harbour.flags, "blue, red", ("blue", "red")),
        (Harbour.flags, "", ()),
        (Harbour.name, "a", "a"),
    ],
)
def test_text_is_read_as_the_type_of_the_setting(
    setting: Setting[Any], text: str, value: object
) -> None:
    assert setting.parse(text) == value


@pytest.mark.parametrize(
    ("setting", "text", "words"),
    [
        (
            Harbour.berths,
            "0",
            "Invalid value 0 for configuration berths: must be a whole number, at least 1",
        ),
        (Harbour.berths, "many", "must be a whole number"),
        (Harbour.berths, "2147483648", "must be a whole number"),
        (Harbour.berths, "٣", "must be a whole number"),
        (Harbour.near, "32768", "must be a whole number"),
        (Harbour.open, "yes", "must be true or false"),
        (Harbour.depth, "deep", "must be a number, between 0 and 9"),
        (Harbour.depth, "nan", "must be a number, between 0 and 9"),
        (Harbour.flags, "green", "must be a list of red, blue, each at most once"),
        (Harbour.flags, "red,red", "each at most once"),
        (Harbour.name, "c", "must be one of a, b"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(
    setting: Setting[Any], text: str, words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        setting.parse(text)
    assert words in str(refused.value)


def test_a_secret_is_not_repeated_in_a_refusal() -> None:
    strict = Setting(ConfigType.PASSWORD, "m", "A key.", one_of("m"))

    with pytest.raises(ConfigError) as refused:
        strict.parse("abracadabra")
    assert "abracadabra" not in str(refused.value)


@pytest.mark.parametrize("setting", ALL, ids=lambda setting: setting.name)
def test_every_default_is_allowed_and_reads_back_from_its_text(setting: Setting[Any]) -> None:
    text = setting.text(setting.default)

    assert setting.doc.endswith(".")
    if text is not None and setting.name not in MUST_BE_GIVEN:
        assert setting.parse(text) == setting.default


def test_numbers_have_the_text_form_clients_of_kafka_know() -> None:
    assert Harbour.depth.text(1.7976931348623157e308) == "1.7976931348623157E308"
    assert Harbour.open.text(False) == "false"
    assert Harbour.flags.text(("red", "blue")) == "red,blue"
    assert Harbour.name.text(None) is None


def test_every_topic_setting_falls_back_to_known_broker_keys() -> None:
    for setting in TOPIC_SETTINGS.values():
        for name in setting.synonyms:
            assert BROKER_SETTINGS[name].type in (setting.type, ConfigType.INT)


def test_throttled_replicas_are_pairs_or_a_star() -> None:
    setting = TOPIC_SETTINGS["leader.replication.throttled.replicas"]

    assert setting.parse("0:1,1:2") == ("0:1", "1:2")
    assert setting.parse("*") == ("*",)
    with pytest.raises(ConfigError):
        setting.parse("0:1,*")
    with pytest.raises(ConfigError):
        setting.parse("zero:one")


def test_tiered_storage_cannot_be_switched_on() -> None:
    with pytest.raises(ConfigError, match="there is no tiered storage"):
        TOPIC_SETTINGS["remote.storage.enable"].parse("true")
