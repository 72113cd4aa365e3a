"""Throw-away authorities and certificates."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)


class Authority:
    """One authority and the files of what it has signed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._ca = trustme.CA()
        self.trusted = directory / "ca.pem"
        self._ca.cert_pem.write_to_path(self.trusted)

    def issue(self, *names: str, common_name: str | None = None) -> tuple[str, str]:
        """Key and chain, as PEM."""
        issued = self._ca.issue_cert(*names, common_name=common_name)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        return _pkcs8(issued.private_key_pem.bytes()), chain.decode()

    def key_store(self, file: str, *names: str, common_name: str | None = None) -> Path:
        """A file with key and chain."""
        key, chain = self.issue(*names, common_name=common_name)
        path = self._directory / file
        path.write_text(key + chain)
        return path

    def pkcs12(self, file: str, password: str, *names: str) -> Path:
        key, chain = self.issue(*names)
        first, *others = x509.load_pem_x509_certificates(chain.encode())
        private = load_pem_private_key(key.encode(), None)
        path = self._directory / file
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"node",
                private,  # type: ignore[arg-type]
                first,
                others,
                BestAvailableEncryption(password.encode()),
            )
        )
        return path

    def trusted_pkcs12(self, file: str, password: str) -> Path:
        path = self._directory / file
        authority = x509.load_pem_x509_certificate(self._ca.cert_pem.bytes())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"ca", None, None, [authority], BestAvailableEncryption(password.encode())
            )
        )
        return path


def encrypted(key: str, password: str) -> str:
    """A private key that only the password opens."""
    private = load_pem_private_key(key.encode(), None)
    return private.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
    ).decode()


def _pkcs8(key: bytes) -> str:
    """A private key in the form that Java reads, too."""
    private = load_pem_private_key(key, None)
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def der(chain: str) -> bytes:
    """The first certificate of a chain as TLS hands it over."""
    return x509.load_pem_x509_certificates(chain.encode())[0].public_bytes(Encoding.DER)
