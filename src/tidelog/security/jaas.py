"""One line of JAAS: a login module and its options, as `sasl.jaas.config` has it.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";

Invariant  No message shows a value.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tidelog.model.errors import ConfigError

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(r'\s*(?:"((?:\\.|[^"\\])*)"|([^\s"=;]+)|([=;]))')
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_USER: Final = "user_"


class JaasEntry(NamedTuple):
    """A module, and what it is told."""

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.module})"

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user, as PLAIN has them."""
        return {
            name.removeprefix(_USER): password
            for name, password in self.options.items()
            if name.startswith(_USER)
        }

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password with which to log in elsewhere."""
        user, password = self.options.get("username"), self.options.get("password")
        return None if user is None or password is None else (user, password)


def jaas_text(mechanism: str, user: str, password: str) -> str:
    """A line that `parse_jaas` reads back: a login with user and password."""
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password)]
    return f'{_MODULES[mechanism]} required username="{quoted[0]}" password="{quoted[1]}";'


def parse_jaas(key: str, mechanism: str, text: str) -> JaasEntry:
    """The entry in the value of `key`, which must be one of the mechanism's module."""
    words = _words(key, text)
    module = words[0][0] if words else ""
    if module != _MODULES[mechanism]:
        raise ConfigError(f"{key} must begin with {_MODULES[mechanism]}, the module of {mechanism}")
    if len(words) < 3 or words[1][0].lower() not in _FLAGS or words[-1] != (";", True):
        raise ConfigError(f'{key} must have the form: {module} required name="value" ... ;')
    options = {}
    rest = words[2:-1]
    while rest:
        if len(rest) < 3 or rest[0][1] or rest[1] != ("=", True) or rest[2][1]:
            raise ConfigError(f'{key}: options must have the form name="value"')
        options[rest[0][0]] = rest[2][0]
        rest = rest[3:]
    return JaasEntry(module, options)


def _words(key: str, text: str) -> list[tuple[str, bool]]:
    """Words and signs, each with whether it is a sign."""
    words = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ConfigError(f"{key} has a quotation mark that is not closed")
        quoted, word, sign = found.groups()
        if quoted is not None:
            words.append((re.sub(r"\\(.)", r"\1", quoted), False))
        else:
            words.append((word or sign, sign is not None))
        position = found.end()
    return words
