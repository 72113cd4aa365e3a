"""A node's configuration file: checked once at the start, frozen from then on.

Invariant  A `NodeConfig` has no unknown key, no value outside its limits, and no two values that
           contradict each other.
Invariant  A key that nothing reads is in `without_effect`, to be announced; one that would promise
           protection which nobody gives is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any, Final, NoReturn

from tidelog.model.errors import ConfigError
from tidelog.model.principal import ANONYMOUS, principals
from tidelog.model.settings.access import STANDARD_AUTHORIZER, AccessSettings
from tidelog.model.settings.coordinators import GroupSettings, TransactionSettings
from tidelog.model.settings.endpoints import (
    Endpoint,
    QuorumVoter,
    is_wildcard,
    parse_address,
    parse_listener,
    parse_voter,
)
from tidelog.model.settings.network import NetworkSettings
from tidelog.model.settings.quorum import QuorumSettings
from tidelog.model.settings.quotas import QuotaSettings
from tidelog.model.settings.replication import ReplicationSettings
from tidelog.model.settings.security import (
    JAAS_CONFIG,
    SASL_MECHANISMS,
    ListenerSecurity,
    SaslSettings,
    SecurityProtocol,
    TlsSettings,
)
from tidelog.model.settings.setting import Scope, Setting, unknown_key
from tidelog.model.settings.storage import StorageSettings
from tidelog.model.settings.topic import TopicSettings
from tidelog.model.settings.topic_defaults import TopicDefaults
from tidelog.model.settings.without_effect import WITHOUT_EFFECT, refused_key

LISTENER_PREFIX: Final = "listener.name."
_ORDERED: Final = (
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
)
"""Pairs of which the first must not exceed the second."""


class NodeConfig(
    NetworkSettings,
    QuorumSettings,
    QuotaSettings,
    ReplicationSettings,
    TopicDefaults,
    StorageSettings,
    GroupSettings,
    TransactionSettings,
    AccessSettings,
    TlsSettings,
    SaslSettings,
):
    """The settings of one node, with Kafka's names and defaults."""

    def __init__(self, values: Mapping[str, object], given: Mapping[str, str]) -> None:
        super().__init__(values)
        self.__dict__["given"] = MappingProxyType(dict(given))

    given: Mapping[str, str]
    """The keys the file names, as text; all others have their defaults."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> NodeConfig:
        """Check a configuration; ConfigError tells everything that is wrong with it."""
        values: dict[str, object] = {}
        wrong: list[str] = []
        properties = _with_both_ids(properties)
        for name, text in properties.items():
            try:
                values[name] = _declared(name).parse(text)
            except ConfigError as error:
                wrong.append(str(error))
        if wrong:
            raise ConfigError("\n".join(wrong))
        config = cls(values, properties)
        _check_given(config)
        _check_listeners(config)
        _check_access(config)
        _ = config.http_address  # refused when it is none
        config.check()
        return config

    def check(self) -> None:
        """Refuse values that are fine alone and not together."""
        for lower, upper in _ORDERED:
            low, high = self.value(lower), self.value(upper)
            if isinstance(low, int) and isinstance(high, int) and low > high:
                _refuse(f"{lower} {low} must not exceed {upper} {high}")

    def under(
        self, cluster_dynamic: Mapping[str, str], broker_dynamic: Mapping[str, str]
    ) -> NodeConfig:
        """These settings with those over them that the cluster has changed while it runs.

        What the file says stays in `given`. A value that cannot be read here counts for nothing.
        """
        values = {setting.name: value for setting, value in self.items()}
        for name, setting in self.known().items():
            for layer in (broker_dynamic, cluster_dynamic):
                text = layer.get(name) if setting.scope is not Scope.READ_ONLY else None
                if text is not None and setting.reads(text):
                    values[name] = setting.parse(text)
                    break
        return NodeConfig(values, self.given)

    @property
    def without_effect(self) -> tuple[Setting[Any], ...]:
        """What the file names although nothing here reads it."""
        return tuple(WITHOUT_EFFECT[name] for name in self.given if name in WITHOUT_EFFECT)

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def heartbeat_timeout_ms(self) -> int:
        """How long a broker waits for the answer to a heartbeat before it gives the connection up:
        half a session, as in Kafka, so that there is time for another try."""
        return self.broker_session_timeout_ms // 2

    @property
    def log_directories(self) -> tuple[str, ...]:
        """log.dirs, or else log.dir."""
        if self.log_dirs is not None:
            return self.log_dirs
        return (self.log_dir,) if self.log_dir is not None else ()

    @property
    def metadata_directory(self) -> str:
        """metadata.log.dir, or else the first log directory."""
        return self.metadata_log_dir or self.log_directories[0]

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where this node listens."""
        return tuple(parse_listener("listeners", text) for text in self.listeners)

    @property
    def controller_endpoints(self) -> tuple[Endpoint, ...]:
        """The listeners that serve the quorum."""
        names = self.controller_names
        return tuple(endpoint for endpoint in self.endpoints if endpoint.name in names)

    @property
    def broker_endpoints(self) -> tuple[Endpoint, ...]:
        """The listeners that serve clients and other brokers."""
        names = self.controller_names
        return tuple(endpoint for endpoint in self.endpoints if endpoint.name not in names)

    @property
    def advertised_endpoints(self) -> tuple[Endpoint, ...]:
        """Where clients and other brokers are told to find this one."""
        if self.advertised_listeners is None:
            return self.broker_endpoints
        names = self.controller_names
        return tuple(endpoint for endpoint in self._advertised if endpoint.name not in names)

    @property
    def advertised_controller_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the members of the quorum are told to find this one; the listener itself where
        nothing is advertised for it."""
        advertised = {endpoint.name: endpoint for endpoint in self._advertised}
        return tuple(
            advertised.get(endpoint.name, endpoint) for endpoint in self.controller_endpoints
        )

    @property
    def _advertised(self) -> tuple[Endpoint, ...]:
        given = self.advertised_listeners or ()
        return tuple(parse_listener("advertised.listeners", text) for text in given)

    @property
    def http_address(self) -> tuple[str, int] | None:
        """Where questions are answered over HTTP."""
        return parse_address("http.listener", self.http_listener) if self.http_listener else None

    @property
    def controller_names(self) -> tuple[str, ...]:
        """controller.listener.names in the upper case that listener names have."""
        return tuple(name.upper() for name in self.controller_listener_names)

    @property
    def connections_of_hosts(self) -> Mapping[str, int]:
        """How many connections addresses may have that have a limit of their own."""
        texts = self.max_connections_per_ip_overrides.split(",")
        pairs = (text.strip().rpartition(":") for text in texts if text)
        return {str(ip_address(address)): int(limit) for address, _, limit in pairs}

    @property
    def inter_broker_name(self) -> str:
        """The name of the listener brokers use among themselves."""
        given = self.inter_broker_listener_name or self.security_inter_broker_protocol
        if given is not None:
            return given.upper()
        return next((endpoint.name for endpoint in self.broker_endpoints), "PLAINTEXT")

    @property
    def names_to_connect_to(self) -> tuple[str, ...]:
        """The names of other nodes' listeners that this one connects to."""
        of_controllers = self.controller_names[:1]
        return (*of_controllers, self.inter_broker_name) if self.is_broker else of_controllers

    def security_protocol_of(self, listener: str) -> SecurityProtocol:
        """How a listener of this name is spoken to, here and at other nodes."""
        return self._protocols[listener]

    def security_of(self, listener: str) -> ListenerSecurity:
        """What counts for a listener: its own settings, else those for all of them."""
        values = {name: self.value(name) for name in ListenerSecurity.known()}
        own = {
            name: text
            for key, text in self.given.items()
            for of, name in (_listener_key(key),)
            if of == listener
        }
        if self.security_protocol_of(listener).uses_sasl:
            values["ssl.client.auth"] = ListenerSecurity.ssl_client_auth.default
        jaas: dict[str, tuple[str, str]] = {}
        for name, text in own.items():
            mechanism = _jaas_mechanism(name)
            if mechanism is None:
                values[name] = ListenerSecurity.declaration(name).parse(text)
            else:
                key = f"{LISTENER_PREFIX}{listener.lower()}.{name}"
                jaas[mechanism] = (key, text)
        return ListenerSecurity(values, jaas)

    def mechanism_towards(self, listener: str) -> str:
        """How this node proves to other nodes' listeners of this name who it is."""
        security = self.security_of(listener)
        if listener in self.controller_names:
            return security.sasl_mechanism_controller_protocol
        return security.sasl_mechanism_inter_broker_protocol

    @property
    def _protocols(self) -> dict[str, SecurityProtocol]:
        pairs = (pair.partition(":") for pair in self.listener_security_protocol_map)
        mapped = {name.upper(): SecurityProtocol[protocol] for name, _, protocol in pairs}
        if "listener.security.protocol.map" in self.given:
            return mapped
        return dict.fromkeys(self.controller_names, SecurityProtocol.PLAINTEXT) | mapped

    @property
    def quorum_voters(self) -> tuple[QuorumVoter, ...]:
        """The voters of a fixed quorum; empty when the log itself names them."""
        key = "controller.quorum.voters"
        return tuple(parse_voter(key, text) for text in self.controller_quorum_voters)

    @property
    def has_several_controllers(self) -> bool:
        """Whether the file names more than one."""
        return max(len(self.quorum_voters), len(self.quorum_bootstrap)) > 1

    @property
    def quorum_bootstrap(self) -> tuple[tuple[str, int], ...]:
        """Addresses at which to look for a quorum whose log names the voters."""
        key = "controller.quorum.bootstrap.servers"
        return tuple(parse_address(key, text) for text in self.controller_quorum_bootstrap_servers)


