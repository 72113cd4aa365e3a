"""How a node proves to other nodes who it is.

Invariant  A configuration whose logins cannot be read keeps the node from starting.
"""

from __future__ import annotations

from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy, random_bytes
from tidelog.model.errors import ConfigError
from tidelog.security.clients import sasl_client
from tidelog.security.exchange import SaslClient
from tidelog.security.jaas import parse_jaas
from tidelog.security.scram import NONCE_BYTES


class Logins:
    """How this node logs in at the listeners of others, by their names."""

    def __init__(self, config: NodeConfig, entropy: Entropy) -> None:
        self._entropy = entropy
        self._logins: dict[str, tuple[str, str, str]] = {}
        for listener in config.names_to_connect_to:
            if config.security_protocol_of(listener).uses_sasl:
                self._logins[listener] = _login(config, listener)

    def begin(self, listener: str) -> tuple[str, SaslClient] | None:
        """A mechanism and a new exchange; None where nothing has to be proved."""
        login = self._logins.get(listener)
        if login is None:
            return None
        name, user, password = login
        return name, sasl_client(name, user, password, random_bytes(self._entropy, NONCE_BYTES))


def _login(config: NodeConfig, listener: str) -> tuple[str, str, str]:
    mechanism = config.mechanism_towards(listener)
    key, text = config.security_of(listener).jaas[mechanism]
    entry = parse_jaas(key, mechanism, text)
    if entry.login is None:
        raise ConfigError(f"{key} must have username and password, as which this node logs in")
    return (mechanism, *entry.login)
