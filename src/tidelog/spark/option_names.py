"""The options there are, and what to say about one that there is not.

Spark hands options over without their case, so names are compared in lower case and shown in
the spelling that the documentation uses.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tidelog.spark.errors import OptionError

CLIENT_PREFIX: Final = "kafka."

READ: Final = (
    "bootstrap.servers",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "includeLeaderEpoch",
    "columns",
    "groupIdPrefix",
    "commitGroup",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
WRITE: Final = (
    "bootstrap.servers",
    "topic",
    "includeHeaders",
    "delivery",
    "ledgerTopic",
    "transactionalIdPrefix",
    "twoPhaseCommit",
    "checkpointLocation",
    "queryName",
)

OURS_ALONE: Final = {
    "auto.offset.reset": "say where to start with startingOffsets",
    "enable.auto.commit": "to show progress to a consumer group, set commitGroup",
    "enable.auto.offset.store": "to show progress to a consumer group, set commitGroup",
    "enable.partition.eof": "leave it out",
    "key.deserializer": "keys are binary; cast the column key",
    "value.deserializer": "values are binary; cast the column value",
    "key.serializer": "keys are binary or text; cast the column key",
    "value.serializer": "values are binary or text; cast the column value",
    "interceptor.classes": "leave it out, there is no JVM to load them",
    "partition.assignment.strategy": "leave it out, Spark assigns partitions",
    "transactional.id": "set transactionalIdPrefix, every task needs an id of its own",
    "enable.idempotence": "leave it out, the sink is always idempotent",
    "acks": "leave it out, the sink always waits for all in-sync replicas",
    "sasl.jaas.config": "set kafka.sasl.username and kafka.sasl.password",
    "ssl.truststore.location": "set kafka.ssl.ca.location to a PEM file",
    "ssl.truststore.password": "set kafka.ssl.ca.location to a PEM file",
}
"""Client settings that would break the source or that need no JVM, with what to do instead."""

TRANSLATED: Final = {
    "request.timeout.ms": "socket.timeout.ms",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "max.request.size": "message.max.bytes",
}
"""What the Java client calls differently from librdkafka."""

WITHOUT_COUNTERPART: Final = frozenset(
    {
        "max.poll.records",
        "default.api.timeout.ms",
        "max.block.ms",
        "buffer.memory",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "allow.auto.create.topics",
    }
)
"""Settings of the Java client that librdkafka lacks: it does by itself what they tune, or we do."""


def checked(options: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The options under their documented spelling; any other one is refused."""
    spelling = {name.lower(): name for name in names}
    found = {}
    for given, text in options.items():
        name = given.lower()
        if name.startswith(CLIENT_PREFIX):
            continue
        if name not in spelling:
            raise OptionError(_unknown(given, spelling.values()))
        found[spelling[name]] = text
    return found


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The `kafka.*` options as librdkafka calls them, and the bootstrap servers."""
    found = dict(_client_settings(options))
    plain = options.get("bootstrap.servers")
    servers = found.get("bootstrap.servers", plain)
    if not servers:
        raise OptionError("no broker to start from: set kafka.bootstrap.servers to host:port")
    if plain is not None and plain != servers:
        raise OptionError(
            f"kafka.bootstrap.servers is {servers} and bootstrap.servers is {plain}: "
            "leave one of them out"
        )
    return {**found, "bootstrap.servers": servers}


def _client_settings(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for given, text in options.items():
        name = given.lower()
        if not name.startswith(CLIENT_PREFIX):
            continue
        setting = name.removeprefix(CLIENT_PREFIX)
        if setting in OURS_ALONE:
            raise OptionError(f"{given} is not yours to set: {OURS_ALONE[setting]}")
        if setting not in WITHOUT_COUNTERPART:
            yield TRANSLATED.get(setting, setting), text


def _unknown(given: str, names: Iterable[str]) -> str:
    spelling = {name.lower(): name for name in names}
    if close := difflib.get_close_matches(given.lower(), spelling, n=1, cutoff=0.7):
        return f"there is no option {given}; did you mean {spelling[close[0]]}?"
    return (
        f"there is no option {given}; there are {', '.join(sorted(spelling.values()))}, "
        "and settings of the client as kafka.*"
    )