BROKER_SETTINGS: Final[Mapping[str, Setting[Any]]] = MappingProxyType(
    {**NodeConfig.known(), **WITHOUT_EFFECT}
)
"""Every key that a node's file may hold, with or without an effect."""
TOPIC_SETTINGS: Final[Mapping[str, Setting[Any]]] = MappingProxyType(TopicSettings.known())


def _listener_key(name: str) -> tuple[str, str]:
    """The listener and the key of `listener.name.<listener>.<key>`; no listener for other keys."""
    if not name.startswith(LISTENER_PREFIX):
        return "", name
    listener, _, key = name.removeprefix(LISTENER_PREFIX).partition(".")
    return listener.upper(), key


def _jaas_mechanism(key: str) -> str | None:
    """The mechanism of `<mechanism>.sasl.jaas.config`."""
    mechanism = key.removesuffix(".sasl.jaas.config").upper()
    return mechanism if mechanism in SASL_MECHANISMS and mechanism != key.upper() else None


def _declared(name: str) -> Setting[Any]:
    listener, key = _listener_key(name)
    if listener:
        if _jaas_mechanism(key) is not None:
            return JAAS_CONFIG
        if key in ListenerSecurity.known():
            return ListenerSecurity.declaration(key)
        raise ConfigError(
            f"{name} cannot be kept here: {key or 'it'} is not a setting of one listener"
        )
    refused = None if name in BROKER_SETTINGS else refused_key(name)
    if refused is not None:
        raise ConfigError(refused)
    if name in TOPIC_SETTINGS and name not in BROKER_SETTINGS:
        keys = " or ".join(TOPIC_SETTINGS[name].synonyms)
        raise ConfigError(
            f"{name} is a topic setting" + (f"; its default is set with {keys}" if keys else "")
        )
    if name not in BROKER_SETTINGS:
        raise ConfigError(unknown_key(name, BROKER_SETTINGS))
    return BROKER_SETTINGS[name]


