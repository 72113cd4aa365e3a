"""The active controller: every decision about the cluster, made by looking at one image.

A decision's records are appended to the metadata log and replayed into `image` at once, so that
the next decision sees them; its reply is held until they are committed. A controller that loses
leadership is thrown away together with its image.

    decision = controller.create_topics(requests)
    offsets = quorum.append(decision.records)          # the caller's part
    controller.image.replay(record, offset)            # for each record

Invariant  Nothing here changes the image. Sessions are the only state of its own, and they are
           about brokers being alive, which no log can tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from tidelog.controller import (
    acls,
    activation,
    alter_partition,
    brokers,
    client_quotas,
    configs,
    directories,
    elections,
    features,
    heartbeats,
    partitions,
    preferred_leaders,
    producer_ids,
    reassignment,
    scram_credentials,
    topics,
)
from tidelog.controller.image import ClusterImage
from tidelog.controller.leadership import PartitionLeadership
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import Charge, ControllerResult, free
from tidelog.controller.sessions import BrokerSessions
from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.security.acls import Acl


class Controller:
    """Decides; the caller appends, replays and answers."""

    def __init__(
        self, image: ClusterImage, entropy: Entropy, config: NodeConfig, cluster_id: str
    ) -> None:
        self.image = image
        self.sessions = BrokerSessions(
            timeout_ms=config.broker_session_timeout_ms,
            disconnect_grace_ms=config.broker_disconnect_grace_ms,
            reconnect_grace_ms=config.broker_reconnect_grace_ms,
        )
        self._entropy = entropy
        self._config = config
        self._cluster_id = cluster_id

    @property
    def _leadership(self) -> PartitionLeadership:
        return PartitionLeadership(self.image, self._config)

    def _leadership_at(self, now: Now) -> PartitionLeadership:
        """For elections that nobody asked for: rather not of a broker that clients cannot reach."""
        hard_to_reach = self.sessions.hard_to_reach(now.monotonic_ms)
        return PartitionLeadership(self.image, self._config, hard_to_reach)

    # -- becoming active -----------------------------------------------------------------------

    def activate(
        self, now: Now, bootstrap: Sequence[MetadataRecord] = ()
    ) -> ControllerResult[None]:
        """Begin to serve: every broker gets a whole session, an empty log its first records."""
        self.sessions.restart(self.image.brokers, now.monotonic_ms)
        return activation.activation_records(self.image, self._config, bootstrap)

    # -- topics --------------------------------------------------------------------------------

    def create_topics(
        self,
        requests: Collection[topics.NewTopic],
        *,
        validate_only: bool = False,
        charge: Charge = free,
    ) -> ControllerResult[list[tuple[str, topics.CreatedTopic | Refusal]]]:
        return topics.create_topics(
            self.image,
            self._entropy,
            self._config,
            requests,
            validate_only=validate_only,
            charge=charge,
        )

    def delete_topics(
        self, requests: Collection[tuple[str | None, UUID]], charge: Charge = free
    ) -> ControllerResult[list[topics.TopicDeletion]]:
        return topics.delete_topics(self.image, self._config, requests, charge)

    def create_partitions(
        self,
        requests: Collection[partitions.NewPartitions],
        *,
        validate_only: bool = False,
        charge: Charge = free,
    ) -> ControllerResult[list[tuple[str, Refusal | None]]]:
        return partitions.create_partitions(
            self.image, self._entropy, requests, validate_only=validate_only, charge=charge
        )

    # -- leaders, in-sync sets, replicas -------------------------------------------------------

    def alter_partition(
        self,
        broker_id: int,
        broker_epoch: int,
        topics: Iterable[tuple[UUID, Sequence[alter_partition.IsrProposal]]],
    ) -> ControllerResult[alter_partition.AlteredTopics | Refusal]:
        """A leader's proposals; a refusal with `new_leader_elected` comes with its record."""
        return alter_partition.alter_partition(
            self.image, self._leadership, broker_id, broker_epoch, topics
        )

    def elect_leaders(
        self, election_type: int, requests: Iterable[tuple[str, Sequence[int]]] | None
    ) -> ControllerResult[elections.ElectedTopics | Refusal]:
        """Of the named partitions, or of all."""
        return elections.elect_leaders(self.image, self._leadership, election_type, requests)

    def retry_unclean_elections(self, now: Now) -> ControllerResult[elections.ElectionPass]:
        """To be called when the last pass said so, the first time an interval after activation."""
        return elections.retry_unclean_elections(self._leadership, self._config, now)

    def balance_leaders(self, now: Now) -> ControllerResult[elections.ElectionPass]:
        """To be called when the last pass said so, the first time an interval after activation."""
        return preferred_leaders.balance_leaders(
            self.image,
            self._leadership,
            self._config,
            now,
            hard_to_reach=self.sessions.hard_to_reach(now.monotonic_ms),
        )

    def alter_partition_reassignments(
        self,
        requests: Iterable[tuple[str, Sequence[reassignment.NewPartitionReassignment]]],
        *,
        allow_replication_factor_change: bool = True,
    ) -> ControllerResult[reassignment.ReassignedTopics | Refusal]:
        return reassignment.alter_partition_reassignments(
            self.image,
            self._leadership,
            requests,
            allow_replication_factor_change=allow_replication_factor_change,
        )

    def list_partition_reassignments(
        self, requests: Iterable[tuple[str, Sequence[int]]] | None = None
    ) -> ControllerResult[reassignment.OngoingTopics]:
        """In the named partitions, or in all."""
        return ControllerResult((), reassignment.list_partition_reassignments(self.image, requests))

    # -- settings ------------------------------------------------------------------------------

    def incremental_alter_configs(
        self, requests: Collection[configs.ResourceChange], *, validate_only: bool = False
    ) -> ControllerResult[configs.AlteredConfigs]:
        return configs.incremental_alter_configs(
            self.image, self._config, requests, validate_only=validate_only
        )

    def alter_configs(
        self, requests: Collection[configs.ResourceChange], *, validate_only: bool = False
    ) -> ControllerResult[configs.AlteredConfigs]:
        return configs.alter_configs(
            self.image, self._config, requests, validate_only=validate_only
        )

    def update_features(
        self, updates: Collection[features.FeatureUpdate], *, validate_only: bool = False
    ) -> ControllerResult[dict[str, Refusal | None]]:
        return features.update_features(
            self.image, self._config, updates, validate_only=validate_only
        )

    def alter_client_quotas(
        self,
        alterations: Iterable[client_quotas.QuotaAlteration],
        *,
        validate_only: bool = False,
    ) -> ControllerResult[client_quotas.AlteredQuotas]:
        return client_quotas.alter_client_quotas(
            self.image.access, alterations, validate_only=validate_only
        )

    # -- access control lists ------------------------------------------------------------------

    def create_acls(
        self, rules: Collection[acls.AclText]
    ) -> ControllerResult[list[Refusal | None]]:
        return acls.create_acls(self.image, self._entropy, rules)

    def delete_acls(
        self, filters: Collection[acls.AclText]
    ) -> ControllerResult[list[list[Acl] | Refusal]]:
        return acls.delete_acls(self.image, filters)

    def alter_scram_credentials(
        self,
        deletions: Collection[scram_credentials.ScramDeletion],
        upsertions: Collection[scram_credentials.ScramUpsertion],
    ) -> ControllerResult[dict[str, Refusal | None]]:
        return scram_credentials.alter_scram_credentials(self.image, deletions, upsertions)

    # -- brokers and controllers ---------------------------------------------------------------

    def register_broker(
        self, registration: brokers.RegisterBroker, *, next_offset: int, now: Now
    ) -> ControllerResult[int | Refusal]:
        """`next_offset` is where the decision's first record will be appended."""
        if registration.cluster_id != self._cluster_id:
            why = f"This is cluster {self._cluster_id}, not {registration.cluster_id}."
            return ControllerResult((), Refusal(ErrorCode.inconsistent_cluster_id, why))
        broker_id = registration.broker_id
        decision = brokers.register_broker(
            self.image,
            self._leadership_at(now),
            registration,
            next_offset=next_offset,
            has_live_session=self.sessions.is_live(broker_id, now.monotonic_ms),
        )
        existing = self.image.brokers.get(broker_id)
        if existing is not None and existing.broker_epoch == decision.reply:
            self.sessions.touch(broker_id, now.monotonic_ms)
        elif not isinstance(decision.reply, Refusal):
            is_known = existing is not None
            self.sessions.begin(broker_id, now.monotonic_ms, is_known_to_clients=is_known)
        return decision

    def broker_heartbeat(
        self, heartbeat: brokers.BrokerHeartbeat, *, next_offset: int, now: Now
    ) -> ControllerResult[brokers.BrokerHeartbeatReply | Refusal]:
        """`next_offset` is where the decision's first record will be appended."""
        return heartbeats.broker_heartbeat(
            self.image,
            self._leadership_at(now),
            self.sessions,
            heartbeat,
            next_offset=next_offset,
            now_ms=now.monotonic_ms,
        )

    def broker_disconnected(self, broker_id: int, now: Now) -> None:
        """The connection a broker sends its heartbeats on closed."""
        self.sessions.disconnected(broker_id, now.monotonic_ms)

    def fence_one_overdue(self, now: Now) -> ControllerResult[int | None]:
        """Fence the broker that has been overdue for the longest, if any; the reply names it.

        One at a time, so that each fencing sees the effect of the one before.
        """
        broker_id = self.sessions.overdue(self._unfenced(), now.monotonic_ms)
        if broker_id is None:
            return ControllerResult((), None)
        leadership = self._leadership_at(now)
        records = heartbeats.fencing_records(
            self.image.brokers[broker_id],
            leadership,
            f"broker {broker_id} {self.sessions.why_overdue(broker_id)}",
        )
        return ControllerResult(tuple(records), broker_id, atomic=False, causes=leadership.causes)

    @property
    def next_deadline_ms(self) -> int | None:
        """When the next broker will be overdue, on the monotonic clock."""
        return self.sessions.next_deadline_ms(self._unfenced())

    def _unfenced(self) -> Iterable[int]:
        return (broker.broker_id for broker in self.image.brokers.values() if not broker.fenced)

    def unregister_broker(self, broker_id: int) -> ControllerResult[Refusal | None]:
        decision = brokers.unregister_broker(self.image, self._leadership, broker_id)
        if decision.reply is None:
            self.sessions.end(broker_id)
        return decision

    def register_controller(
        self, joining: brokers.RegisterController
    ) -> ControllerResult[Refusal | None]:
        return brokers.register_controller(self.image, joining)

    def assign_replicas_to_directories(
        self, broker_id: int, broker_epoch: int, places: Iterable[directories.ReplicaDirectory]
    ) -> ControllerResult[directories.AssignedReplicas | Refusal]:
        return directories.assign_replicas_to_directories(
            self.image, self._leadership, broker_id, broker_epoch, places
        )

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int
    ) -> ControllerResult[producer_ids.ProducerIdBlock | Refusal]:
        return producer_ids.allocate_producer_ids(self.image, broker_id, broker_epoch)
