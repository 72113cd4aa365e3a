"""Settings of one listener's security: TLS and SASL, with Kafka's names and defaults.

A key counts for every listener, or for one of them as `listener.name.<name>.<key>`.

Invariant  A value that is accepted here is kept: versions, cipher suites and checks that nobody
           would enforce are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from tidelog.model.settings.setting import (
    ConfigType,
    Limit,
    Setting,
    Settings,
    at_least,
    between,
    each_of,
    one_of,
)

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_KERBEROS: Final = "GSSAPI"
STORE_TYPES: Final = ("JKS", "PEM", "PKCS12")


class SecurityProtocol(IntEnum):
    """How a listener is spoken to, by the number that registrations carry."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def uses_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class TlsSettings(Settings):
    """Certificates, whom to trust, and what is negotiated."""

    ssl_cipher_suites = Setting[tuple[str, ...]](
        ConfigType.LIST,
        (),
        "Cipher suites to choose from, by their IANA names; empty, all that are safe. Of TLS 1.3 "
        "there are all three, or none.",
    )
    ssl_client_auth = Setting(
        ConfigType.STRING,
        "none",
        "Whether clients show a certificate. With SASL_SSL only its form for one listener counts.",
        one_of("none", "requested", "required"),
    )
    ssl_enabled_protocols = Setting[tuple[str, ...]](
        ConfigType.LIST,
        TLS_VERSIONS,
        "Versions of TLS that are spoken.",
        Limit(
            f"a list of {', '.join(TLS_VERSIONS)}, at least one of them",
            lambda versions: bool(versions) and each_of(*TLS_VERSIONS).holds(versions),
        ),
    )
    ssl_endpoint_identification_algorithm = Setting(
        ConfigType.STRING,
        "https",
        "`https`: a node that we connect to must have a certificate for the name by which we "
        "look for it; empty: any trusted certificate will do.",
        Limit("https, or empty", lambda name: name.lower() in ("https", "")),
    )
    ssl_key_password = Setting[str | None](
        ConfigType.PASSWORD,
        None,
        "Opens the private key, if it is encrypted.",
    )
    ssl_keystore_certificate_chain = Setting[str | None](
        ConfigType.PASSWORD,
        None,
        "The certificate and those above it, as PEM text in the file itself; the type is PEM.",
    )
    ssl_keystore_key = Setting[str | None](
        ConfigType.PASSWORD,
        None,
        "The private key, as PEM text (PKCS#8) in the file itself; the type is PEM.",
    )
    ssl_keystore_location = Setting[str | None](
        ConfigType.STRING,
        None,
        "File with the private key and its certificates; read again when it changes.",
    )
    ssl_keystore_password = Setting[str | None](
        ConfigType.PASSWORD,
        None,
        "Opens a PKCS12 key store.",
    )
    ssl_keystore_type = Setting(
        ConfigType.STRING,
        "JKS",
        "What the key store is: PEM or PKCS12. JKS, Java's own, cannot be read.",
        one_of(*STORE_TYPES),
    )
    ssl_principal_mapping_rules = Setting(
        ConfigType.STRING,
        "DEFAULT",
        "How the subject of a client's certificate becomes its name: rules such as "
        "`RULE:^CN=([^,]+).*$/$1/L,DEFAULT`, the first that matches.",
    )
    ssl_protocol = Setting(
        ConfigType.STRING,
        "TLSv1.3",
        "The newest version of TLS; TLS stands for TLSv1.3.",
        one_of("TLS", *TLS_VERSIONS),
    )
    ssl_truststore_certificates = Setting[str | None](
        ConfigType.PASSWORD,
        None,
        "Certificates of authorities to trust, as PEM text in the file itself; the type is PEM.",
    )
    ssl_truststore_location = Setting[str | None](
        ConfigType.STRING,
        None,
        "File with the certificates of authorities to trust; without one, those of the system.",
    )
    ssl_truststore_password = Setting[str | None](
        ConfigType.PASSWORD,
        None,
        "Opens a PKCS12 trust store.",
    )
    ssl_truststore_type = Setting(
        ConfigType.STRING,
        "JKS",
        "What the trust store is: PEM or PKCS12. JKS, Java's own, cannot be read.",
        one_of(*STORE_TYPES),
    )

    @property
    def has_key_store(self) -> bool:
        """Whether there is anything to show of oneself."""
        return bool(self.ssl_keystore_location or self.ssl_keystore_key)


class SaslSettings(Settings):
    """How peers prove who they are, and how this node does to others."""

    connection_failed_authentication_delay_ms = Setting(
        ConfigType.INT,
        100,
        "So long the answer to a proof that failed is held back, and the end of the connection.",
        between(0, 10_000),
    )
    connections_max_reauth_ms = Setting(
        ConfigType.LONG,
        0,
        "A peer that has not proved anew after so long who it is may ask nothing more on its "
        "connection; 0 is never.",
        at_least(0),
    )
    sasl_enabled_mechanisms = Setting[tuple[str, ...]](
        ConfigType.LIST,
        (_KERBEROS,),
        "Mechanisms of SASL that a listener offers: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512. The "
        "default, Kafka's, cannot be kept: name some.",
        Limit(
            f"a list of {', '.join(SASL_MECHANISMS)}, at least one of them",
            lambda names: bool(names) and each_of(_KERBEROS, *SASL_MECHANISMS).holds(names),
        ),
    )
    sasl_mechanism_controller_protocol = Setting(
        ConfigType.STRING,
        _KERBEROS,
        "Mechanism by which this node proves to controllers who it is; Kafka's default cannot be "
        "kept.",
        one_of(_KERBEROS, *SASL_MECHANISMS),
    )
    sasl_mechanism_inter_broker_protocol = Setting(
        ConfigType.STRING,
        _KERBEROS,
        "Mechanism by which this broker proves to others who it is; Kafka's default cannot be "
        "kept.",
        one_of(_KERBEROS, *SASL_MECHANISMS),
    )
    sasl_server_max_receive_size = Setting(
        ConfigType.INT,
        524_288,
        "Largest request of a peer that has not proved who it is.",
        at_least(1),
    )


class ListenerSecurity(TlsSettings, SaslSettings):
    """What counts for one listener."""

    def __init__(
        self, values: Mapping[str, object], jaas: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        super().__init__(values)
        self.__dict__["jaas"] = MappingProxyType(dict(jaas or {}))

    jaas: Mapping[str, tuple[str, str]]
    """The key and the text of `<mechanism>.sasl.jaas.config`, by mechanism."""


JAAS_CONFIG: Final = Setting[str](
    ConfigType.PASSWORD,
    "",
    "Users with their passwords, and the user as which this node logs in elsewhere.",
)
"""`listener.name.<name>.<mechanism>.sasl.jaas.config`: there is none without a mechanism."""
