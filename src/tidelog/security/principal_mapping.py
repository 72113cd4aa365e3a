"""`ssl.principal.mapping.rules`: from the subject of a certificate to the name of a user.

A rule is `DEFAULT`, which keeps the subject, or `RULE:pattern/replacement/` with `L` or `U` behind
it for lower or upper case; rules stand with commas between, and the first whose pattern matches
the whole subject counts. The grammar is Kafka's.

Invariant  A subject to which no rule applies gets no name: its connection is refused, not taken for
           that of anybody.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tidelog.model.errors import ConfigError

_RULE: Final = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)|")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)
_KEY: Final = "ssl.principal.mapping.rules"


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(self._filled, subject)
        if self.case == "L":
            return name.lower()
        return name.upper() if self.case == "U" else name

    def _filled(self, matched: re.Match[str]) -> str:
        """The replacement with its references filled in; one to no group stands for itself."""

        def fill(found: re.Match[str]) -> str:
            if found[1] is not None:
                return found[1]
            digits = found[2]
            for used in range(len(digits), 0, -1):
                if int(digits[:used]) <= matched.re.groups:
                    return (matched[int(digits[:used])] or "") + digits[used:]
            return found[0]

        return _REFERENCE.sub(fill, self.replacement)


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """ConfigError for rules that cannot be read."""
        self._rules = _parse(text)

    def name_of(self, subject: str) -> str | None:
        """The user that a subject stands for; None when no rule applies."""
        for rule in self._rules:
            name = rule.apply(subject)
            if name is not None:
                return name
        return None


def _parse(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None or (found.end() == position and text[position] != ","):
            raise ConfigError(
                f"{_KEY}: {text[position:]!r} is not a rule; write DEFAULT or "
                "RULE:pattern/replacement/ with L or U behind it"
            )
        if found[1] is not None:
            rules.append(_Rule(None, "", ""))
        elif found[2] is not None:
            rules.append(_Rule(_compiled(found[2]), found[3], found[4]))
        position = _behind_comma(text, found.end())
    return rules


def _behind_comma(text: str, position: int) -> int:
    rest = text[position:].lstrip()
    if rest and not rest.startswith(","):
        raise ConfigError(f"{_KEY}: {rest!r} stands behind a rule where a comma is expected")
    return len(text) - len(rest[1:].lstrip())


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"{_KEY}: the pattern {pattern!r} cannot be read: {error}") from error
