"""Topics, settings and the cluster itself, through a `Client`.

Invariant  Every method either did what it was asked, or raises the broker's refusal in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from tidelog.client.blocking import Client
from tidelog.client.errors import ClientError, NoController, RequestRefused
from tidelog.client.metadata import ClusterView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC, ZERO_UUID
from tidelog.protocol.apis import ApiKey

USE_CLUSTER_DEFAULT: Final = -1
_THE_QUORUM: Final = {
    "topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
}


class ResourceType(IntEnum):
    """What a setting belongs to."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """Where the value of a setting comes from."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    CLUSTER_DEFAULT = 3
    FILE = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigEntry(NamedTuple):
    """One setting as a broker shows it."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str | None


class BrokerEntry(NamedTuple):
    """One registered broker."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


class QuorumMember(NamedTuple):
    """A controller or observer as the quorum's leader sees it."""

    node_id: int
    directory_id: UUID
    end_offset: int


class QuorumDescription(NamedTuple):
    """The metadata quorum."""

    leader: int
    epoch: int
    high_watermark: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...]


class Admin:
    """The requests that change or describe a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._timeout_ms = int(client.request_timeout_s * 1000)

    def topics(self, names: Iterable[str] | None = None) -> ClusterView:
        """Metadata of the named topics, or of all; never creates one."""
        wanted = None if names is None else list(names)
        return self._client.retrying(lambda: self._client.refresh(wanted))

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = USE_CLUSTER_DEFAULT,
        replication_factor: int = USE_CLUSTER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> int:
        """Create a topic; the number of partitions it has got."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
        }
        fields = {"topics": [topic], "timeout": self._timeout_ms, "validate_only": validate_only}
        (result,) = self._checked(
            ApiKey.CREATE_TOPICS, fields, lambda body: body.topics, f"topic {name}"
        )
        return int(getattr(result, "num_partitions", partitions))

    def delete_topic(self, name: str) -> None:
        fields = {
            "topics": [{"name": name, "topic_id": None}],
            "topic_names": [name],
            "timeout": self._timeout_ms,
        }
        self._checked(ApiKey.DELETE_TOPICS, fields, lambda body: body.responses, f"topic {name}")

    def create_partitions(self, name: str, count: int) -> None:
        """Give a topic more partitions; `count` is the new total."""
        fields = {
            "topics": [{"name": name, "count": count, "assignments": None}],
            "timeout": self._timeout_ms,
            "validate_only": False,
        }
        self._checked(ApiKey.CREATE_PARTITIONS, fields, lambda body: body.results, f"topic {name}")

    def describe_configs(
        self, kind: ResourceType, name: str, keys: Sequence[str] | None = None
    ) -> list[ConfigEntry]:
        """Every setting of a topic or broker, with its documentation."""
        resource = {
            "resource_type": int(kind),
            "resource_name": name,
            "configuration_keys": keys,
        }
        fields = {
            "resources": [resource],
            "include_synonyms": False,
            "include_documentation": True,
        }
        (result,) = self._checked(
            ApiKey.DESCRIBE_CONFIGS,
            fields,
            lambda body: body.results,
            _resource_text(kind, name),
            broker=_broker_of(kind, name),
        )
        return [
            ConfigEntry(
                entry.name,
                entry.value,
                ConfigSource(int(entry.config_source)),
                bool(entry.read_only),
                bool(entry.is_sensitive),
                getattr(entry, "documentation", None),
            )
            for entry in sorted(result.configs, key=lambda entry: str(entry.name))
        ]

    def alter_configs(
        self, kind: ResourceType, name: str, changes: Mapping[str, str | None]
    ) -> None:
        """Set each key to its value, or back to its default where the value is None."""
        configs = [
            {"name": key, "config_operation": 1 if value is None else 0, "value": value}
            for key, value in changes.items()
        ]
        resource = {"resource_type": int(kind), "resource_name": name, "configs": configs}
        fields = {"resources": [resource], "validate_only": False}
        self._checked(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            fields,
            lambda body: body.responses,
            _resource_text(kind, name),
            broker=_broker_of(kind, name),
        )

    def describe_cluster(self) -> tuple[str, int, list[BrokerEntry]]:
        """Cluster id, the broker that takes admin requests, and every registered broker."""
        fields = {
            "include_cluster_authorized_operations": False,
            "endpoint_type": 1,
            "include_fenced_brokers": True,
        }
        (body,) = self._checked(ApiKey.DESCRIBE_CLUSTER, fields, lambda body: [body], "cluster")
        brokers = [
            BrokerEntry(
                int(each.broker_id),
                each.host,
                int(each.port),
                each.rack,
                bool(getattr(each, "is_fenced", False)),
            )
            for each in sorted(body.brokers, key=lambda each: int(each.broker_id))
        ]
        return str(body.cluster_id), int(body.controller_id), brokers

    def describe_quorum(self) -> QuorumDescription:
        """Who leads the metadata log and who follows it; `NoController` when nobody does."""
        (found,) = self._checked(
            ApiKey.DESCRIBE_QUORUM, _THE_QUORUM, _described_partitions, "metadata quorum"
        )
        return QuorumDescription(
            int(found.leader_id),
            int(found.leader_epoch),
            int(found.high_watermark),
            tuple(map(_member, found.current_voters)),
            tuple(map(_member, found.observers)),
        )

    def require_controller(self) -> None:
        """Raise `NoController` if the cluster knows that nobody can decide anything.

        Brokers keep what a controller has to decide for as long as the request allows, since a
        controller may be elected soon; people rather hear at once that there is none. Whoever may
        not ask, or gets no answer, goes on: what is asked for next tells more.
        """
        try:
            _described_partitions(self._client.call(ApiKey.DESCRIBE_QUORUM, _THE_QUORUM))
        except NoController:
            raise
        except ClientError:
            return

    def _checked(
        self,
        api_key: ApiKey,
        fields: Mapping[str, Any],
        results_of: Callable[[Any], Sequence[Any]],
        what: str,
        *,
        broker: int | None = None,
    ) -> Sequence[Any]:
        """Ask, and turn the first error among the results into a refusal."""

        def attempt() -> Sequence[Any]:
            client = self._client
            connection = client.any_connection() if broker is None else client.broker(broker)
            results = results_of(connection.call(api_key, fields))
            for result in results:
                code = ErrorCode(result.error_code)
                if code is not ErrorCode.none:
                    raise RequestRefused(code, what, getattr(result, "error_message", None))
            return results

        missing = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)
        return self._client.retrying(attempt, hopeless=missing)


def _broker_of(kind: ResourceType, name: str) -> int | None:
    # A broker's own settings are known to that broker only; "" is the default of all brokers.
    return int(name) if kind is ResourceType.BROKER and name else None


def _resource_text(kind: ResourceType, name: str) -> str:
    return f"{kind.name.lower()} {name}" if name else "default of all brokers"


def _described_partitions(body: Any) -> Sequence[Any]:
    if body.error_code == ErrorCode.not_controller:
        raise NoController(getattr(body, "error_message", None) or "there is no controller")
    return body.topics[0].partitions if body.topics else [body]


def _member(state: Any) -> QuorumMember:
    return QuorumMember(
        int(state.replica_id),
        getattr(state, "replica_directory_id", None) or ZERO_UUID,
        int(state.log_end_offset),
    )
