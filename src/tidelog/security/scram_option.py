"""`--add-scram`: a first user of a cluster, in the words of Kafka's own storage tool.

    SCRAM-SHA-512=[name=alice,password=sesame]
    SCRAM-SHA-256=[name="alice",iterations=8192,salt="base 64",saltedpassword="base 64"]

Invariant  No message shows a password.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from typing import Final, NamedTuple

from tidelog.model.entropy import Entropy, random_bytes
from tidelog.model.errors import ConfigError
from tidelog.security.scram import (
    ITERATIONS_LEAST,
    ITERATIONS_MOST,
    SALT_BYTES,
    SCRAM_BY_NAME,
    ScramCredential,
    ScramMechanism,
)

_OPTION: Final = re.compile(r"(SCRAM-SHA-(?:256|512))=\[(.*)\]")
_PART: Final = re.compile(r'(name|password|salt|saltedpassword|iterations)=(?:"([^"]*)"|([^",]*))')
_FORM: Final = "SCRAM-SHA-512=[name=alice,password=...]"


class FirstUser(NamedTuple):
    """A user that is there from the start."""

    name: str
    mechanism: ScramMechanism
    credential: ScramCredential


def parse_add_scram(text: str, entropy: Entropy) -> FirstUser:
    """The user that the option stands for; ConfigError when it cannot be read."""
    found = _OPTION.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"--add-scram must have the form '{_FORM}'")
    mechanism = SCRAM_BY_NAME[found[1]]
    given = _parts(found[2])
    name = given.get("name")
    if not name:
        raise ConfigError("--add-scram must have a name")
    rounds = given.get("iterations", str(ITERATIONS_LEAST))
    iterations = int(rounds) if rounds.isascii() and rounds.isdigit() else 0
    if not ITERATIONS_LEAST <= iterations <= ITERATIONS_MOST:
        raise ConfigError(
            f"--add-scram: iterations must be between {ITERATIONS_LEAST} and {ITERATIONS_MOST}"
        )
    salt = _binary(given, "salt") or random_bytes(entropy, SALT_BYTES)
    if ("password" in given) == ("saltedpassword" in given):
        raise ConfigError("--add-scram must have either a password or a saltedpassword")
    if "saltedpassword" in given:
        if "salt" not in given:
            raise ConfigError("--add-scram: a saltedpassword needs its salt")
        salted = _binary(given, "saltedpassword")
    else:
        salted = mechanism.salted(given["password"], salt, iterations)
    credential = ScramCredential.of_salted_password(mechanism, salted, salt, iterations)
    return FirstUser(name, mechanism, credential)


def _parts(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    position = 0
    while True:
        found = _PART.match(text, position)
        if found is None or found[1] in given:
            raise ConfigError(f"--add-scram must have the form '{_FORM}'")
        given[found[1]] = found[3] if found[2] is None else found[2]
        position = found.end()
        if position == len(text):
            return given
        if text[position] != ",":
            raise ConfigError(f"--add-scram must have the form '{_FORM}'")
        position += 1


def _binary(given: dict[str, str], key: str) -> bytes:
    try:
        return b64decode(given.get(key, ""), validate=True)
    except (NotBase64, ValueError) as error:
        raise ConfigError(f"--add-scram: {key} must be in base 64") from error
