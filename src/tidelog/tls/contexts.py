"""From settings to what OpenSSL wants: one context for those who connect to us, one for whom we
connect to.

Invariant  Versions before TLS 1.2, compression and renegotiation are never on.
Invariant  A private key leaves this process only into a file without a name, or one that nobody
           else may read and that is gone when this returns.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidelog.model.errors import ConfigError
from tidelog.model.settings.security import TlsSettings
from tidelog.tls.stores import KeyStore, key_store, trusted_certificates

_VERSIONS: Final = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
    "TLS": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_SUITES_OF_1_3: Final = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """For those who connect to a listener with these settings; ConfigError if they are no good."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, settings)
    keys = key_store(settings)
    if keys is None:
        raise ConfigError(
            "ssl.keystore.location must name the certificate that a listener with TLS shows"
        )
    _load_keys(context, keys)
    context.verify_mode = _CLIENT_AUTH[settings.ssl_client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _trust(context, settings)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """For connections of our own; ConfigError if the settings are no good."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context, settings)
    context.check_hostname = bool(settings.ssl_endpoint_identification_algorithm)
    keys = key_store(settings)
    if keys is not None:
        _load_keys(context, keys)
    _trust(context, settings)
    return context


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    newest = _VERSIONS[settings.ssl_protocol]
    versions = [
        _VERSIONS[name] for name in settings.ssl_enabled_protocols if _VERSIONS[name] <= newest
    ]
    suites = settings.ssl_cipher_suites
    if suites:
        versions = _limit_suites(context, suites, versions)
    if not versions:
        raise ConfigError(
            "ssl.enabled.protocols, ssl.protocol and ssl.cipher.suites leave no version of TLS"
        )
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _limit_suites(
    context: ssl.SSLContext, suites: tuple[str, ...], versions: list[ssl.TLSVersion]
) -> list[ssl.TLSVersion]:
    newer = _SUITES_OF_1_3.intersection(suites)
    older = [name for name in suites if name not in _SUITES_OF_1_3]
    if newer and newer != _SUITES_OF_1_3:
        missing = ", ".join(sorted(_SUITES_OF_1_3 - newer))
        raise ConfigError(
            f"ssl.cipher.suites: those of TLS 1.3 go together; add {missing}, "
            "or leave all of them out"
        )
    if older:
        try:
            context.set_ciphers(":".join(_openssl_name(name) for name in older))
        except ssl.SSLError as error:
            raise ConfigError(
                f"ssl.cipher.suites: none of {', '.join(older)} is known here"
            ) from error
        known = {cipher["name"] for cipher in context.get_ciphers()}
        for name in older:
            if _openssl_name(name) not in known:
                raise ConfigError(f"ssl.cipher.suites: {name} is not known here")
    return [
        version for version in versions if (newer if version is ssl.TLSVersion.TLSv1_3 else older)
    ]


def _openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256 to OpenSSL."""
    exchange, found, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not found or not suite.startswith("TLS_"):
        return suite
    name = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    name = name.removesuffix("_SHA256") if name.startswith("CHACHA20") else name
    prefix = "" if exchange == "RSA" else f"{exchange}-"
    return f"{prefix}{name}".replace("_", "-")


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    certificates = trusted_certificates(settings)
    if certificates is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=certificates)
    except ssl.SSLError as error:
        raise ConfigError(
            f"ssl.truststore: a certificate cannot be read: {error.reason}"
        ) from error


def _load_keys(context: ssl.SSLContext, keys: KeyStore) -> None:
    # An empty password keeps OpenSSL from asking for one at the terminal.
    password = keys.password or ""
    with _as_file(keys.pem) as path:
        try:
            context.load_cert_chain(path, password=lambda: password)
        except ssl.SSLError as error:
            raise ConfigError(
                "ssl.keystore: the private key and its certificate cannot be used "
                f"({error.reason or 'not PEM'}); check that both are there, belong together, and "
                "that ssl.key.password opens the key"
            ) from error


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path that OpenSSL can open, since it takes keys from files alone."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tidelog")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
