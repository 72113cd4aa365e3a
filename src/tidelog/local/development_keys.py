"""Keys, certificates and users of a cluster for development: made once, kept in its directory.

    security/ca.pem                 whom clients trust; its private key is thrown away
    security/admin.properties       for tools: the user `admin`
    security/client.properties      for clients: the user `client`
    security/nodes.properties       for listeners that nodes keep to themselves
    security/admin.pem              the certificate of those who use it
    security/node-100.pem           key and certificate of a node

Invariant  Files with a secret in them can be read by their owner alone.
Invariant  They are good for this machine: certificates are for its loopback addresses.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.model.settings.access import STANDARD_AUTHORIZER
from tidelog.model.settings.properties import write_properties
from tidelog.security.jaas import jaas_text

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

MECHANISM: Final = "SCRAM-SHA-512"
ADMIN: Final = "admin"
CLIENT: Final = "client"
NODE: Final = "node"
_DAYS: Final = 365
_PASSWORD_BYTES: Final = 18


class DevelopmentKeys(NamedTuple):
    """Where they are."""

    directory: Path

    @classmethod
    def of(cls, cluster: Path) -> DevelopmentKeys:
        """Those of the cluster in a directory, whether it has some or not."""
        return cls(cluster / "security")

    @property
    def trusted(self) -> Path:
        return self.directory / "ca.pem"

    def client_properties(self, user: str = CLIENT) -> Path:
        """How a user connects to brokers."""
        return self.directory / f"{user}.properties"

    @property
    def node_properties(self) -> Path:
        """How one connects to listeners that nodes keep to themselves."""
        return self.directory / "nodes.properties"

    @property
    def exist(self) -> bool:
        return self.trusted.exists()

    def make(self, node_ids: Iterable[int]) -> dict[str, str]:
        """Make all of them; the passwords by user, for formatting."""
        self.directory.mkdir(parents=True)
        authority = _Authority()
        self.trusted.write_bytes(authority.pem)
        for node_id in node_ids:
            _write_secret(self.key_store(node_id), authority.issue(NODE))
        own = self.directory / f"{ADMIN}.pem"
        _write_secret(own, authority.issue(ADMIN))
        passwords = {user: secrets.token_urlsafe(_PASSWORD_BYTES) for user in (ADMIN, CLIENT)}
        for user, password in passwords.items():
            properties = {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": MECHANISM,
                "sasl.jaas.config": jaas_text(MECHANISM, user, password),
                **self._trust,
            }
            _write_secret(self.client_properties(user), write_properties(properties).encode())
        properties = {"security.protocol": "SSL", **self._trust, **_shown(own)}
        _write_secret(self.node_properties, write_properties(properties).encode())
        return passwords

    def key_store(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}.pem"

    def node_settings(self, node_id: int, passwords: Mapping[str, str]) -> dict[str, str]:
        """What makes a node secure: users at CLIENTS, certificates at its other listeners, and an
        authorizer that lets users in do everything until somebody makes a rule."""
        clients = "listener.name.clients."
        return {
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,REPLICATION:SSL,CONTROLLER:SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"{clients}{MECHANISM.lower()}.sasl.jaas.config": jaas_text(
                MECHANISM, ADMIN, passwords[ADMIN]
            ),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{ADMIN};User:{NODE}",
            "allow.everyone.if.no.acl.found": "true",
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            **self._trust,
            **_shown(self.key_store(node_id)),
        }

    @property
    def _trust(self) -> dict[str, str]:
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted.absolute()),
        }


def _shown(path: Path) -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path.absolute())}


def _write_secret(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)


class _Authority:
    """Signs certificates until it is forgotten."""

    def __init__(self) -> None:
        from cryptography import x509

        self._key = _new_key()
        self._name = _name("Tidelog development")
        self._begin = datetime.datetime.fromtimestamp(time.time() - 3600, datetime.UTC)
        builder = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(_usage(of_authority=True), critical=True)
        self.pem = _signed(builder, self._key)

    def issue(self, common_name: str) -> bytes:
        """A new key with its certificate, as PEM."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        key = _new_key()
        names = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address("::1")),
        ]
        builder = self._builder(_name(common_name), key).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        )
        builder = builder.add_extension(_usage(of_authority=False), critical=True)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return private + _signed(builder, self._key)

    def _builder(self, subject: x509.Name, key: EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        from cryptography import x509

        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._begin)
            .not_valid_after(self._begin + datetime.timedelta(days=_DAYS))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False
            )
        )


def _usage(*, of_authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not of_authority,
        key_cert_sign=of_authority,
        crl_sign=of_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
