"""Topics, settings and the cluster itself, through a `Client`.

Invariant  Every method either did what it was asked, or raises the broker's refusal in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from tidelog.client.blocking import Client
from tidelog.client.errors import Answered, ClientError, NoController, require_accepted
from tidelog.client.metadata import ClusterView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC, ZERO_UUID
from tidelog.protocol.message import RequestMessage, ResponseT
from tidelog.protocol.messages.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
)
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseReplicaState,
)
from tidelog.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.protocol.messages.unregister_broker import UnregisterBrokerRequest

T = TypeVar("T", bound=Answered)
USE_CLUSTER_DEFAULT: Final = -1
_THE_QUORUM: Final = DescribeQuorumRequest(
    topics=(
        DescribeQuorumRequestTopicData(
            topic_name=METADATA_TOPIC, partitions=(DescribeQuorumRequestPartitionData(),)
        ),
    )
)


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
    last_fetch_ms: int
    """When it was last heard of, on the leader's wall clock; -1 where nobody tells."""
    last_caught_up_ms: int = -1
    """When it last had everything, on the same clock; -1 where it never had, or nobody tells."""


class QuorumListener(NamedTuple):
    """Where a voter listens for the quorum."""

    name: str
    host: str
    port: int


class QuorumDescription(NamedTuple):
    """The metadata quorum."""

    leader: int
    epoch: int
    high_watermark: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...]
    listeners: Mapping[int, tuple[QuorumListener, ...]]
    """Of each voter; empty where brokers do not tell."""


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
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[
                CreatableTopicConfig(name=key, value=value)
                for key, value in (configs or {}).items()
            ],
        )
        request = CreateTopicsRequest(
            topics=[topic], timeout_ms=self._timeout_ms, validate_only=validate_only
        )
        (result,) = self._checked(request, lambda answer: answer.topics, f"topic {name}")
        return partitions if result.num_partitions < 0 else result.num_partitions

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=self._timeout_ms
        )
        self._checked(request, lambda answer: answer.responses, f"topic {name}")

    def create_partitions(self, name: str, count: int) -> None:
        """Give a topic more partitions; `count` is the new total."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)],
            timeout_ms=self._timeout_ms,
        )
        self._checked(request, lambda answer: answer.results, f"topic {name}")

    def describe_configs(
        self, kind: ResourceType, name: str, keys: Sequence[str] | None = None
    ) -> list[ConfigEntry]:
        """Every setting of a topic or broker, with its documentation."""
        resource = DescribeConfigsResource(
            resource_type=int(kind), resource_name=name, configuration_keys=keys
        )
        (result,) = self._checked(
            DescribeConfigsRequest(resources=[resource], include_documentation=True),
            lambda answer: answer.results,
            _resource_text(kind, name),
            broker=_broker_of(kind, name),
        )
        return [
            ConfigEntry(
                entry.name,
                entry.value,
                ConfigSource(entry.config_source),
                entry.read_only,
                entry.is_sensitive,
                entry.documentation,
            )
            for entry in sorted(result.configs, key=lambda entry: entry.name)
        ]

    def alter_configs(
        self, kind: ResourceType, name: str, changes: Mapping[str, str | None]
    ) -> None:
        """Set each key to its value, or back to its default where the value is None."""
        configs = [
            IncrementalAlterConfigsRequestAlterableConfig(
                name=key, config_operation=1 if value is None else 0, value=value
            )
            for key, value in changes.items()
        ]
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=int(kind), resource_name=name, configs=configs
        )
        self._checked(
            IncrementalAlterConfigsRequest(resources=[resource]),
            lambda answer: answer.responses,
            _resource_text(kind, name),
            broker=_broker_of(kind, name),
        )

    def describe_cluster(self) -> tuple[str, int, list[BrokerEntry]]:
        """Cluster id, the broker that takes admin requests, and every registered broker."""
        request = DescribeClusterRequest(include_fenced_brokers=True)
        (answer,) = self._checked(request, lambda answer: [answer], "cluster")
        brokers = [
            BrokerEntry(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            for each in sorted(answer.brokers, key=lambda each: each.broker_id)
        ]
        return answer.cluster_id, answer.controller_id, brokers

    def describe_quorum(self) -> QuorumDescription:
        """Who leads the metadata log and who follows it; `NoController` when nobody does."""
        (answer,) = self._checked(_THE_QUORUM, lambda answer: [_led(answer)], "metadata quorum")
        (found,) = _described_partitions(answer)
        return QuorumDescription(
            found.leader_id,
            found.leader_epoch,
            found.high_watermark,
            tuple(map(_member, found.current_voters)),
            tuple(map(_member, found.observers)),
            {
                node.node_id: tuple(
                    QuorumListener(each.name, each.host, each.port) for each in node.listeners
                )
                for node in answer.nodes
            },
        )

    def add_voter(
        self, node_id: int, directory_id: UUID, listeners: Iterable[QuorumListener]
    ) -> None:
        """Give a controller that follows the metadata log a vote."""
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=self._timeout_ms,
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[AddRaftVoterRequestListener(**each._asdict()) for each in listeners],
        )
        self._checked(request, lambda answer: [answer], f"controller {node_id}")

    def remove_voter(self, node_id: int, directory_id: UUID) -> None:
        """Take a controller its vote."""
        request = RemoveRaftVoterRequest(
            cluster_id=None, voter_id=node_id, voter_directory_id=directory_id
        )
        self._checked(request, lambda answer: [answer], f"controller {node_id}")

    def unregister_broker(self, broker_id: int) -> None:
        """Have the cluster forget a broker."""
        request = UnregisterBrokerRequest(broker_id=broker_id)
        self._checked(request, lambda answer: [answer], f"broker {broker_id}")

    def require_controller(self) -> None:
        """Raise `NoController` if the cluster knows that nobody can decide anything.

        Brokers keep what a controller has to decide for as long as the request allows, since a
        controller may be elected soon; people rather hear at once that there is none. Whoever may
        not ask, or gets no answer, goes on: what is asked for next tells more.
        """
        try:
            _led(self._client.call(_THE_QUORUM))
        except NoController:
            raise
        except ClientError:
            return

    def _checked(
        self,
        request: RequestMessage[ResponseT],
        results_of: Callable[[ResponseT], Sequence[T]],
        what: str,
        *,
        broker: int | None = None,
    ) -> Sequence[T]:
        """Ask, and turn the first error among the results into a refusal."""

        def attempt() -> Sequence[T]:
            client = self._client
            connection = client.any_connection() if broker is None else client.broker(broker)
            results = results_of(connection.call(request))
            for result in results:
                require_accepted(result, what)
            return results

        missing = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)
        return self._client.retrying(attempt, hopeless=missing)


def _broker_of(kind: ResourceType, name: str) -> int | None:
    # A broker's own settings are known to that broker only; "" is the default of all brokers.
    return int(name) if kind is ResourceType.BROKER and name else None


def _resource_text(kind: ResourceType, name: str) -> str:
    return f"{kind.name.lower()} {name}" if name else "default of all brokers"


def _led(answer: DescribeQuorumResponse) -> DescribeQuorumResponse:
    if answer.error_code is ErrorCode.not_controller:
        raise NoController(answer.error_message or "there is no controller")
    for each in _described_partitions(answer):
        require_accepted(each, "metadata quorum")
    return answer


def _described_partitions(
    answer: DescribeQuorumResponse,
) -> Sequence[DescribeQuorumResponsePartitionData]:
    require_accepted(answer, "metadata quorum")
    return answer.topics[0].partitions


def _member(state: DescribeQuorumResponseReplicaState) -> QuorumMember:
    return QuorumMember(
        state.replica_id,
        state.replica_directory_id or ZERO_UUID,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )
