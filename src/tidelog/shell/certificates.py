"""The TLS of each listener, read again when its files change.

Invariant  A connection is made with what the files said last that could be used; a file that is
           no good changes nothing, and is told once.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from typing import Final, TypeAlias

from tidelog.model.config import NodeConfig
from tidelog.model.errors import ConfigError
from tidelog.model.settings.security import ListenerSecurity
from tidelog.observe.events import CertificatesKept, CertificatesReloaded, Event
from tidelog.shell.tls_connection import prepare
from tidelog.tls.contexts import client_context, server_context
from tidelog.tls.stores import store_files

_Signature: TypeAlias = tuple[tuple[int, int, int], ...]
_LOOK_AGAIN_MS: Final = 1_000


class _Certificates:
    """One context, and the files it was made of."""

    def __init__(
        self,
        listener: str,
        security: ListenerSecurity,
        make: Callable[[ListenerSecurity], ssl.SSLContext],
    ) -> None:
        self._listener = listener
        self._security = security
        self._make = make
        self._files = store_files(security)
        self._seen = self._signature()
        self._look_ms = 0
        try:
            self.context = prepare(make(security))
        except ConfigError as error:
            raise ConfigError(f"listener {listener}: {error}") from error

    def look(self, now_ms: int) -> Event | None:
        """Read the files anew if they have changed; what there is to tell of it."""
        if now_ms < self._look_ms:
            return None
        self._look_ms = now_ms + _LOOK_AGAIN_MS
        signature = self._signature()
        if signature == self._seen:
            return None
        self._seen = signature
        try:
            self.context = prepare(self._make(self._security))
        except (ConfigError, OSError, ValueError) as error:
            return CertificatesKept(listener=self._listener, cause=str(error))
        return CertificatesReloaded(listener=self._listener, cause="the files have changed")

    def _signature(self) -> _Signature:
        found = []
        for path in self._files:
            try:
                stat = os.stat(path)
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return tuple(found)


class NodeCertificates:
    """What the listeners of a node show, and what its own connections do."""

    def __init__(self, config: NodeConfig) -> None:
        """ConfigError when what the configuration names cannot be used."""
        self._servers: dict[str, _Certificates] = {}
        self._clients: dict[str, _Certificates] = {}
        for endpoint in config.endpoints:
            if config.security_protocol_of(endpoint.name).uses_tls:
                self._servers[endpoint.name] = _Certificates(
                    endpoint.name, config.security_of(endpoint.name), server_context
                )
        for name in config.names_to_connect_to:
            if config.security_protocol_of(name).uses_tls:
                self._clients[name] = _Certificates(name, config.security_of(name), client_context)

    def of_listener(
        self, name: str, now_ms: int, announce: Callable[[Event], None]
    ) -> ssl.SSLContext | None:
        """What a listener shows to who connects now; None where nothing is encrypted."""
        return _latest(self._servers.get(name), now_ms, announce)

    def towards(
        self, name: str, now_ms: int, announce: Callable[[Event], None]
    ) -> ssl.SSLContext | None:
        """The same for a connection of ours to other nodes' listeners of this name."""
        return _latest(self._clients.get(name), now_ms, announce)


def _latest(
    certificates: _Certificates | None, now_ms: int, announce: Callable[[Event], None]
) -> ssl.SSLContext | None:
    if certificates is None:
        return None
    event = certificates.look(now_ms)
    if event is not None:
        announce(event)
    return certificates.context
