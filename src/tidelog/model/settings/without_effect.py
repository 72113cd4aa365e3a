"""Keys of Apache Kafka 4.3 without an effect here: some are taken as they are, some are refused.

A file written for Apache Kafka should start a node, so a key that only tunes what is built in
another way is known, checked, shown and announced once at the start. A key that promises
protection which nobody gives is refused, in a file and on the wire.

Invariant  No key of `WITHOUT_EFFECT` is one that somebody could rely on for safety: what guards
           access, or decides what may be done, is in `REFUSED` for as long as it does nothing, or
           takes in `_LIMITS` only what is so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from tidelog.model.settings.setting import (
    ConfigType,
    Limit,
    Scope,
    Setting,
    at_least,
    between,
    each_of,
    one_of,
)
from tidelog.model.settings.topic import ONLY_FALSE

_BY_REASON: Final = {
    "this is the only value there is": """
    remote.log.storage.system.enable boolean false .. read-only
    """,
    "a node is one event loop; start more brokers to use more cores": """
    background.threads int 10 1.. cluster-wide
    group.coordinator.background.threads int 2 1.. read-only
    group.coordinator.threads int 4 1.. read-only
    log.cleaner.threads int 1 0.. cluster-wide
    num.io.threads int 8 1.. cluster-wide
    num.network.threads int 3 1.. cluster-wide
    num.recovery.threads.per.data.dir int 2 1.. cluster-wide
    num.replica.alter.log.dirs.threads int null .. read-only
    num.replica.fetchers int 1 1.. cluster-wide
    queued.max.requests int 500 1.. read-only
    """,
    "nobody logs in, so there is no login to renew": """
    sasl.kerberos.min.time.before.relogin long 60000 .. per-broker
    sasl.kerberos.ticket.renew.jitter double 0.05 .. per-broker
    sasl.kerberos.ticket.renew.window.factor double 0.8 .. per-broker
    sasl.login.refresh.buffer.seconds short 300 0..3600 per-broker
    sasl.login.refresh.min.period.seconds short 60 0..900 per-broker
    sasl.login.refresh.window.factor double 0.8 0.5..1.0 per-broker
    sasl.login.refresh.window.jitter double 0.05 0.0..0.25 per-broker
    """,
    "OpenSSL has its own": """
    ssl.keymanager.algorithm string SunX509 .. read-only
    ssl.trustmanager.algorithm string PKIX .. read-only
    """,
    "what waits is taken off the list when it is done": """
    delete.records.purgatory.purge.interval.requests int 1 .. read-only
    fetch.purgatory.purge.interval.requests int 1000 .. read-only
    producer.purgatory.purge.interval.requests int 1000 .. read-only
    share.fetch.purgatory.purge.interval.requests int 1000 .. read-only
    """,
    "logs are not moved between directories of a broker": """
    alter.log.dirs.replication.quota.window.num int 11 1.. read-only
    alter.log.dirs.replication.quota.window.size.seconds int 1 1.. read-only
    replica.alter.log.dirs.io.max.bytes.per.second long 9223372036854775807 0.. cluster-wide hidden
    """,
    "there are no metrics of the JVM, and nothing reports them": """
    controller.performance.always.log.threshold.ms long 2000 0.. read-only hidden
    controller.performance.sample.period.ms long 60000 100.. read-only hidden
    kafka.metrics.polling.interval.secs int 10 1.. read-only
    kafka.metrics.reporters list "" .. read-only
    metric.reporters list org.apache.kafka.common.metrics.JmxReporter .. cluster-wide
    metrics.num.samples int 2 1.. read-only
    metrics.recording.level string INFO .. read-only
    metrics.sample.window.ms long 30000 1.. read-only
    telemetry.max.bytes int 1048576 1.. read-only
    """,
    "there are no share groups": """
    group.share.assignment.interval.ms int 1000 0.. cluster-wide
    group.share.assignors list simple .. read-only
    group.share.delivery.count.limit int 5 2..10 read-only
    group.share.heartbeat.interval.ms int 5000 1.. read-only
    group.share.initialize.retry.interval.ms int 30000 1.. read-only hidden
    group.share.max.assignment.interval.ms int 15000 0.. read-only
    group.share.max.delivery.count.limit int 10 5..25 read-only
    group.share.max.heartbeat.interval.ms int 15000 1.. read-only
    group.share.max.partition.max.record.locks int 4000 2000..10000 read-only
    group.share.max.record.lock.duration.ms int 60000 30000..3600000 read-only
    group.share.max.session.timeout.ms int 60000 1.. read-only
    group.share.max.share.sessions int 2000 1.. read-only
    group.share.max.size int 200 1..1000 read-only
    group.share.min.assignment.interval.ms int 0 0.. read-only
    group.share.min.delivery.count.limit int 2 2..5 read-only
    group.share.min.heartbeat.interval.ms int 5000 1.. read-only
    group.share.min.partition.max.record.locks int 100 100..2000 read-only
    group.share.min.record.lock.duration.ms int 15000 1000..30000 read-only
    group.share.min.session.timeout.ms int 45000 1.. read-only
    group.share.partition.max.record.locks int 2000 100..10000 read-only
    group.share.persister.class.name string \
      org.apache.kafka.server.share.persister.DefaultStatePersister .. read-only hidden
    group.share.record.lock.duration.ms int 30000 1000..3600000 read-only
    group.share.session.timeout.ms int 45000 1.. read-only
    share.coordinator.append.linger.ms int -1 -1.. read-only
    share.coordinator.cached.buffer.max.bytes int 1048588 524288.. cluster-wide
    share.coordinator.cold.partition.snapshot.interval.ms int 300000 1.. read-only hidden
    share.coordinator.load.buffer.size int 5242880 1.. read-only
    share.coordinator.snapshot.update.records.per.snapshot int 500 0..500 read-only
    share.coordinator.state.topic.compression.codec int 0 .. read-only
    share.coordinator.state.topic.min.isr short 2 1.. read-only
    share.coordinator.state.topic.num.partitions int 50 1.. read-only
    share.coordinator.state.topic.prune.interval.ms int 300000 1.. read-only hidden
    share.coordinator.state.topic.replication.factor short 3 1.. read-only
    share.coordinator.state.topic.segment.bytes int 104857600 1.. read-only
    share.coordinator.threads int 1 1.. read-only
    share.coordinator.write.timeout.ms int 5000 1.. read-only
    """,
    "there are no groups of Kafka Streams' own protocol": """
    group.streams.assignment.interval.ms int 1000 0.. cluster-wide
    group.streams.heartbeat.interval.ms int 5000 1.. read-only
    group.streams.initial.rebalance.delay.ms int 3000 0.. read-only
    group.streams.max.assignment.interval.ms int 15000 0.. read-only
    group.streams.max.heartbeat.interval.ms int 15000 1.. read-only
    group.streams.max.session.timeout.ms int 60000 1.. read-only
    group.streams.max.size int 2147483647 1.. read-only
    group.streams.max.standby.replicas int 2 0.. read-only
    group.streams.min.assignment.interval.ms int 0 0.. read-only
    group.streams.min.heartbeat.interval.ms int 5000 1.. read-only
    group.streams.min.session.timeout.ms int 45000 1.. read-only
    group.streams.num.standby.replicas int 0 0.. read-only
    group.streams.session.timeout.ms int 45000 1.. read-only
    """,
    "there is no tiered storage": """
    follower.fetch.last.tiered.offset.enable boolean false .. cluster-wide
    log.local.retention.bytes long -2 -2.. cluster-wide
    log.local.retention.ms long -2 -2.. cluster-wide
    remote.fetch.max.wait.ms int 500 1.. cluster-wide
    remote.list.offsets.request.timeout.ms long 30000 1.. cluster-wide
    remote.log.index.file.cache.total.size.bytes long 1073741824 1.. cluster-wide
    remote.log.index.file.cache.ttl.ms long 900000 -1.. read-only hidden
    remote.log.manager.copier.thread.pool.size int 10 1.. cluster-wide
    remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 1.. cluster-wide
    remote.log.manager.copy.quota.window.num int 11 1.. read-only
    remote.log.manager.copy.quota.window.size.seconds int 1 1.. read-only
    remote.log.manager.expiration.thread.pool.size int 10 1.. cluster-wide
    remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 1.. cluster-wide
    remote.log.manager.fetch.quota.window.num int 11 1.. read-only
    remote.log.manager.fetch.quota.window.size.seconds int 1 1.. read-only
    remote.log.manager.follower.thread.pool.size int 2 1.. cluster-wide
    remote.log.manager.task.interval.ms long 30000 1.. read-only
    remote.log.manager.task.retry.backoff.max.ms long 30000 1.. read-only hidden
    remote.log.manager.task.retry.backoff.ms long 500 1.. read-only hidden
    remote.log.manager.task.retry.jitter double 0.2 0..0.5 read-only hidden
    remote.log.manager.thread.pool.size int 2 1.. read-only
    remote.log.metadata.custom.metadata.max.bytes int 128 0.. read-only
    remote.log.metadata.manager.class.name string \
      org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager \
      .. read-only
    remote.log.metadata.manager.class.path string null .. read-only
    remote.log.metadata.manager.impl.prefix string rlmm.config. .. read-only
    remote.log.metadata.manager.listener.name string null .. read-only
    remote.log.reader.max.pending.tasks int 100 1.. read-only
    remote.log.reader.threads int 10 1.. cluster-wide
    remote.log.storage.manager.class.name string null .. read-only
    remote.log.storage.manager.class.path string null .. read-only
    remote.log.storage.manager.impl.prefix string rsm.config. .. read-only
    """,
    "cleaning takes turns with everything else": """
    log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 .. cluster-wide
    """,
    "it is done in another way": """
    controller.quorum.append.linger.ms int 25 0.. read-only
    controller.socket.timeout.ms int 30000 .. read-only
    cordoned.log.dirs list "" .. per-broker
    early.start.listeners list null .. read-only
    group.consumer.regex.refresh.interval.ms int 600000 10000.. read-only hidden
    group.coordinator.append.linger.ms int -1 -1.. read-only
    group.coordinator.cached.buffer.max.bytes int 1048588 524288.. cluster-wide
    group.coordinator.rebalance.protocols list classic,consumer,streams .. read-only
    internal.metadata.delete.delay.millis long 60000 .. read-only hidden
    internal.metadata.log.segment.bytes int null .. read-only hidden
    internal.metadata.max.batch.size.in.bytes int 8388608 .. read-only hidden
    log.cleaner.io.buffer.size int 524288 0.. cluster-wide
    log.dir.failure.timeout.ms long 30000 1.. read-only
    log.flush.start.offset.checkpoint.interval.ms int 60000 0.. read-only
    log.preallocate boolean false .. cluster-wide
    server.max.startup.time.ms long 9223372036854775807 0.. read-only hidden
    socket.connection.setup.timeout.max.ms long 30000 .. read-only
    socket.connection.setup.timeout.ms long 10000 .. read-only
    unstable.api.versions.enable boolean false .. read-only hidden
    unstable.feature.versions.enable boolean false .. read-only hidden
    """,
}
"""Reason: one line per key with type, default, range and where it may be changed."""

_PROTOCOLS: Final = each_of("classic", "consumer", "share", "streams")

_LIMITS: Final = {
    "group.coordinator.rebalance.protocols": Limit(
        f"{_PROTOCOLS.words}, and with classic and consumer, which cannot be turned off",
        lambda chosen: _PROTOCOLS.holds(chosen) and {"classic", "consumer"} <= {*chosen},
    ),
    "metrics.recording.level": one_of("INFO", "DEBUG", "TRACE"),
    "remote.log.storage.system.enable": ONLY_FALSE,
}

_NO_KERBEROS: Final = "Kerberos is not spoken"
_BY_MECHANISM: Final = "logins are named as listener.name.<name>.<mechanism>.sasl.jaas.config"
_NO_OAUTH: Final = "OAUTHBEARER is not spoken"
_NO_ACCESS_CONTROL: Final = "there is no access control"
_NO_PLUG_INS: Final = "classes of Java cannot be loaded, so it would never be asked"
_NO_ZOOKEEPER: Final = "controllers keep the metadata; see controller.quorum.bootstrap.servers"
_ANY_CERTIFICATE: Final = "a certificate is taken as it is when its file changes"
_GONE: Final = "Apache Kafka dropped it with version 4.0"

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "alter.config.policy.class.name": _NO_PLUG_INS,
        "client.quota.callback.class": _NO_PLUG_INS,
        "config.providers": "values are taken as they stand; ${...} would not be replaced",
        "create.topic.policy.class.name": _NO_PLUG_INS,
        "delegation.token.*": _NO_ACCESS_CONTROL,
        "inter.broker.protocol.version": _GONE,
        "log.message.format.version": _GONE,
        "principal.builder.class": _NO_ACCESS_CONTROL,
        "sasl.client.callback.handler.class": _NO_PLUG_INS,
        "sasl.jaas.config": _BY_MECHANISM,
        "sasl.kerberos.*": _NO_KERBEROS,
        "sasl.login.*": _NO_PLUG_INS,
        "sasl.oauthbearer.*": _NO_OAUTH,
        "sasl.server.callback.handler.class": _NO_PLUG_INS,
        "security.providers": _NO_PLUG_INS,
        "ssl.allow.dn.changes": _ANY_CERTIFICATE,
        "ssl.allow.san.changes": _ANY_CERTIFICATE,
        "ssl.engine.factory.class": _NO_PLUG_INS,
        "ssl.provider": _NO_PLUG_INS,
        "ssl.secure.random.implementation": _NO_PLUG_INS,
        "zookeeper.*": _NO_ZOOKEEPER,
    }
)
"""Keys, and beginnings of keys, that a node does not start with, and why; a key that promises
nothing is taken although it begins like one of them."""


def refused_key(name: str) -> str | None:
    """Why a file must not hold this key; None when nothing speaks against it."""
    if name in WITHOUT_EFFECT:
        return None
    for pattern, reason in REFUSED.items():
        if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])):
            return f"{name} cannot be kept here: {reason}"
    return None


def _settings() -> Iterator[Setting[Any]]:
    for reason, lines in _BY_REASON.items():
        for line in lines.strip().splitlines():
            name, type_name, default, span, scope, *hidden = line.split()
            setting = Setting[Any](
                ConfigType[type_name.upper()],
                None,
                f"Has no effect: {reason}.",
                _LIMITS.get(name) or _range(span),
                scope=Scope(scope),
                hidden=bool(hidden),
            )
            setting.name = name
            if default != "null":
                setting.default = setting.parse("" if default == '""' else default)
            yield setting


def _range(span: str) -> Limit | None:
    low, _, high = span.partition("..")
    if not low:
        return None
    first = float(low) if "." in high else int(low)
    return between(first, float(high) if "." in high else int(high)) if high else at_least(first)


WITHOUT_EFFECT: Final[Mapping[str, Setting[Any]]] = MappingProxyType(
    {setting.name: setting for setting in _settings()}
)
"""What Apache Kafka would read and nothing here does, by key."""