def _with_both_ids(properties: Mapping[str, str]) -> Mapping[str, str]:
    """node.id and its older name broker.id stand for each other."""
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in properties and other not in properties:
            return {**properties, other: properties[name]}
    return properties


def _refuse(why: str) -> NoReturn:
    raise ConfigError(why)


def _check_given(config: NodeConfig) -> None:
    for name in ("node.id", "process.roles", "controller.listener.names"):
        if not config.given.get(name, "").strip():
            _refuse(f"{name} must be given")
    if config.broker_id != config.node_id:
        _refuse(f"broker.id {config.broker_id} must be the same as node.id {config.node_id}")
    directories = config.log_directories
    if not directories or not all(directories):
        _refuse("log.dirs must name at least one directory")
    if len(set(directories)) != len(directories):
        _refuse("log.dirs names a directory twice")
    if not config.quorum_voters and not config.quorum_bootstrap:
        _refuse("controller.quorum.voters or controller.quorum.bootstrap.servers must be given")
    voters = [voter.node_id for voter in config.quorum_voters]
    if len(set(voters)) != len(voters):
        _refuse("controller.quorum.voters names a node twice")
    if voters and config.is_controller != (config.node_id in voters):
        member = "is not" if config.is_controller else "is"
        _refuse(
            f"node {config.node_id} has the roles {', '.join(config.process_roles)}, but {member} "
            "among controller.quorum.voters"
        )


