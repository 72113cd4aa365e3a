"""Key stores and trust stores: from files, or from the settings themselves, to PEM.

Invariant  What cannot be read is a ConfigError that names the setting, and the way to mend it.
Invariant  No message holds a key or a password.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from tidelog.model.errors import ConfigError
from tidelog.model.settings.security import TlsSettings

_JAVA_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"


class KeyStore(NamedTuple):
    """A private key with its certificates, as PEM; the password opens the key."""

    pem: bytes
    password: str | None

    def __repr__(self) -> str:
        return "KeyStore(hidden)"


def key_store(settings: TlsSettings) -> KeyStore | None:
    """The key store that the settings name, if any."""
    chain, key = settings.ssl_keystore_certificate_chain, settings.ssl_keystore_key
    location, kind = settings.ssl_keystore_location, settings.ssl_keystore_type
    if chain or key:
        if not chain or not key:
            raise ConfigError(
                "ssl.keystore.certificate.chain and ssl.keystore.key go together: give both"
            )
        if location:
            raise ConfigError("ssl.keystore.location and ssl.keystore.key contradict each other")
        _require_pem("ssl.keystore", kind)
        text = f"{_unfolded(key)}\n{_unfolded(chain)}\n"
        return KeyStore(text.encode(), settings.ssl_key_password)
    if not location:
        return None
    content = _read("ssl.keystore", location, kind)
    if kind == "PKCS12":
        return KeyStore(_pem_of_pkcs12(location, content, settings), None)
    return KeyStore(content, settings.ssl_key_password or settings.ssl_keystore_password)


def trusted_certificates(settings: TlsSettings) -> str | None:
    """PEM of the authorities that the settings name; None leaves them to the system."""
    inline, location = settings.ssl_truststore_certificates, settings.ssl_truststore_location
    kind = settings.ssl_truststore_type
    if inline:
        if location:
            raise ConfigError(
                "ssl.truststore.location and ssl.truststore.certificates contradict each other"
            )
        _require_pem("ssl.truststore", kind)
        text = _unfolded(inline)
    elif location:
        content = _read("ssl.truststore", location, kind)
        if kind == "PKCS12":
            password = settings.ssl_truststore_password
            text = _certificates_of_pkcs12(location, content, password)
        else:
            text = content.decode("utf-8", "replace")
    else:
        return None
    if _CERTIFICATE not in text:
        raise ConfigError(
            f"ssl.truststore: there is no certificate in {location or 'the PEM text'}"
        )
    return text.encode("ascii", "ignore").decode()  # comments may be in any language


def store_files(settings: TlsSettings) -> tuple[str, ...]:
    """The files that the settings name."""
    named = (settings.ssl_keystore_location, settings.ssl_truststore_location)
    return tuple(location for location in named if location)


def _unfolded(pem: str) -> str:
    """PEM as one line of a file has it: white space for the ends of lines."""
    if "\n" in pem.strip():
        return pem
    text = pem
    for word in ("BEGIN", "END"):
        parts = text.split(f"-----{word} ")
        text = parts[0] + "".join(
            f"\n-----{word} {label}-----\n{rest}"
            for label, _, rest in (part.partition("-----") for part in parts[1:])
        )
    return "\n".join(
        line if line.startswith("-----") else "\n".join(line.split()) for line in text.splitlines()
    )


def _require_pem(prefix: str, kind: str) -> None:
    if kind != "PEM":
        raise ConfigError(f"{prefix}.type must be PEM for certificates in the file itself: add it")


def _read(prefix: str, location: str, kind: str) -> bytes:
    try:
        content = Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{prefix}.location: {location} cannot be read: {error.strerror}"
        ) from error
    if kind == "JKS" or content.startswith(_JAVA_MAGIC):
        raise ConfigError(
            f"{prefix}.location: {location} is Java's own kind of store, JKS, which only Java "
            f"reads. Convert it with `keytool -importkeystore -srckeystore {location} "
            f"-destkeystore {Path(location).with_suffix('.p12')} -deststoretype PKCS12` and set "
            f"{prefix}.type=PKCS12; if it is PKCS12 or PEM already, say so in {prefix}.type"
        )
    return content


def _pem_of_pkcs12(location: str, content: bytes, settings: TlsSettings) -> bytes:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    password = settings.ssl_keystore_password or settings.ssl_key_password
    try:
        found = pkcs12.load_pkcs12(content, _bytes(password))
    except ValueError as error:
        raise _unreadable("ssl.keystore", location) from error
    if found.key is None or found.cert is None:
        raise ConfigError(f"ssl.keystore.location: {location} has no private key")
    pem = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for each in (found.cert, *found.additional_certs):
        pem += each.certificate.public_bytes(Encoding.PEM)
    return pem


def _certificates_of_pkcs12(location: str, content: bytes, password: str | None) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    try:
        found = pkcs12.load_pkcs12(content, _bytes(password))
    except ValueError as error:
        raise _unreadable("ssl.truststore", location) from error
    certificates = (*((found.cert,) if found.cert else ()), *found.additional_certs)
    return "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in certificates)


def _bytes(password: str | None) -> bytes | None:
    return None if password is None else password.encode()


def _unreadable(prefix: str, location: str) -> ConfigError:
    return ConfigError(
        f"{prefix}.location: {location} cannot be opened as PKCS12: check {prefix}.password"
    )
