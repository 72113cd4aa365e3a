"""How a client is let in: `security.protocol`, `sasl.*` and `ssl.*`, as Kafka's clients take them.

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
        username="alice" password="sesame";
    ssl.truststore.type=PEM
    ssl.truststore.location=/etc/tidelog/ca.pem

Invariant  What the file asks for is what is done: a key of security that is not understood is
           refused, others are for other clients and ignored.
Invariant  No message and no representation shows a secret.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

from tidelog.model.errors import ConfigError
from tidelog.model.settings.properties import parse_properties
from tidelog.model.settings.security import SASL_MECHANISMS, SecurityProtocol, TlsSettings
from tidelog.model.settings.setting import unknown_key
from tidelog.security.clients import sasl_client
from tidelog.security.exchange import SaslClient
from tidelog.security.jaas import jaas_text, parse_jaas
from tidelog.security.scram import NONCE_BYTES
from tidelog.tls.contexts import client_context

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_OWN: Final = (_PROTOCOL, _MECHANISM, _JAAS)
_PREFIXES: Final = ("security.", "sasl.", "ssl.")
_OF_SERVERS: Final = ("ssl.client.auth", "ssl.principal.mapping.rules")


class ClientSecurity:
    """What a client does before it asks anything."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """ConfigError says what is wrong with the properties."""
        known = {**TlsSettings.known()}
        for key in _OF_SERVERS:
            del known[key]
        values: dict[str, object] = {}
        for key, text in properties.items():
            if key in known:
                values[key] = known[key].parse(text)
            elif key.startswith(_PREFIXES) and key not in _OWN:
                raise ConfigError(unknown_key(key, [*_OWN, *known]))
        name = properties.get(_PROTOCOL, SecurityProtocol.PLAINTEXT.name).strip().upper()
        if name not in SecurityProtocol.__members__:
            raise ConfigError(
                f"{_PROTOCOL} must be one of {', '.join(SecurityProtocol.__members__)}"
            )
        self.properties = dict(properties)
        self.protocol: Final = SecurityProtocol[name]
        self._tls = TlsSettings(values)
        self._login = _login(properties) if self.protocol.uses_sasl else None
        if self.protocol.uses_tls:
            _ = self._context

    @classmethod
    def of_file(cls, path: Path) -> ClientSecurity:
        """As a file of client properties says."""
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        try:
            return cls(parse_properties(text))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    @classmethod
    def of_librdkafka(cls, settings: Mapping[str, str]) -> ClientSecurity:
        """The same in the words of librdkafka, as Spark's sources and sinks take them."""
        properties = {
            _PROTOCOL: settings.get(_PROTOCOL, SecurityProtocol.PLAINTEXT.name).upper(),
            _MECHANISM: settings.get(_MECHANISM) or settings.get("sasl.mechanisms", ""),
        }
        mechanism = properties[_MECHANISM]
        if mechanism in SASL_MECHANISMS:
            user, password = settings.get("sasl.username"), settings.get("sasl.password")
            if user is None or password is None:
                raise ConfigError("sasl.username and sasl.password must be given")
            properties[_JAAS] = jaas_text(mechanism, user, password)
        for key, ours in _OF_LIBRDKAFKA.items():
            if key in settings:
                properties |= ours(settings[key])
        return cls(properties)

    def __repr__(self) -> str:
        return f"ClientSecurity({self.protocol.name})"

    @property
    def mechanism(self) -> str | None:
        """By which the client proves who it is; None when it need not."""
        return None if self._login is None else self._login[0]

    def secured(self, connected: socket.socket, host: str) -> socket.socket:
        """The socket with what protects it; OSError when the peer cannot be trusted."""
        if not self.protocol.uses_tls:
            return connected
        return self._context.wrap_socket(connected, server_hostname=host)

    def begin_login(self) -> SaslClient:
        """A new exchange, where there is a mechanism."""
        if self._login is None:
            raise ConfigError(f"{_PROTOCOL} {self.protocol.name} has no login")
        return sasl_client(*self._login, os.urandom(NONCE_BYTES))

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return client_context(self._tls)


def _file(key: str) -> Callable[[str], dict[str, str]]:
    def read(path: str) -> dict[str, str]:
        try:
            return {key: Path(path).read_text(encoding="ascii")}
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from error

    return read


_OF_LIBRDKAFKA: Final[Mapping[str, Callable[[str], dict[str, str]]]] = {
    "ssl.ca.location": lambda path: {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": path,
    },
    "ssl.ca.pem": lambda text: {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": text,
    },
    "ssl.certificate.location": _file("ssl.keystore.certificate.chain"),
    "ssl.certificate.pem": lambda text: {"ssl.keystore.certificate.chain": text},
    "ssl.key.location": lambda path: {
        "ssl.keystore.type": "PEM",
        **_file("ssl.keystore.key")(path),
    },
    "ssl.key.pem": lambda text: {"ssl.keystore.type": "PEM", "ssl.keystore.key": text},
    "ssl.key.password": lambda text: {"ssl.key.password": text},
    "ssl.endpoint.identification.algorithm": lambda text: {
        "ssl.endpoint.identification.algorithm": "" if text.lower() == "none" else text
    },
}
"""What the settings of librdkafka are in ours."""


def _login(properties: Mapping[str, str]) -> tuple[str, str, str]:
    mechanism = properties.get(_MECHANISM, "").strip()
    if mechanism not in SASL_MECHANISMS:
        raise ConfigError(f"{_MECHANISM} must be one of {', '.join(SASL_MECHANISMS)}")
    entry = parse_jaas(_JAAS, mechanism, properties.get(_JAAS, ""))
    if entry.login is None:
        raise ConfigError(f"{_JAAS} must have username and password")
    return (mechanism, *entry.login)