def _check_access(config: NodeConfig) -> None:
    """Who names those that may do everything expects that others may not."""
    for name in ("super.users", "allow.everyone.if.no.acl.found"):
        if name in config.given and not config.authorizer_class_name:
            _refuse(
                f"{name} has a meaning only with access control: give authorizer.class.name as "
                f"{STANDARD_AUTHORIZER}, or leave {name} out"
            )
    if not config.authorizer_class_name or not config.has_several_controllers:
        return
    for endpoint in config.controller_endpoints:
        is_open = config.security_protocol_of(endpoint.name) is SecurityProtocol.PLAINTEXT
        if is_open and ANONYMOUS not in principals(config.super_users):
            _refuse(
                f"controllers are {ANONYMOUS} to each other on the listener {endpoint.name}, and "
                "elect nobody before access control lets them: secure it, or name them in "
                "super.users"
            )


def _check_listeners(config: NodeConfig) -> None:
    names = [endpoint.name for endpoint in config.endpoints]
    if len(set(names)) != len(names):
        _refuse("listeners gives one name to two addresses")
    if config.is_controller and not config.controller_endpoints:
        _refuse("listeners must hold one of controller.listener.names on a controller")
    if not config.is_controller and config.controller_endpoints:
        _refuse("listeners must not hold any of controller.listener.names on a mere broker")
    _check_advertised(config, names)
    if not config.is_broker:
        _check_security(config, names)
        return
    if not config.broker_endpoints:
        _refuse("listeners must hold one that is not among controller.listener.names on a broker")
    advertised = {endpoint.name for endpoint in config.advertised_endpoints}
    if config.inter_broker_name not in advertised:
        _refuse(
            f"inter.broker.listener.name {config.inter_broker_name} is not among the advertised "
            "listeners"
        )
    _check_security(config, names)


def _check_security(config: NodeConfig, names: list[str]) -> None:
    protocols = config._protocols
    for name in dict.fromkeys((*names, *config.names_to_connect_to)):
        if name not in protocols:
            _refuse(f"listener.security.protocol.map has no protocol for the listener {name}")
        security = config.security_of(name)
        if protocols[name].uses_sasl:
            _check_sasl(config, name, security, is_ours=name in names)
        if protocols[name].uses_tls and name in names and not security.has_key_store:
            _refuse(
                f"the listener {name} speaks {protocols[name].name} and has no certificate: name "
                f"one with ssl.keystore.location or listener.name.{name.lower()}.ssl.keystore"
                ".location"
            )
    for key in config.given:
        listener = _listener_key(key)[0]
        if listener and listener not in protocols:
            _refuse(f"{key} is for a listener that listener.security.protocol.map does not know")
    if config.inter_broker_listener_name and config.security_inter_broker_protocol:
        _refuse(
            "inter.broker.listener.name and security.inter.broker.protocol say the same: leave "
            "one of them out"
        )


def _check_sasl(
    config: NodeConfig, name: str, security: ListenerSecurity, *, is_ours: bool
) -> None:
    prefix = f"{LISTENER_PREFIX}{name.lower()}."
    for mechanism in security.sasl_enabled_mechanisms if is_ours else ():
        if mechanism not in SASL_MECHANISMS:
            _refuse(
                f"the listener {name} offers {mechanism}, which is not spoken: set "
                f"sasl.enabled.mechanisms to some of {', '.join(SASL_MECHANISMS)}"
            )
        if mechanism == "PLAIN" and mechanism not in security.jaas:
            _refuse(
                f"the listener {name} offers PLAIN and knows no users: name them in "
                f"{prefix}plain.sasl.jaas.config"
            )
    if name not in config.names_to_connect_to:
        return
    mechanism = config.mechanism_towards(name)
    is_for_quorum = config.is_controller and name in config.controller_names
    if is_for_quorum and config.has_several_controllers and mechanism.startswith("SCRAM"):
        _refuse(
            f"controllers cannot know each other by {mechanism} on {name}: its users are in the "
            "metadata, which a quorum has only once they do; set "
            "sasl.mechanism.controller.protocol to PLAIN, or use certificates"
        )
    if mechanism not in security.jaas:
        kind = "controller" if name in config.controller_names else "inter.broker"
        _refuse(
            f"this node connects to {name} and has nothing to prove itself with: set "
            f"sasl.mechanism.{kind}.protocol, and user and password in "
            f"{prefix}<mechanism>.sasl.jaas.config"
        )


def _check_advertised(config: NodeConfig, names: list[str]) -> None:
    for text in config.advertised_listeners or ():
        endpoint = parse_listener("advertised.listeners", text)
        if endpoint.name not in names:
            _refuse(f"advertised.listeners holds {endpoint.name}, which listeners does not")
        if is_wildcard(endpoint.host):
            _refuse(
                f"advertised.listeners needs an address for {endpoint.name} that others can reach"
            )
